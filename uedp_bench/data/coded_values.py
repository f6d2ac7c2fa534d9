"""A column as the number of each row's value: what is needed of users, classes and splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Coded(NamedTuple):
    """Different values, and which of them each row has.

    Attributes:
        codes: (rows,) index into `values`, -1 for a null.
        values: in the order in which they come first.
    """

    codes: IntArray
    values: list[str]

    @staticmethod
    def of(values: Sequence[str | None]) -> Coded:
        """The column of these values."""
        ids: dict[str, int] = {}
        codes = [-1 if value is None else ids.setdefault(value, len(ids)) for value in values]
        return Coded(np.array(codes, dtype=np.int64), list(ids))

    def renamed(self, values: Sequence[str]) -> Coded:
        """The same with another name for each value; values of one name become one."""
        known = Coded.of(values)
        return Coded(np.append(known.codes, -1)[self.codes], known.values)

    def where(self, bad: Sequence[int], *, null: bool = False) -> BoolArray:
        """(rows,) True where a row has one of some values, or `null`."""
        marked = np.zeros(len(self.values) + 1, dtype=bool)
        marked[list(bad)] = True
        marked[-1] = null
        return marked[self.codes]
