"""From text to padded rows of token ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray, some_texts
from uedp_bench.learner import LengthsOnDemand, RowLengths

if TYPE_CHECKING:
    from uedp_bench.model import Vocabulary

Preprocessing = Literal["none", "paper"]

Encoded = TypeVar("Encoded")

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


@dataclass(frozen=True, eq=False)
class Held(Generic[Encoded]):
    """Encoded rows of a task, all of them in memory.

    Attributes:
        known: of all rows.
    """

    known: Encoded

    def some(self, rows: IntArray) -> tuple[Encoded, IntArray]:
        """Encoded rows among which these are, and (rows,) where each is in them."""
        return self.known, rows


class OnDemand(Generic[Encoded]):
    """Encoded rows of a task whose texts stay in a file: each is encoded when it is asked for.

    Args:
        rows: how many there are.
        read: n different rows, in order, to what a task reads of them, numbered from 0. It can be
            pickled.
        looked_at: how many rows, at even distances, are read now, to know how long rows are; None
            for `LOOKED_AT`.

    Attributes:
        known: of these rows: how many rows are computed side by side depends on their lengths,
            and nothing that is private.
    """

    def __init__(
        self, rows: int, read: Callable[[IntArray], Encoded], looked_at: int | None = None
    ) -> None:
        self._read = read
        some = np.unique(np.linspace(0, rows - 1, looked_at or LOOKED_AT).astype(np.int64))
        self.known = read(some if rows else some[:0])

    def some(self, rows: IntArray) -> tuple[Encoded, IntArray]:
        """What is read of the different ones of some rows, and (rows,) which of them each is."""
        different, place = np.unique(rows, return_inverse=True)
        return self._read(different), place.reshape(np.shape(rows))


class _WithLengths(Protocol):
    @property
    def lengths(self) -> IntArray: ...


Measured = TypeVar("Measured", bound=_WithLengths)


def encoded_rows(
    corpus: Corpus,
    read: Callable[[IntArray], Measured],
    find: Callable[[IntArray], IntArray] | None = None,
) -> tuple[Held[Measured] | OnDemand[Measured], RowLengths]:
    """The rows of a corpus as a task reads them, and their lengths.

    Rows are read at once and held; where texts stay in a file they are read when asked for.

    Args:
        corpus: says where its texts are.
        read: n different rows, in order, to what the task reads of them, whose `lengths` are (n,).
            It can be pickled.
        find: (n,) lengths of n different rows, where that takes less than to read them.
    """
    if not corpus.stored:
        held = Held(read(np.arange(len(corpus))))
        return held, held.known.lengths
    rows = OnDemand(len(corpus), read)
    longest = int(rows.known.lengths.max(initial=0))
    return rows, LengthsOnDemand(len(corpus), longest, find or partial(_lengths_read, read))


def _lengths_read(read: Callable[[IntArray], Measured], rows: IntArray) -> IntArray:
    return read(rows).lengths


class RowsOnDemand:
    """Target tokens of texts that stay in a file; see `OnDemand`.

    Args:
        texts: of the rows.
        vocabulary: their tokens.
        how: texts are preprocessed.
        limit: targets of a row after so many are left out; None for all.

    Attributes:
        longest: targets of the longest of the rows that were looked at.
    """

    def __init__(
        self, texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing, limit: int | None
    ) -> None:
        read = partial(_read, texts, vocabulary, how, limit)
        self._rows = OnDemand(len(texts), read)
        self.longest = int(self._rows.known.lengths.max(initial=1))

    def padded(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """See `TextRows.padded`."""
        found, place = self._rows.some(rows)
        return found.padded(place)


def _read(
    texts: Sequence[str],
    vocabulary: Vocabulary,
    how: Preprocessing,
    limit: int | None,
    rows: IntArray,
) -> TextRows:
    targets = encode_targets(some_texts(texts, rows), vocabulary, how)
    return TextRows.build([row[:limit] for row in targets], vocabulary)


def texts_in_parts(texts: Sequence[str], rows: int) -> Iterator[list[str]]:
    """Texts, so many rows after the other: what is made of a part is let go of."""
    for first in range(0, len(texts), rows):
        yield list(texts[first : first + rows])


def rows_in_parts(
    texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing
) -> Iterator[TextRows]:
    """The target tokens of texts, some thousand rows after the other."""
    for part in texts_in_parts(texts, ROWS_AT_ONCE):
        yield TextRows.build(encode_targets(part, vocabulary, how), vocabulary)


def encode_targets(
    texts: Sequence[str], vocabulary: Vocabulary, how: Preprocessing
) -> list[list[int]]:
    """Target ids of each text: its tokens and one end token."""
    return [[*ids, vocabulary.end] for ids in vocabulary.encode(prepare(texts, how))]
