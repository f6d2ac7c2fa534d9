"""Vectors of rows, computed on first use and kept in a file that is mapped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.errors import UedpBenchError
from uedp_bench.io.folders import cache_folder

IntArray = NDArray[np.int64]
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
