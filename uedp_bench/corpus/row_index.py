"""Rows by key: by user, by entity, by another row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
"""Ids, counts and row numbers."""

BoolArray = NDArray[np.bool_]
"""Masks."""

FloatArray = NDArray[np.float64]
"""Scores and vectors, in double precision."""

FeatureArray = NDArray[np.float32]
"""Vectors of a frozen encoder, in single precision."""


def distinct(ids: IntArray) -> IntArray:
    """The different ids, sorted, as `np.unique` gives them; without its table of all rows.

    Args:
        ids: (rows,) ids, dense from 0, -1 for none: each of them is counted.
    """
    return np.flatnonzero(np.bincount(ids + 1)) - 1


@dataclass(frozen=True, eq=False)
class Index:
    """Rows of each key in compressed form: key k has rows `rows[offsets[k]:offsets[k + 1]]`."""

    offsets: IntArray
    rows: IntArray

    @staticmethod
    def build(keys: IntArray, rows: IntArray, size: int) -> Index:
        """Index of (key, row) pairs; each pair is kept once, negative keys are left out."""
        inside = keys >= 0
        if not inside.all():
            keys, rows = keys[inside], rows[inside]
        if len(keys) and (np.diff(rows) <= 0).any():  # else every row stands there once, in order
            width = int(rows.max()) + 1
            keys, rows = np.divmod(np.unique(keys * width + rows), width)
        counts = np.bincount(keys, minlength=size)
        order = np.argsort(keys, kind="stable")
        return Index(np.concatenate([[0], np.cumsum(counts)]), rows[order])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> IntArray:
        """(keys,) number of rows of each key."""
        return np.diff(self.offsets)

    def __getitem__(self, key: int) -> IntArray:
        return self.rows[self.offsets[key] : self.offsets[key + 1]]

    def take(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of several keys at once: (position in `keys`, row), both (pairs,)."""
        counts = self.counts[keys]
        owner = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return owner, self.rows[self.offsets[keys][owner] + within]
