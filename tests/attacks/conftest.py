"""A small development corpus for attacks: users, names, a public split and a test split."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from uedp_bench.contracts.run_context import Retrain, Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Spans

CorpusMaker = Callable[..., Corpus]

SYLLABLES = ["ba", "do", "fi", "gu", "ke", "lo", "mi", "na", "pu", "re"]
WORDS = [a + b for a in SYLLABLES for b in SYLLABLES]
USERS, ROWS = 500, 6


def make(users: int = USERS, rows: int = ROWS, seed: int = 0) -> Corpus:
    """`users` with `rows` training rows each; 200 valid, 200 test and 1,200 public rows.

    Some training rows end with a labelled name; every split has users of its own.
    """
    rng = np.random.default_rng(seed)
    sizes = {"train": users * rows, "valid": 200, "test": 200, "public": 1200}
    # Zipf-like weights: some words are frequent, as in text.
    weights = 1.0 / np.arange(1, len(WORDS) + 1)
    texts, split, owner, mentions = [], [], [], []
    for name, size in sizes.items():
        first = (max(owner) + 1) if owner else 0
        drawn = rng.choice(len(WORDS), size=(size, 8), p=weights / weights.sum())
        for i, row in enumerate(drawn.tolist()):
            text = " ".join(WORDS[w] for w in row)
            if name == "train" and i % 4 == 0:
                mentions.append((len(texts), len(text) + 1, len(text) + 5, 1))
                text = f"{text} Anna"
            texts.append(text)
            split.append(SPLITS.index(name))
            owner.append(first + i // rows)
    return Corpus(
        texts=tuple(texts),
        groups={"user": np.array(owner, dtype=np.int64)},
        split=np.array(split, dtype=np.int64),
        entities=Spans.build(texts, mentions),
        entity_types=("LOC", "PER"),
    )


@pytest.fixture(scope="session")
def development_corpus() -> Corpus:
    return make()


@pytest.fixture(scope="session")
def make_corpus() -> CorpusMaker:
    return make


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    """Runs by seed, with or without a trainer for reference models."""
    stats = CorpusStats(
        users=USERS, rows=USERS * ROWS, sensitive_rows=USERS * ROWS // 4, entities=1, public=False
    )

    def of_seed(seed: int, retrainer: Retrain | None = None) -> Run:
        return Run(seed, stats, retrainer=retrainer)

    return of_seed
