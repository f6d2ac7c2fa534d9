"""Tables in files: csv, tsv, jsonl, json, parquet and lines of text as columns by name.

Tables of JSON objects have one a line, or a list of them; each field is a column.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from uedp_bench.data.table_columns import ArrowColumns, read_parquet
from uedp_bench.data.text_files import Dialect, Quoting, read_brat, read_pubtator, read_records
from uedp_bench.errors import InputError, plain, shown
from uedp_bench.io.files import UTF_8, open_text, shown_path

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


TableFormat = Literal["csv", "tsv", "jsonl", "json", "parquet", "lines", "pubtator", "brat"]

FORMATS: Mapping[str, TableFormat] = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".parquet": "parquet", ".txt": "lines", ".pubtator": "pubtator",
}  # fmt: skip
"""Format of a table by its ending; each but parquet may be packed (.gz)."""

ENDINGS = frozenset(FORMATS)
"""Endings of files that are tables."""

Columns = Mapping[str, Sequence[Any]]
"""Values by column name, all columns equally long; None is a null."""


class FileColumns(dict[str, Sequence[Any]]):
    """Values by column name, of a file with a row at some lines.

    Args:
        where: the parameter and the file, for messages.
        lines: (rows,) line in which each row starts, from 1.
        by_word: True if each word of a row has a line of its own.
    """

    def __init__(self, where: str, lines: Sequence[int], *, by_word: bool = False) -> None:
        super().__init__()
        self.places = [(where, line) for line in lines]
        self.by_word = by_word


class Layout(NamedTuple):
    """Layout of a table in a file.

    Attributes:
        file_format: format; by default that of its ending.
        encoding: encoding of its text.
        delimiter: delimiter of csv and tsv; by default a comma and a tab.
        quoting: quoting of csv and tsv; None for the standard one, refused where there may be none.
    """

    file_format: TableFormat | None = None
    encoding: str = UTF_8
    delimiter: str | None = None
    quoting: Quoting | None = None


def taken(columns: Columns, rows: Sequence[int]) -> Columns:
    """Take some rows, which keep their places."""
    if isinstance(columns, ArrowColumns):
        return columns.taken(np.array(rows, dtype=np.int64))
    values = {name: [column[row] for row in rows] for name, column in columns.items()}
    if not isinstance(columns, FileColumns):
        return values
    out = FileColumns("", (), by_word=columns.by_word)
    out.places = [columns.places[row] for row in rows]
    out.update(values)
    return out


def ending_of(path: Path) -> str:
    """The ending of a file, in lower case; that of packing left out."""
    endings = [ending for ending in path.suffixes if ending != ".gz"]
    return endings[-1].lower() if endings else ""


def read_table(
    path: Path, parameter: str, layout: Layout | None = None, wanted: Collection[str] | None = None
) -> Columns:
    """Read the columns of a table; its ending, one of `ENDINGS`, decides its format by default.

    csv and tsv have a header, and their empty fields are nulls (`read_records`); jsonl
    has one object a line and json one list of them (`read_objects`); a file of lines has the column
    `text`, without the blank ones; pubtator and brat have `id`, `text` and `entities`.

    Args:
        path: the file.
        parameter: parameter that names the file, for messages.
        layout: layout of the file; UTF-8 with the usual delimiters by default.
        wanted: columns to read of a large parquet file; None for all.

    Raises:
        InputError: if the file is missing, of an unknown format or malformed.
    """
    layout = layout or Layout()
    kind = layout.file_format or FORMATS.get(ending_of(path))
    if kind == "csv" or kind == "tsv":
        return _read_delimited(path, layout, "," if kind == "csv" else "\t", parameter)
    if kind == "jsonl" or kind == "json":
        columns, places = read_objects(path, parameter, layout.encoding, lines=kind == "jsonl")
        return _placed(columns, places, path, parameter)
    if kind == "lines":
        return _read_lines(path, parameter, layout.encoding)
    if kind == "pubtator" or kind == "brat":
        read = read_pubtator if kind == "pubtator" else read_brat
        return _placed(*read(path, parameter, layout.encoding), path, parameter)
    if kind == "parquet":
        return read_parquet(path, parameter, wanted)
    raise InputError(f"{parameter}: {shown_path(path)} must end in {', '.join(sorted(ENDINGS))}")


def _placed(
    columns: Mapping[str, Sequence[Any]], lines: Sequence[int], path: Path, parameter: str
) -> FileColumns:
    table = FileColumns(f"{parameter}: {shown_path(path)}", lines)
    table.update(columns)
    return table


def _read_lines(path: Path, parameter: str, encoding: str) -> Columns:
    with open_text(path, parameter, encoding=encoding) as lines:
        kept = [(at, line.strip()) for at, line in enumerate(lines, start=1) if line.strip()]
    return _placed({"text": [line for _, line in kept]}, [at for at, _ in kept], path, parameter)


def _read_delimited(path: Path, layout: Layout, usual: str, parameter: str) -> Columns:
    dialect = Dialect(layout.delimiter or usual, layout.quoting, layout.delimiter is None)
    records = read_records(path, parameter, dialect, encoding=layout.encoding)
    first = next(records, None)
    header = [] if first is None else first.fields
    columns: dict[str, list[str | None]] = {name: [] for name in header}
    if len(columns) != len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(
            f"{parameter}: {shown_path(path)} names a column twice: {shown(twice)}; rename one in "
            "its header"
        )
    lines: list[int] = []
    for record in records:
        lines.append(record.line)
        for name, value in zip(header, record.fields, strict=True):
            columns[name].append(value or None)
    return _placed(columns, lines, path, parameter)
