"""Texts that stay in files: read when somebody asks for them, some thousands at a time.

A corpus of millions of rows holds the numbers of its texts, and not the texts. Taking, joining and
replacing rows makes other numbers; nobody reads a text for that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from uedp_bench.errors import UedpBenchError

IntArray = NDArray[np.int64]

TEXT, STATE = "text", "state"
"""Columns of an Arrow file of texts: UTF-8 with offsets of 64 bits, and what is wrong with each."""

AT_ONCE = 8_192
"""Texts that are read into memory together."""

_DIGESTED_AT_ONCE = 65_536


@dataclass(frozen=True)
class MappedTexts:
    """The texts of an Arrow file, which is mapped into memory. A process is sent the path alone.

    Attributes:
        path: of the file, which nobody changes: its name says what it was made of.
    """

    path: Path

    def chunks(self) -> list[Any]:
        """Arrays of texts, in their order.

        Raises:
            UedpBenchError: if the file is gone.
        """
        import pyarrow as pa

        try:
            table = pa.ipc.open_file(pa.memory_map(str(self.path))).read_all()
        except (OSError, pa.ArrowException) as error:
            raise UedpBenchError(
                f"a file of texts is gone from the cache or damaged; run again: {error}"
            ) from None
        return list(table.column(TEXT).chunks)


@dataclass(frozen=True)
class HeldTexts:
    """Texts in memory, as arrays of Arrow: few of them, or nothing could be written to a file."""

    arrays: tuple[Any, ...]

    def chunks(self) -> list[Any]:
        """Arrays of texts, in their order."""
        return list(self.arrays)

    @staticmethod
    def of(texts: Iterable[str]) -> HeldTexts:
        """These texts."""
        import pyarrow as pa

        return HeldTexts((pa.array(list(texts), type=pa.large_string()),))


@dataclass(frozen=True, eq=False)
class TextPool:
    """Texts by number, one block after the other."""

    blocks: tuple[MappedTexts | HeldTexts, ...]
    _opened: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {"blocks": self.blocks, "_opened": {}}

    @property
    def _chunks(self) -> list[Any]:
        if "chunks" not in self._opened:
            chunks = [chunk for block in self.blocks for chunk in block.chunks() if len(chunk)]
            sizes = np.array([len(chunk) for chunk in chunks], dtype=np.int64)
            self._opened.update(ends=np.cumsum(sizes), chunks=chunks)
        found: list[Any] = self._opened["chunks"]
        return found

    @property
    def _ends(self) -> IntArray:
        found: IntArray = self._opened["ends"] if self._chunks else np.zeros(1, dtype=np.int64)
        return found

    def __len__(self) -> int:
        return int(self._ends[-1])

    def one(self, number: int) -> str:
        """One text."""
        chunk = int(np.searchsorted(self._ends, number, side="right"))
        found = self._chunks[chunk]
        text: str = found[number - int(self._ends[chunk]) + len(found)].as_py()
        return text

    def array(self, numbers: NDArray[np.integer[Any]]) -> Any:
        """Arrow array of the texts of these numbers, in this order."""
        import pyarrow as pa

        wide = pa.large_string()
        if not len(numbers):
            return pa.array([], type=wide)
        chunk_of = np.searchsorted(self._ends, numbers, side="right")
        order = None
        if (np.diff(chunk_of) < 0).any():
            order = np.argsort(chunk_of, kind="stable")
            numbers, chunk_of = numbers[order], chunk_of[order]
        cuts = np.flatnonzero(np.diff(chunk_of)) + 1
        parts = []
        for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(numbers)], strict=True):
            at = int(chunk_of[first])
            chunk = self._chunks[at]
            inside = numbers[first:last] - (int(self._ends[at]) - len(chunk))
            parts.append(chunk.take(pa.array(inside)).cast(wide))
        found = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
        if order is None:
            return found
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return found.take(pa.array(back))


class StoredTexts(Sequence[str]):
    """Texts of rows, by their numbers in a pool. It is equal to any sequence of the same texts.

    Args:
        pool: of texts.
        numbers: (rows,) of the text of each row; None for all texts of the pool.
    """

    def __init__(self, pool: TextPool, numbers: NDArray[np.integer[Any]] | None = None) -> None:
        self._pool, self._numbers = pool, numbers

    @cached_property
    def _size(self) -> int:
        return len(self._pool) if self._numbers is None else len(self._numbers)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> StoredTexts: ...
    def __getitem__(self, at: int | slice) -> str | StoredTexts:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        row = range(self._size)[at]
        return self._pool.one(row if self._numbers is None else int(self._numbers[row]))

    def __iter__(self) -> Iterator[str]:
        for block in self._arrays(AT_ONCE):
            yield from block.to_pylist()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StoredTexts({len(self):,} texts)"

    def some(self, rows: IntArray) -> list[str]:
        """The texts of some rows, read together."""
        found: list[str] = self._pool.array(self._of(np.asarray(rows))).to_pylist()
        return found

    def take(self, rows: IntArray) -> StoredTexts:
        """The rows in this order; no text is read."""
        return StoredTexts(self._pool, _narrow(self._of(np.asarray(rows)), len(self._pool)))

    def replaced(self, rows: IntArray, texts: Sequence[str]) -> StoredTexts:
        """The same with other texts in some rows; no other text is read.

        Args:
            rows: (replaced,) distinct ones.
            texts: (replaced,) their texts.
        """
        if not len(rows):
            return self
        different = list(dict.fromkeys(texts))
        place = {text: len(self._pool) + at for at, text in enumerate(different)}
        numbers = self._every()
        numbers[rows] = [place[text] for text in texts]
        return self._with((HeldTexts.of(different),), numbers)

    def followed_by(self, others: Sequence[str]) -> StoredTexts:
        """These texts, and others after them."""
        if not isinstance(others, StoredTexts):
            others = StoredTexts(TextPool((HeldTexts.of(others),)))
        numbers = np.concatenate([self._every(), others._every() + len(self._pool)])
        return self._with(others._pool.blocks, numbers)

    def add_to(self, digest: hashlib._Hash) -> None:
        """Adds every text in UTF-8, and a null character after it, to a hash."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wide = pa.large_string()
        nothing, null = pa.scalar("", type=wide), pa.scalar("\0", type=wide)
        for block in self._arrays(_DIGESTED_AT_ONCE):
            ended = pc.binary_join_element_wise(block, nothing, null)
            _, offsets, data = ended.buffers()
            size = int(np.frombuffer(offsets, dtype=np.int64)[ended.offset + len(ended)])
            digest.update(memoryview(data)[:size])

    def _with(self, blocks: tuple[MappedTexts | HeldTexts, ...], numbers: IntArray) -> StoredTexts:
        """Texts by their numbers in this pool, with more texts behind it."""
        pool = TextPool((*self._pool.blocks, *blocks))
        return StoredTexts(pool, _narrow(numbers, len(pool)))

    def _every(self) -> IntArray:
        """(rows,) the number of each row's text, in an array of its own."""
        return self._of(np.arange(len(self))).astype(np.int64)

    def _of(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
        return rows if self._numbers is None else self._numbers[rows]

    def _arrays(self, size: int) -> Iterator[Any]:
        for first in range(0, len(self), size):
            rows = np.arange(first, min(first + size, len(self)))
            yield self._pool.array(self._of(rows))


def _narrow(numbers: NDArray[np.integer[Any]], most: int) -> NDArray[np.integer[Any]]:
    """Numbers below `most`, in half of the memory where they are small enough."""
    return numbers.astype(np.int32 if most < 2**31 else np.int64)


def some_texts(texts: Sequence[str], rows: IntArray) -> list[str]:
    """The texts of some rows; those that stay in a file are read together."""
    if isinstance(texts, StoredTexts):
        return texts.some(rows)
    return [texts[row] for row in rows.tolist()]


def taken_texts(texts: Sequence[str], rows: IntArray) -> Sequence[str]:
    """The rows in this order."""
    if isinstance(texts, StoredTexts):
        return texts.take(rows)
    return tuple(texts[row] for row in rows.tolist())


def replaced_texts(texts: Sequence[str], rows: IntArray, new: Sequence[str]) -> Sequence[str]:
    """The same with other texts in some rows.

    Args:
        texts: (all rows,).
        rows: (replaced,) distinct ones.
        new: (replaced,) their texts.
    """
    if isinstance(texts, StoredTexts):
        return texts.replaced(rows, new)
    found = dict(zip(rows.tolist(), new, strict=True))
    return tuple(found.get(row, text) for row, text in enumerate(texts))


def joined_texts(first: Sequence[str], second: Sequence[str]) -> Sequence[str]:
    """The first texts and then the second; they stay in files if one of the two does."""
    if isinstance(first, StoredTexts):
        return first.followed_by(second)
    if isinstance(second, StoredTexts):
        return StoredTexts(TextPool((HeldTexts.of(first),))).followed_by(second)
    return (*first, *second)
