"""A learner in two parts: mean word vectors, then a linear head without any normalisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch, Losses, SplitLearner
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, IntArray

MASK = 0
"""Token of a dropped word; word w of the texts has the token w + 1."""


class Words(nn.Module):
    """Words have vectors; a text's representation is the mean of them; the head is linear."""

    def __init__(self, words: int, width: int, classes: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.vectors = nn.Parameter(torch.randn(words + 1, width, generator=generator))
        self.weight = nn.Parameter(0.01 * torch.randn(classes, width, generator=generator))
        self.bias = nn.Parameter(torch.zeros(classes))

    def represent(self, tokens: Tensor) -> Tensor:
        return self.vectors[tokens].mean(dim=1)


class WordsLearner(SplitLearner):
    """Texts of equally many words, written as numbers."""

    vocabulary = None
    vectorised = False
    row_size = 1

    def __init__(self, corpus: Corpus, words: int, width: int, seed: int = 0) -> None:
        assert corpus.labels is not None
        self.corpus, self.width = corpus, width
        self.tokens = np.array([[int(w) + 1 for w in text.split()] for text in corpus.texts])
        self.labels = torch.from_numpy(corpus.labels)
        self.module: nn.Module = Words(words, width, len(corpus.label_names), seed)
        self.seen: list[int] = []

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        return self.masked_batch(rows, np.random.default_rng(seeds), 0.0)

    def masked_batch(
        self, rows: Sequence[int] | IntArray, rng: np.random.Generator, rate: float
    ) -> Batch:
        chosen = np.asarray(rows)
        self.seen.extend(chosen.tolist())
        dropped = rng.random(self.tokens[chosen].shape) < rate
        tokens = np.where(dropped, MASK, self.tokens[chosen])
        return {"tokens": torch.from_numpy(tokens), "labels": self.labels[chosen]}

    def encode(self, module: nn.Module, batch: Batch) -> Tensor:
        represented: Tensor = module.represent(batch["tokens"])  # type: ignore[operator]
        return represented

    def head_losses(self, module: nn.Module, z: Tensor, batch: Batch) -> Losses:
        logits = nn.functional.linear(z, module.weight, module.bias)  # type: ignore[arg-type]
        nats = nn.functional.cross_entropy(logits, batch["labels"], reduction="none")
        return Losses(nats, torch.ones_like(nats))

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        return self.head_losses(module, self.encode(module, batch), batch)

    def release(self, module: nn.Module) -> Release:
        raise NotImplementedError


def topic_corpus(rows: int = 240, seed: int = 0, length: int = 6) -> Corpus:
    """Texts over words 0 to 7: word 0 or 1 tells the label, word 2 or 3 an attribute, others none.

    Of four rows the last but one is `valid` and the last `test`.
    """
    rng = np.random.default_rng(seed)
    label, gender = rng.integers(2, size=rows), rng.integers(2, size=rows)
    words = rng.integers(4, 8, size=(rows, length))
    words[:, 0], words[:, 1] = label, 2 + gender
    split = np.full(rows, SPLITS.index("train"))
    split[2::4], split[3::4] = SPLITS.index("valid"), SPLITS.index("test")
    return Corpus(
        texts=tuple(" ".join(map(str, row)) for row in words.tolist()),
        groups={"user": np.arange(rows)},
        split=split,
        labels=label,
        label_names=("no", "yes"),
        attributes={"gender": gender},
        attribute_names={"gender": ("f", "m")},
    )


def split_run(seed: int = 0) -> Run:
    return Run(seed, CorpusStats(10, 10, 0, 0, public=True))
