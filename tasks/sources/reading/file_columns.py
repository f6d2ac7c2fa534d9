"""Columns that know in which line of a file each row stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Mapping[str, Sequence[Any]]
"""Values by column name, all columns equally long; None is a null."""


class FileColumns(dict[str, Sequence[Any]]):
    """Values by column name, of a file with a row at some lines.

    Args:
        where: the parameter and the file, for messages.
        lines: (rows,) where each row starts, from 1.
        by_word: each word of a row has a line of its own.
    """

    def __init__(self, where: str, lines: Sequence[int], *, by_word: bool = False) -> None:
        super().__init__()
        self.where, self.lines, self.by_word = where, lines, by_word


def place_of(columns: Columns, row: int, owner: str, word: int = 0) -> str:
    """Where a row stands, or one of its words: file and line where they are known."""
    if isinstance(columns, FileColumns):
        line = columns.lines[row] + (word if columns.by_word else 0)
        return f"{columns.where}, line {line}"
    return f"{owner}: row {row + 1}"
