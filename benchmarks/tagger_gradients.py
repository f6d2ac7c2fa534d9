"""How long the gradients of single rows of a tagger are, before any training.

    python benchmarks/tagger_gradients.py data/conll2003

For each decoder and reduction: the median norm of the gradients of short and of long rows, the
exponent with which it grows with the number of words, and the part of its square that transitions
have, beside their part of the weights. Noise is spread evenly over weights.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

import numpy as np
import torch

from uedp_bench.corpus import Corpus
from uedp_bench.mechanism import CorpusStats
from uedp_bench.registry import models, sources, tasks
from uedp_bench.run_context import Run
from uedp_bench.text.public_text import add_public

ROWS = 80
SHORT, LONG = 8, 25
PUBLIC = CorpusStats(users=1, rows=1, sensitive_rows=1, entities=1, public=True)


def some_rows(path: Path) -> Corpus:
    """Training rows drawn by a fixed seed, with the public ones, which make the vocabulary."""
    source = sources.create("conll2003", {"path": path})
    corpus: Corpus = add_public(source.read(), source.params)
    train = np.flatnonzero(corpus.where("train"))
    drawn = np.random.default_rng(0).choice(train, ROWS, replace=False)
    return corpus.take(np.sort(np.concatenate([drawn, np.flatnonzero(corpus.where("public"))])))


def measured(corpus: Corpus, decoder: str, reduction: str) -> str:
    """A line of the table."""
    model = models.create("bilstm", {"units": 48, "embedding_size": 32})
    task = tasks.get("tagging").create({"decoder": decoder, "reduction": reduction}, model=model)
    learner = task.stages(corpus, task.vocabulary(corpus), Run(1, PUBLIC))[-1]
    named = dict(learner.module.named_parameters())
    weights = list(named.values())
    norms, lengths, parts = [], [], []
    for row in np.flatnonzero(learner.corpus.where("train")).tolist():
        batch = learner.batch(np.array([row]), np.zeros(1, dtype=np.int64))
        losses = learner.losses(learner.module, batch)
        mean = losses.nats[0] / losses.targets[0]
        squares = {
            name: float(each.pow(2).sum())
            for name, each in zip(named, torch.autograd.grad(mean, weights), strict=True)
        }
        total = sum(squares.values())
        norms.append(total**0.5)
        lengths.append(int(batch["lengths"][0]))
        parts.append(sum(v for name, v in squares.items() if name.startswith("crf")) / total)
    size, words = np.array(norms), np.array(lengths)
    exponent = np.polyfit(np.log(words), np.log(size), 1)[0]
    own = sum(w.numel() for name, w in named.items() if name.startswith("crf"))
    share = own / sum(w.numel() for w in weights)
    return (
        f"{decoder:8} {reduction:5} up to {SHORT} words {np.median(size[words <= SHORT]):6.1f}  "
        f"{LONG} and more {np.median(size[words >= LONG]):6.1f}  exponent {exponent:5.2f}  "
        f"transitions {np.median(parts):.2%} of the square, {share:.2%} of the weights"
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = some_rows(Path(sys.argv[1]))
    for decoder, reduction in product(("softmax", "crf"), ("mean", "sum")):
        print(measured(found, decoder, reduction))
