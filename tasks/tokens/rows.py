"""From text to padded rows of token ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from uedp_bench.corpus import BoolArray, FloatArray, IntArray, some_texts

if TYPE_CHECKING:
    from uedp_bench.model import Vocabulary

Preprocessing = Literal["none", "paper"]

IGNORED = -100
"""Target of padded positions; the default `ignore_index` of torch's cross-entropy."""

LOOKED_AT = 10_000
"""Rows of a text in a file that are looked at to know how long rows are."""

ROWS_AT_ONCE = 65_536
"""Rows whose tokens are in memory together where all are counted."""

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


class RowsOnDemand:
    """Target tokens of texts that stay in a file: a row is encoded when it is asked for.

    Args:
        texts: of the rows.
        vocabulary: their tokens.
        how: texts are preprocessed.
        limit: targets of a row after so many are left out; None for all.

    Attributes:
        longest: targets of the longest of some rows (`LOOKED_AT`), at even distances: how many rows
            are computed side by side depends on it, and nothing that is private.
    """

    def __init__(
        self, texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing, limit: int | None
    ) -> None:
        self._texts, self._vocabulary, self._how, self._limit = texts, vocabulary, how, limit
        some = np.unique(np.linspace(0, len(texts) - 1, LOOKED_AT).astype(np.int64))
        self.longest = int(self._rows(some).lengths.max(initial=1)) if len(texts) else 1

    def padded(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """See `TextRows.padded`."""
        different, place = np.unique(rows, return_inverse=True)
        return self._rows(different).padded(place)

    def _rows(self, rows: IntArray) -> TextRows:
        texts = some_texts(self._texts, rows)
        encoded = encode_targets(texts, self._vocabulary, self._how)
        return TextRows.build([row[: self._limit] for row in encoded], self._vocabulary)


def rows_in_parts(
    texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing
) -> Iterator[TextRows]:
    """The target tokens of texts, some thousand rows after the other."""
    for first in range(0, len(texts), ROWS_AT_ONCE):
        part = list(texts[first : first + ROWS_AT_ONCE])
        yield TextRows.build(encode_targets(part, vocabulary, how), vocabulary)


def encode_targets(
    texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing
) -> list[list[int]]:
    """Target ids of each text: its tokens and one end token."""
    return [[*ids, vocabulary.end] for ids in vocabulary.encode(prepare(texts, how))]
