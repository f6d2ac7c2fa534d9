"""Texts and vectors of rows, as bytes or in a mapped file until one is read.

A corpus of millions of rows holds the numbers of its texts. Taking, joining and replacing rows
makes other numbers; no text is copied or decoded for that.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, overload

import numpy as np
from numpy.typing import NDArray

from uedp_bench.errors import UedpBenchError
from uedp_bench.io.folders import cache_folder

IntArray = NDArray[np.int64]

AT_ONCE = 8_192
"""Texts that become Python strings together."""


class StoredTexts(Sequence[str]):
    """Texts of rows, by their numbers in arrays; equal to any sequence of the same texts.

    Args:
        arrays: arrays of Arrow, of strings without nulls; numbers count through them.
        numbers: (rows,) number of the text of each row; None for all texts.
    """

    def __init__(self, arrays: Sequence[Any], numbers: IntArray | None = None) -> None:
        self._arrays = tuple(array for array in arrays if len(array))
        self._ends = np.cumsum([0, *map(len, self._arrays)])[1:]
        self._size = sum(map(len, self._arrays))
        self._numbers = np.arange(self._size) if numbers is None else numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> StoredTexts: ...
    def __getitem__(self, at: int | slice) -> str | StoredTexts:
        if isinstance(at, slice):
            return StoredTexts(self._arrays, self._numbers[at])
        number = int(self._numbers[at])
        array = int(np.searchsorted(self._ends, number, side="right"))
        text: str = self._arrays[array][number - int(self._ends[array])].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), AT_ONCE):
            yield from self._read(self._numbers[first : first + AT_ONCE])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StoredTexts({len(self):,} texts)"

    def some(self, rows: IntArray) -> list[str]:
        """Read the texts of some rows together."""
        return self._read(self._numbers[rows])

    def take(self, rows: IntArray) -> StoredTexts:
        """Take rows in an order; no text is read."""
        return StoredTexts(self._arrays, self._numbers[rows])

    def replaced(self, rows: IntArray, texts: Sequence[str]) -> StoredTexts:
        """Copy with other texts in some rows; no other text is read.

        Args:
            rows: (replaced,) distinct rows.
            texts: (replaced,) their texts.
        """
        different = list(dict.fromkeys(texts))
        place = {text: self._size + at for at, text in enumerate(different)}
        numbers = self._numbers.copy()
        numbers[rows] = [place[text] for text in texts]
        return StoredTexts((*self._arrays, _array(different)), numbers)

    def followed_by(self, others: Sequence[str]) -> StoredTexts:
        """These texts, and others after them."""
        if not isinstance(others, StoredTexts):
            others = StoredTexts([_array(others)])
        numbers = np.concatenate([self._numbers, others._numbers + self._size])
        return StoredTexts((*self._arrays, *others._arrays), numbers)

    def add_to(self, digest: hashlib._Hash) -> None:
        """Add every text in UTF-8, and a null character after it, to a hash."""
        for first in range(0, len(self), AT_ONCE):
            texts = self._read(self._numbers[first : first + AT_ONCE])
            digest.update("\0".join([*texts, ""]).encode())

    def _read(self, numbers: IntArray) -> list[str]:
        import pyarrow as pa

        array_of = np.searchsorted(self._ends, numbers, side="right")
        texts = np.empty(len(numbers), dtype=object)
        for array in np.unique(array_of).tolist():
            places = np.flatnonzero(array_of == array)
            inside = numbers[places] - (self._ends[array] - len(self._arrays[array]))
            texts[places] = self._arrays[array].take(pa.array(inside)).to_pylist()
        return texts.tolist()


def _array(texts: Sequence[str]) -> Any:
    import pyarrow as pa

    return pa.array(list(texts), type=pa.large_string())


def some_texts(texts: Sequence[str], rows: IntArray) -> list[str]:
    """Read the texts of some rows; those that Arrow holds are read together."""
    if isinstance(texts, StoredTexts):
        return texts.some(rows)
    return [texts[row] for row in rows.tolist()]


def taken_texts(texts: Sequence[str], rows: IntArray) -> Sequence[str]:
    """Take rows in an order."""
    if isinstance(texts, StoredTexts):
        return texts.take(rows)
    return tuple(texts[row] for row in rows.tolist())


def replaced_texts(texts: Sequence[str], rows: IntArray, new: Sequence[str]) -> Sequence[str]:
    """Copy with other texts in some rows.

    Args:
        texts: (all rows,) texts.
        rows: (replaced,) distinct rows.
        new: (replaced,) their texts.
    """
    if isinstance(texts, StoredTexts):
        return texts.replaced(rows, new)
    replacement = dict(zip(rows.tolist(), new, strict=True))
    return tuple(replacement.get(row, text) for row, text in enumerate(texts))


def joined_texts(first: Sequence[str], second: Sequence[str]) -> Sequence[str]:
    """Join the first texts and the second; Arrow holds them all if it holds one of the two."""
    if isinstance(first, StoredTexts):
        return first.followed_by(second)
    if isinstance(second, StoredTexts):
        return StoredTexts([_array(first)]).followed_by(second)
    return (*first, *second)


Vectors = NDArray[np.float32]

CountsAndVectors = tuple[IntArray, Vectors]
"""(rows,) number of vectors of each row, and (vectors, size) all of them, row after row."""


class RowVectors:
    """Vectors of rows; those of a row are computed once, on first use.

    They lie in a file without a name, in the folder of the cache where that can be written. The
    system takes its pages out of memory when others need them, and the file is gone with the
    process. Another process, which is sent this, computes vectors of its own.

    Args:
        rows: number of rows.
        find: function from n different rows to their vectors. It can be pickled.
        at_once: most rows of one call.
    """

    def __init__(
        self, rows: int, find: Callable[[IntArray], CountsAndVectors], at_once: int
    ) -> None:
        self._find, self._at_once = find, at_once
        self._begin(rows)

    def _begin(self, rows: int) -> None:
        self._process = os.getpid()
        self._first = np.full(rows, -1, dtype=np.int64)
        self._count = np.zeros(rows, dtype=np.int32)
        self._file: IO[bytes] | None = None
        self._written: Vectors = np.empty((0, 0), dtype=np.float32)

    def __getstate__(self) -> dict[str, Any]:
        return {"find": self._find, "at_once": self._at_once, "rows": len(self._first)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["rows"], state["find"], state["at_once"])  # type: ignore[misc]

    def counts(self, rows: IntArray) -> IntArray:
        """Number of vectors of each row, in the shape of the row numbers.

        Vectors of rows that are new are computed, and kept.

        Raises:
            UedpBenchError: if the file cannot be written.
        """
        self._add(rows)
        return self._count[rows].astype(np.int64)

    def some(self, rows: IntArray) -> CountsAndVectors:
        """Vectors of some rows (rows,), in this order.

        Raises:
            UedpBenchError: if the file cannot be written.
        """
        counts = self.counts(rows)
        starts = self._first[rows] - (np.cumsum(counts) - counts)
        at = np.repeat(starts, counts) + np.arange(counts.sum())
        return counts, np.asarray(self._written[at])

    def _add(self, rows: IntArray) -> None:
        """Compute vectors of new rows."""
        if os.getpid() != self._process:  # a copy by `fork` would write into the same file
            self._begin(len(self._first))
        new = np.unique(rows[self._first[rows] < 0])
        for begin in range(0, len(new), self._at_once):
            part = new[begin : begin + self._at_once]
            counts, vectors = self._find(part)
            before = len(self._written)
            self._write(np.ascontiguousarray(vectors, dtype=np.float32))
            self._first[part] = before + np.cumsum(counts) - counts
            self._count[part] = counts

    def _write(self, vectors: Vectors) -> None:
        before, size = len(self._written), vectors.shape[1]
        try:
            if self._file is None:
                self._file = _without_name()
            self._file.seek(before * size * vectors.itemsize)
            self._file.write(vectors.data)
            self._file.flush()
        except OSError as error:
            raise UedpBenchError(f"vectors of rows cannot be written to a file: {error}") from None
        if before + len(vectors):
            shape = (before + len(vectors), size)
            self._written = np.memmap(self._file, dtype=np.float32, mode="r", shape=shape)
        else:
            self._written = vectors


def _without_name() -> IO[bytes]:
    try:
        folder = cache_folder() / "vectors"
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()
