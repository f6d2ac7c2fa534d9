"""Texts as Arrow holds them: their bytes, and no Python object before one is read.

A corpus of millions of rows holds the numbers of its texts. Taking, joining and replacing rows
makes other numbers; no text is copied or decoded for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

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
        read: list[str] = texts.tolist()
        return read


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
