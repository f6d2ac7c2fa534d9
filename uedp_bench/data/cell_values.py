"""Values of columns: texts and nulls, impossible texts refused, or numbers of values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from uedp_bench.errors import InputError, shown

NOT_TEXT = re.compile("[\0\ud800-\udfff]")
"""A null character, or half of one: JSON can write both, and a text in UTF-8 has neither."""


def texts_of(values: Sequence[Any], where: str) -> list[str | None]:
    """Values of a column as strings; None is a null.

    Args:
        values: value of each row.
        where: the source and the column, for messages.

    Raises:
        InputError: with the row, for NaN, a list, an object or bytes, or a text with a null
            character or half of a character.
    """
    texts: list[str | None] = []
    for row, value in enumerate(values, start=1):
        if value is None or isinstance(value, str):
            texts.append(value)
            continue
        if isinstance(value, bytes | bytearray | list | tuple | dict | set):
            raise InputError(
                f"{where}, row {row}: {shown(value)} is a {type(value).__name__}; a text or a "
                "number is needed"
            )
        if value != value:
            raise InputError(f"{where}, row {row}: NaN; leave out the value where there is none")
        texts.append(text_of(value))
    check_texts(texts, where)
    return texts


def text_of(value: Any) -> str:
    """A value as text: a number is one text, whatever type a file gives its column."""
    if isinstance(value, Decimal) and value.is_finite():
        # Arithmetic would round to 28 digits; a file may have 76.
        digits = f"{value:f}" if value else "0"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    if isinstance(value, float) and value.is_integer():
        return f"{value + 0.0:.0f}"  # of two zeros there is one
    return str(value)


def is_blank(value: Any) -> bool:
    """True for a value that no text can be made of: null, blank, or with what no text has."""
    if isinstance(value, str):
        return not value.strip() or NOT_TEXT.search(value) is not None
    return value is None


def check_texts(values: Sequence[str | None], where: str) -> None:
    """Refuse values that cannot be written as text.

    Args:
        values: value of each row; None for none.
        where: the source and the column, for messages.

    Raises:
        InputError: with the first row and the number of rows.
    """
    if NOT_TEXT.search("".join(filter(None, values))):
        bad = [row for row, value in enumerate(values) if value and NOT_TEXT.search(value)]
        refuse_no_texts(values[bad[0]] or "", len(bad), bad[0], len(values), where)


def refuse_no_texts(value: str, count: int, first: int, rows: int, where: str) -> NoReturn:
    """Raise that some values of a column cannot be written as text.

    Args:
        value: first bad value.
        count: number of bad values.
        first: row of the first, from 0.
        rows: number of rows of the column.
        where: the source and the column.

    Raises:
        InputError: always.
    """
    null = (NOT_TEXT.search(value) or [""])[0] == "\0"
    what = "a null character" if null else "half of a character (a lone surrogate)"
    raise InputError(
        f"{where}: {count} {'row has' if count == 1 else 'rows have'} {what}, which no text "
        f"has; the first is row {first + 1} of {rows}: {shown(value)}"
    )


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
