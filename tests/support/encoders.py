"""Releases that show a table of representations, and a corpus with private attributes for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from uedp_bench.contracts.leakage import Leakage
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, FloatArray, IntArray

SIZES = {"train": 600, "valid": 200, "test": 300}


class TableEncoder(Release):
    """The representation of a row is the row of a table that its origin names."""

    def __init__(self, table: FloatArray) -> None:
        self.table = table

    def representations(self, corpus: Corpus) -> FloatArray:
        return self.table[corpus.origin]


class TableClassifier(TableEncoder):
    """The same, with log-probabilities of classes from a second table."""

    def __init__(self, table: FloatArray, logprobs: FloatArray) -> None:
        super().__init__(table)
        self.logprobs = logprobs

    def class_logprobs(self, corpus: Corpus) -> FloatArray:
        return self.logprobs[corpus.origin]


class VectorEncoder(Release):
    """What was published is the representation."""

    def __init__(self, published: Corpus) -> None:
        self.published = published

    def representations(self, corpus: Corpus) -> FloatArray:
        if corpus.vectors is None:
            raise ValueError("asked for text, and vectors were published")
        return corpus.vectors


def authors(seed: int, *, texts: tuple[str, ...] | None = None, share: float = 0.4) -> Corpus:
    """Rows of users with two rows each; `sex` and `age` are drawn by user, `topic` by row."""
    rng = np.random.default_rng(seed)
    rows = sum(SIZES.values())
    users = np.arange(rows) // 2
    split = np.repeat([SPLITS.index(name) for name in SIZES], list(SIZES.values()))
    return Corpus(
        texts=texts or tuple(f"text number {i}" for i in range(rows)),
        groups={"user": users},
        split=split,
        labels=rng.integers(3, size=rows),
        label_names=("a", "b", "c"),
        attributes={
            "sex": (rng.random(rows) < share)[users].astype(np.int64),
            "age": rng.integers(3, size=rows)[users],
        },
        attribute_names={"sex": ("f", "m"), "age": ("20", "30", "40")},
    )


def noise(corpus: Corpus, seed: int, width: int = 8) -> FloatArray:
    """(rows, width) numbers that say nothing about anybody."""
    return np.random.default_rng(seed).normal(size=(len(corpus), width))


def with_coordinate(table: FloatArray, values: IntArray) -> FloatArray:
    """The table with one coordinate that is `values`."""
    out = table.copy()
    out[:, 3] = values
    return out


def run_of(seed: int) -> Run:
    """A run without a trainer."""
    return Run(seed, CorpusStats(1, 1, 1, 1, public=False))


def attacked(kind: Any, release: Release, corpus: Corpus, seed: int = 1, **params: Any) -> Leakage:
    """Leakage of a release by an attack, on a corpus in which the attack planted its rows."""
    attack = kind.create(params)
    planted, secret = attack.plant(corpus, np.random.default_rng(seed))
    leakage: Leakage = attack.run(release, secret, planted, run_of(seed))
    return leakage
