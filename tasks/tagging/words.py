"""The words of texts, with their places, so that labels of words and spans of characters agree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from uedp_bench.corpus import IntArray

WordRule = Literal["spaces", "signs"]
"""`spaces`: what stands between white space. `signs`: letters, digits and underscores that stand
together are a word, and so is every other sign alone ("Smith," has two)."""

_PATTERNS: dict[WordRule, re.Pattern[str]] = {
    "spaces": re.compile(r"\S+"),
    "signs": re.compile(r"\w+|[^\w\s]"),
}


def with_words(texts: Iterable[str], rule: WordRule) -> Iterator[bool]:
    """True for each text that has a word."""
    pattern = _PATTERNS[rule]
    return (pattern.search(text) is not None for text in texts)


@dataclass(frozen=True, eq=False)
class WordTable:
    """Words of many rows, one row after the other: row i has `offsets[i]` to `offsets[i + 1]`.

    Attributes:
        words: (words,) as they stand in the texts.
        start, end: (words,) their characters in the text of their row, end exclusive.
        offsets: (rows + 1,).
    """

    words: tuple[str, ...]
    start: IntArray
    end: IntArray
    offsets: IntArray

    @staticmethod
    def from_texts(texts: Sequence[str], rule: WordRule) -> WordTable:
        """The words of texts by a rule."""
        pattern = _PATTERNS[rule]
        spans = [[match.span() for match in pattern.finditer(text)] for text in texts]
        words = [text[a:b] for text, row in zip(texts, spans, strict=True) for a, b in row]
        places = np.array([place for row in spans for place in row], dtype=np.int64).reshape(-1, 2)
        counts = np.array([len(row) for row in spans], dtype=np.int64)
        return WordTable(
            tuple(words),
            places[:, 0].copy(),
            places[:, 1].copy(),
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> IntArray:
        """(rows,) words of each row."""
        return np.diff(self.offsets)

    @property
    def row(self) -> IntArray:
        """(words,) row of each word."""
        return np.repeat(np.arange(len(self)), self.counts)

    def by_row(self) -> list[tuple[str, ...]]:
        """The words of each row."""
        bounds = self.offsets.tolist()
        return [self.words[a:b] for a, b in pairwise(bounds)]
