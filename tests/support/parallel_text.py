"""Documents of sentences and their translations, made of words that say their number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus

Pair = tuple[str, str]


def sentence(words: list[int]) -> Pair:
    """A sentence and its translation, whose second word goes last."""
    order = [0, *range(2, len(words)), 1] if len(words) > 2 else range(len(words))
    return " ".join(f"s{w}" for w in words), " ".join(f"t{words[i]}" for i in order)


def parallel(documents: list[list[Pair]], public: list[Pair] | None = None) -> Corpus:
    """A document is a user; its rows are in the split train. Rows of `public` belong to nobody."""
    rows = [(pair, user, "train") for user, pairs in enumerate(documents) for pair in pairs]
    rows += [(pair, -1, "public") for pair in public or []]
    corpus = Corpus(
        texts=tuple(text for (text, _), _, _ in rows),
        groups={"user": np.array([user for _, user, _ in rows], dtype=np.int64)},
        split=np.array([SPLITS.index(split) for _, _, split in rows], dtype=np.int64),
    )
    return replace(corpus, targets=tuple(target for (_, target), _, _ in rows))


def generated(documents: int, rows: int, words: int = 200, seed: int = 0) -> list[list[Pair]]:
    """Documents of sentences of 3 to 12 different words, drawn alike."""
    rng = np.random.default_rng(seed)
    return [
        [
            sentence(rng.choice(words, int(rng.integers(3, 13)), replace=False).tolist())
            for _ in range(rows)
        ]
        for _ in range(documents)
    ]
