"""Rows of words as padded tensors: numbers of each word, gathered batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.contracts.learner import Batch
from uedp_bench.corpus import BoolArray, IntArray
from uedp_bench.models.vocabularies.words import WordVocabulary
from uedp_bench.models.word_features import WordFeatures, features_of


class Padding:
    """Positions of the items of ragged rows, and tables of some rows.

    Args:
        lengths: (rows,) items of each row, which lie one row after the other.
    """

    def __init__(self, lengths: IntArray) -> None:
        self.lengths = lengths
        self._starts: IntArray = np.cumsum(lengths) - lengths

    def table(self, rows: IntArray) -> tuple[IntArray, BoolArray]:
        """(rows, longest) numbers of the items, and where there is one; at least one column."""
        lengths = self.lengths[rows]
        columns = np.arange(max(int(lengths.max(initial=1)), 1))
        inside: BoolArray = columns < lengths[:, None]
        return np.where(inside, self._starts[rows][:, None] + columns, 0), inside


def padded(items: NDArray[Any], at: IntArray, inside: BoolArray) -> NDArray[Any]:
    """(rows, longest, ...) items by their numbers, 0 where there is none."""
    if not len(items):
        return np.zeros((*at.shape, *items.shape[1:]), dtype=items.dtype)
    table = items[at]
    table[~inside] = 0
    return table


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Word ids, and the features of words where they are asked for; see `WordRows`.

    Attributes:
        tokens: (words of all rows,) ids in the vocabulary.
        which: (words of all rows,) numbers in the table of features.
        features: features of different words; None for ids alone.
        padding: padding of the rows.
        truncated, row_size: see `WordRows`.
    """

    tokens: IntArray
    which: IntArray
    features: WordFeatures | None
    padding: Padding
    truncated: int
    row_size: int

    @property
    def lengths(self) -> IntArray:
        """(rows,) words that are read."""
        return self.padding.lengths

    def batch(self, rows: IntArray) -> Batch:
        """`tokens`, `cases` (rows, words), `characters` (rows, words, longest), `lengths`."""
        import torch

        at, inside = self.padding.table(rows)
        arrays = {"tokens": padded(self.tokens, at, inside), "lengths": self.lengths[rows]}
        if self.features is not None:
            which = padded(self.which, at, inside)
            characters = padded(self.features.characters, which, inside)
            longest = int((characters > 0).sum(axis=2).max(initial=1))
            arrays["characters"] = np.ascontiguousarray(characters[:, :, :longest])
            arrays["cases"] = padded(self.features.cases, which, inside)
        return {name: torch.from_numpy(value) for name, value in arrays.items()}


def read_features(
    words: Sequence[Sequence[str]],
    vocabulary: WordVocabulary,
    max_tokens: int,
    *,
    features: bool,
    numbers: int,
) -> FeatureRows:
    """Rows of ids, each of the word as it is written, else in lower case, else unknown.

    Args:
        words: words of each row.
        vocabulary: gives the ids.
        max_tokens: words of a row past this many are left out.
        features: characters and case are read too.
        numbers: count of numbers that a network needs for a word.
    """
    kept = [row[:max_tokens] for row in words]
    lengths = np.array([len(row) for row in kept], dtype=np.int64)
    numbered: dict[str, int] = {}
    which = np.array(
        [numbered.setdefault(word, len(numbered)) for word in chain.from_iterable(kept)],
        dtype=np.int64,
    )
    ids = np.array([vocabulary.id_of(word) for word in numbered], dtype=np.int64)
    return FeatureRows(
        tokens=ids[which],
        which=which,
        features=features_of(list(numbered)) if features else None,
        padding=Padding(lengths),
        truncated=sum(len(row) > max_tokens for row in words),
        row_size=max(int(lengths.max(initial=1)), 1) * numbers,
    )
