"""Labels of real texts, by a network in the clear and by two parties: do they agree, at what price?

    python benchmarks/secure_text.py --path data/ag_news --pretrained all-MiniLM-L6-v2

The network of the paper and a linear classifier learn topics of AG news from the same vectors of a
public encoder. Both then classify the same test texts in the clear and by the protocol: accuracy on
the first 400, agreement on the first 2,000, and what 200 texts in one batch take.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from uedp_bench.asking import class_labels
from uedp_bench.corpus import Corpus
from uedp_bench.mechanism import CorpusStats
from uedp_bench.registry import mechanisms, models, sources, tasks
from uedp_bench.run_context import Run

SOURCE = {"sample": 0.285, "public_share": 0.2}
TRAINING = {"epochs": 20, "batch_size": 50, "learning_rate": 2e-3}
ACCURACY, AGREEMENT, BATCH = 400, 2000, 200


def trained(model: str, pretrained: str, corpus: Corpus) -> tuple[Any, int]:
    """The classifier after ordinary training, and its weights."""
    run = Run(1, CorpusStats(1, 1, 0, 0, public=True))
    made = models.create(model, {"pretrained": pretrained})
    task = tasks.create("text-classification", {"dropout": 0}, model=made)
    rows = corpus.only("train", "valid")
    (learner,) = task.stages(rows, None, run)
    module, _ = mechanisms.create("noiseless", TRAINING).train(learner, rows, run)
    return learner.release(module), sum(each.numel() for each in module.parameters())


def served(release: Any, **params: Any) -> tuple[Any, Run]:
    """The same behind the protocol, and the run whose counters it fills."""
    run = Run(1, CorpusStats(1, 1, 0, 0, public=True))
    return mechanisms.create("mpc", params).serve(release, run), run


def line(name: str, release: Any, weights: int, test: Corpus) -> str:
    """One line of the table."""
    first = test.take(np.arange(min(ACCURACY, len(test))))
    many = test.take(np.arange(min(AGREEMENT, len(test))))
    batch = test.take(np.arange(min(BATCH, len(test))))
    truth = np.asarray(first.labels)
    plain, computed = class_labels(release, many), served(release)[0].labels(many)
    right = [int((told[: len(first)] == truth).sum()) for told in (plain, computed)]
    asked, run = served(release)
    asked.labels(batch)
    cost = run.counts
    return (
        f"| {name} | {weights:,} | {right[0] / len(first):.1%} | {right[1] / len(first):.1%} | "
        f"{int((plain == computed).sum()):,} of {len(many):,} | {cost['mpc_rounds']:,.0f} | "
        f"{cost['mpc_bytes_party'] / 1e6:,.3f} | {cost['mpc_bytes_dealer'] / 1e6:,.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, required=True, help="folder of AG news")
    parser.add_argument("--pretrained", default="sentence-transformers/all-MiniLM-L6-v2")
    given = parser.parse_args()
    corpus = sources.create("ag-news", {"path": given.path, **SOURCE}).load()
    test = corpus.only("test")
    print(f"{int(corpus.where('train').sum()):,} texts to learn from")
    print("| | weights | accuracy in the clear | by the protocol | labels agree | rounds | "
          "MB a party | MB of the dealer |")  # fmt: skip
    print("| :-- | --: | --: | --: | --: | --: | --: | --: |")
    for name, model in (("text-cnn", "text-cnn"), ("linear", "sentence-encoder")):
        release, weights = trained(model, given.pretrained, corpus)
        print(line(name, release, weights, test), flush=True)


if __name__ == "__main__":
    main()
