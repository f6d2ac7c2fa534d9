"""Tables of JSON objects: one a line, or a list of them; each field is a column."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError
from uedp_bench.io.printable import plain
from uedp_bench.io.regular_files import shown_path
from uedp_bench.io.text_files import open_text

MOST_DEEP = 4
"""Levels of objects within objects whose fields become columns."""

MOST_CELLS, MOST_SPARSE = 2**24, 50
"""Cells of a table of which more than this many are empty for each that has a value, at most."""

PYTHON_HINT = "; a list as Python prints it is no JSON: write it by json.dumps"

LIST_HINT = "; a list of objects over several lines is the format json, not jsonl"

MOST_NAME = 1_000
"""Characters of a column's name, with those of the objects that it stands in."""


def read_objects(
    path: Path, parameter: str, encoding: str, *, lines: bool
) -> tuple[dict[str, list[Any]], list[int]]:
    """Read a column for each field; a field of an object within one has a dot in its name.

    `{"from": {"name": "Ann"}}` has the columns `from` and `from.name`. A row that lacks a field is
    null there.

    Args:
        path: the file.
        parameter: parameter that names the file, for messages.
        encoding: encoding of its text.
        lines: True for one object a line; else one list of them.

    Returns:
        The columns, all equally long, and the line of each row, or its place in the list.

    Raises:
        InputError: for a text that is no JSON, or no object; names the line, or the place in the
            list.
    """
    where = f"{parameter}: {shown_path(path)}"
    read = _of_lines if lines else _of_list
    columns: dict[str, list[Any]] = {}
    numbers: list[int] = []
    values = 0
    for number, record in read(path, parameter, encoding, where):
        cells = dict(_cells(record, where, number))
        values += len(cells)
        rows = len(numbers)
        for name, value in cells.items():
            column = columns.setdefault(name, [])
            # A column is filled up when its next value comes: empty ends cost nothing yet.
            column.extend([None] * (rows - len(column)))
            column.append(value)
        numbers.append(number)
        size = len(numbers) * len(columns)
        if size > MOST_CELLS and size > MOST_SPARSE * values:
            raise InputError(
                f"{where}: {len(columns):,} different fields in {len(numbers):,} rows make more "
                f"than {MOST_CELLS:,} cells, of which {values:,} have a value; fields that rows "
                "share are columns"
            )
    for column in columns.values():
        column.extend([None] * (len(numbers) - len(column)))
    return columns, numbers


def is_printed_list(value: Any) -> bool:
    """True for a list or tuple as Python prints it, which is what pandas writes to csv."""
    if not (isinstance(value, str) and value[:1] in "[(" and "'" in value):
        return False
    try:
        return isinstance(ast.literal_eval(value), list | tuple)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _of_lines(
    path: Path, parameter: str, encoding: str, where: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_text(path, parameter, encoding=encoding) as text:
        for number, line in enumerate(text, start=1):
            if line.strip():
                is_list = number == 1 and line.startswith("[")
                record = _parsed(line, f"{where}, line {number}", LIST_HINT if is_list else "")
                if not isinstance(record, dict):
                    raise InputError(f"{where}, line {number} is not an object {{...}}")
                yield number, record


def _of_list(
    path: Path, parameter: str, encoding: str, where: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_text(path, parameter, encoding=encoding) as text:
        records = _parsed(text.read(), where)
    if not isinstance(records, list):
        raise InputError(f"{where} is not a list [{{...}}, ...] of objects")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(f"{where}: entry {number} of the list is not an object {{...}}")
        yield number, record


def _parsed(text: str, where: str, hint: str = "") -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON: {plain(str(error), 200)}{hint}") from None


def _cells(record: dict[str, Any], where: str, number: int) -> Iterator[tuple[str, Any]]:
    """Fields of a row, those of objects within it behind them; the first of a name counts.

    Raises:
        InputError: for a name that is too long.
    """
    names: set[str] = set()
    level: list[tuple[str, dict[str, Any]]] = [("", record)]
    for depth in range(MOST_DEEP + 1):
        inner: list[tuple[str, dict[str, Any]]] = []
        for before, fields in level:
            for name, value in fields.items():
                if len(before) + len(name) > MOST_NAME:
                    raise InputError(
                        f"{where}: row {number} has a field whose name has more than "
                        f"{MOST_NAME:,} characters: {plain(before + name[:60], 60)}"
                    )
                whole = before + name
                if whole not in names:
                    names.add(whole)
                    yield whole, value
                if isinstance(value, dict) and depth < MOST_DEEP:
                    inner.append((f"{whole}.", value))
        level = inner


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
