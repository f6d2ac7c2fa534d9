"""A column as the number of each row's value, for users, classes and splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Coded(NamedTuple):
    """Different values, with the number of each row's value.

    Attributes:
        codes: (rows,) index into `values`, -1 for a null.
        values: different values, in the order in which they come first.
    """

    codes: IntArray
    values: list[str]

    @staticmethod
    def from_values(values: Sequence[str | None]) -> Coded:
        """Number the values of a column."""
        ids: dict[str, int] = {}
        codes = [-1 if value is None else ids.setdefault(value, len(ids)) for value in values]
        return Coded(np.array(codes, dtype=np.int64), list(ids))

    def renamed(self, values: Sequence[str]) -> Coded:
        """Copy with another name for each value; values of one name become one."""
        names = Coded.from_values(values)
        return Coded(np.append(names.codes, -1)[self.codes], names.values)

    def where(self, bad: Sequence[int], *, null: bool = False) -> BoolArray:
        """(rows,) True where a row has one of some values, or `null`."""
        marked = np.zeros(len(self.values) + 1, dtype=bool)
        marked[list(bad)] = True
        marked[-1] = null
        return marked[self.codes]
