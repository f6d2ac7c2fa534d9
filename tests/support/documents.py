"""Documents on topics, and a sentence encoder without weights: the topic's centre and a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest

from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus

STATS = CorpusStats(users=2, rows=3, sensitive_rows=0, entities=0, public=True)
SIZE = 16


def seeded(text: str) -> np.random.Generator:
    return np.random.default_rng(int(hashlib.sha256(text.encode()).hexdigest()[:12], 16))


class HashedSentences:
    """`topic3 word17 ...` is the centre of topic 3 plus noise that is a function of the text."""

    calls = 0

    def __init__(self, name: str, device: str, field: str = "pretrained") -> None:
        self.size = SIZE

    def embed(self, sentences: Sequence[str], *, cache: bool = True) -> np.ndarray:
        type(self).calls += 1
        rows = [
            2 * seeded(each.split()[0]).normal(size=SIZE) + seeded(each).normal(size=SIZE)
            for each in sentences
        ]
        return np.array(rows, dtype=np.float32).reshape(len(rows), SIZE)


@pytest.fixture
def hashed_sentences(monkeypatch, tmp_path):
    """The encoder above in place of pretrained ones, and a cache of this test's own."""
    monkeypatch.setattr("uedp_bench.text.sentences.SentenceEmbedder", HashedSentences)
    monkeypatch.setattr(
        "uedp_bench.text.sentences.split_sentences",
        lambda texts: [[part for part in text.split(" / ") if part] for text in texts],
    )
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(HashedSentences, "calls", 0)
    return HashedSentences


def text_on(topic: int, sentences: int, name: str) -> str:
    return " / ".join(f"topic{topic} {name} {at}" for at in range(sentences))


def corpus_on_topics(splits: dict[str, int], sentences=(8, 14), topics=4, seed=0) -> Corpus:
    """So many documents of each split, their topics as labels."""
    rng = np.random.default_rng(seed)
    rows = sum(splits.values())
    topic = rng.integers(topics, size=rows)
    lengths = rng.integers(*sentences, size=rows)
    texts = tuple(text_on(topic[i], lengths[i], f"document{i}") for i in range(rows))
    split = np.concatenate([np.full(n, SPLITS.index(name)) for name, n in splits.items()])
    return Corpus(
        texts,
        {"user": np.arange(rows)},
        split,
        labels=topic,
        label_names=tuple(f"topic{i}" for i in range(topics)),
    )


def run_of(seed: int = 1) -> Run:
    return Run(seed, STATS)
