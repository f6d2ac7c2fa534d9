"""From text to padded rows of token ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from uedp_bench.corpus import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from uedp_bench.model import Vocabulary

Preprocessing = Literal["none", "paper"]

IGNORED = -100
"""Target of padded positions; the default `ignore_index` of torch's cross-entropy."""

_PUNCTUATION = re.compile(r"(?P<unknown>(?<!\S)<unk>(?!\S))|[^\w\s]|_")


def prepare(texts: Sequence[str], how: Preprocessing) -> list[str]:
    """Preprocessed texts: unchanged, or in lower case without punctuation (Lai et al., section VI).

    Signs are removed, not replaced by spaces: "U.N." becomes "un". The word <unk>, by which
    published corpora (WikiText, Penn Treebank) mark what they left out, stays as it is.
    """
    if how == "none":
        return list(texts)
    return [" ".join(_PUNCTUATION.sub(_kept, text).lower().split()) for text in texts]


def _kept(found: re.Match[str]) -> str:
    return found["unknown"] or ""


@dataclass(frozen=True, eq=False)
class TextRows:
    """Target tokens of many rows, one after the other: row i has `flat[offsets[i]:offsets[i + 1]]`.

    The inputs of a row are the begin token and all its targets but the last.

    Attributes:
        flat: (tokens,) target ids.
        offsets: (rows + 1,).
        begin, padding: ids that start a row's inputs and that fill them up.
    """

    flat: IntArray
    offsets: IntArray
    begin: int
    padding: int

    @staticmethod
    def build(rows: Sequence[Sequence[int]], vocabulary: Vocabulary) -> TextRows:
        """Rows of these targets; none may be empty."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        flat = np.fromiter((t for row in rows for t in row), dtype=np.int64, count=offsets[-1])
        return TextRows(flat, offsets, vocabulary.begin, vocabulary.end)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """(rows,) number of targets."""
        return np.diff(self.offsets)

    def padded(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Inputs and targets (rows, longest of these rows), padded on the right."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts  # of these rows: there may be millions of others
        columns = np.arange(lengths.max(initial=1))
        inside = columns < lengths[:, None]
        at = starts[:, None] + np.where(inside, columns, 0)
        targets = np.where(inside, self.flat[at], IGNORED)
        inputs = np.full_like(targets, self.padding)
        inputs[:, 0] = self.begin
        inputs[:, 1:] = np.where(inside[:, 1:], targets[:, :-1], self.padding)
        return inputs, targets

    def row_sums(self, values: FloatArray | BoolArray) -> FloatArray:
        """(rows,) sums of token values (tokens,), or counts of those that are true."""
        numbers = np.asarray(values, dtype=np.float64)
        return np.add.reduceat(numbers, self.offsets[:-1]) if len(self) else np.empty(0)


def encode_targets(
    texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing
) -> list[list[int]]:
    """Target ids of each text: its tokens and one end token."""
    return [[*ids, vocabulary.end] for ids in vocabulary.encode(prepare(texts, how))]
