"""Signs that the first row of a csv or tsv file is no header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from uedp_bench.errors import InputError, shown

LONGEST_NAME = 6
"""Words in the name of a column, at most."""

LOOKED_AT = 20_000
"""Rows in which a header is looked for."""

_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


def check_header(columns: Mapping[str, Sequence[Any]], file: str) -> None:
    """Refuses a table whose first row is data, or which has its header again in the midst.

    Args:
        columns: of a csv or tsv file: texts and nulls.
        file: its name, for the message.

    Raises:
        InputError: with the cell that shows it.
    """
    names = tuple(columns)
    rows = zip(*(columns[name][:LOOKED_AT] for name in names), strict=True)
    again = next((number for number, row in enumerate(rows, start=1) if row == names), None)
    if again is not None:
        raise InputError(
            f"init: {file} has its first row again as row {again}: the header stands there twice, "
            "or there is none; take the second out, or write a header"
        )
    for name, values in columns.items():
        reason = _sign_of_data(name, values[:LOOKED_AT])
        if reason is not None:
            raise InputError(
                f"init: {file} has no header: its first row has {shown(name)}, {reason}; write a "
                "line with names of the columns above it, such as text,user,label, or name the "
                "text by --text if that is a header"
            )


def _sign_of_data(name: str, values: Sequence[Any]) -> str | None:
    texts = [value for value in values if isinstance(value, str)]
    if len(name.split()) > LONGEST_NAME:
        return "a text"
    if not texts:
        return None
    if _NUMBER.fullmatch(name.strip()):
        numbers = sum(bool(_NUMBER.fullmatch(text.strip())) for text in texts)
        return "a number above numbers" if numbers > 0.5 * len(texts) else None
    equal = texts.count(name)
    several = len({*texts}) < 0.5 * len(texts)
    if several and equal > 1:
        return f"and {equal} rows below have the same there"
    return None
