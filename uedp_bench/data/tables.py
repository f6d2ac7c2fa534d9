"""Tables in files: csv, tsv, jsonl, json, parquet and lines of text as columns by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from uedp_bench.data.arrow_columns import ArrowColumns
from uedp_bench.data.delimited_files import Dialect, Quoting, read_records
from uedp_bench.data.json_tables import read_objects
from uedp_bench.errors import InputError, shown
from uedp_bench.io.regular_files import shown_path
from uedp_bench.io.text_files import UTF_8, open_text

TableFormat = Literal["csv", "tsv", "jsonl", "json", "parquet", "lines"]

FORMATS: Mapping[str, TableFormat] = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json",
    ".parquet": "parquet", ".txt": "lines",
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
    `text`, without the blank ones.

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
        lines = kind == "jsonl"
        columns, places = read_objects(path, parameter, layout.encoding, lines=lines)
        return _placed(columns, places, path, parameter)
    if kind == "lines":
        return _read_lines(path, parameter, layout.encoding)
    if kind == "parquet":
        from uedp_bench.data.parquet_files import read_parquet

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
        raise InputError(f"{parameter}: {shown_path(path)} names a column twice: {shown(twice)}")
    lines: list[int] = []
    for record in records:
        lines.append(record.line)
        for name, value in zip(header, record.fields, strict=True):
            columns[name].append(value or None)
    return _placed(columns, lines, path, parameter)
