"""Tables of JSON objects: one a line, or a list of them; each field is a column."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError
from uedp_bench.files.printable import plain
from uedp_bench.files.regular_files import shown_path
from uedp_bench.files.text_files import open_text

MOST_DEEP = 4
"""Levels of objects within objects whose fields become columns."""


def read_objects(
    path: Path, parameter: str, encoding: str, *, lines: bool
) -> tuple[dict[str, list[Any]], list[int]]:
    """A column for each field; a field of an object within one has a dot in its name.

    `{"from": {"name": "Ann"}}` has the columns `from` and `from.name`. A row that lacks a field is
    null there.

    Args:
        path: the file.
        parameter: that named it, for messages.
        encoding: of its text.
        lines: one object a line; else one list of them.

    Returns:
        The columns, all equally long, and the line of each row, or its place in the list.

    Raises:
        InputError: for what is no JSON, or no object; names the line, or the place in the list.
    """
    where = f"{parameter}: {shown_path(path)}"
    read = _of_lines if lines else _of_list
    records = [(at, _flat(record)) for at, record in read(path, parameter, encoding, where)]
    names = dict.fromkeys(name for _, record in records for name in record)
    columns = {name: [record.get(name) for _, record in records] for name in names}
    return columns, [at for at, _ in records]


def _of_lines(
    path: Path, parameter: str, encoding: str, where: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    with open_text(path, parameter, encoding=encoding) as text:
        for number, line in enumerate(text, start=1):
            if line.strip():
                record = _parsed(line, f"{where}, line {number}")
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


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON: {plain(str(error), 200)}") from None


def _flat(record: dict[str, Any], before: str = "", deep: int = 0) -> dict[str, Any]:
    """Fields, then those of objects within it; a name that is there already stays."""
    found = {f"{before}{name}": value for name, value in record.items()}
    for name, value in record.items():
        if isinstance(value, dict) and deep < MOST_DEEP:
            found = _flat(value, f"{before}{name}.", deep + 1) | found
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
