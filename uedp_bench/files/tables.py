"""Tables in files: csv, tsv, jsonl and parquet as columns by name."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError, MissingExtraError, shown
from uedp_bench.files.printable import plain
from uedp_bench.files.regular_files import open_regular, shown_path
from uedp_bench.files.text_files import MOST_LINE, open_text

MOST_ROWS, MOST_BYTES_A_ROW = 10_000_000, 64
"""A parquet file names its number of rows; past the first number, it is believed where the file has
this many bytes for a thousand of them."""

ENDINGS = frozenset({".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"})
"""Endings of files that are tables; each but the last may be packed (.gz)."""

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
        self.places = [(where, line) for line in lines]
        self.by_word = by_word


def ending_of(path: Path) -> str:
    """The ending of a file, in lower case; that of packing left out."""
    endings = [ending for ending in path.suffixes if ending != ".gz"]
    return endings[-1].lower() if endings else ""


def read_table(path: Path, parameter: str) -> Columns:
    """The columns of a table; its ending, one of `ENDINGS`, says its format.

    csv and tsv have a header and the quoting of RFC 4180, and their empty fields are nulls; jsonl
    has one object a line; all text is UTF-8.

    Args:
        path: the file.
        parameter: that named it, for messages.

    Raises:
        InputError: if the file is missing, of an unknown format or malformed.
    """
    kind = ending_of(path)
    if kind in {".csv", ".tsv"}:
        return _read_delimited(path, "," if kind == ".csv" else "\t", parameter)
    if kind in {".jsonl", ".ndjson"}:
        return _read_jsonl(path, parameter)
    if kind == ".parquet":
        return _read_parquet(path, parameter)
    raise InputError(f"{parameter}: {shown_path(path)} must end in {', '.join(sorted(ENDINGS))}")


def _read_delimited(path: Path, delimiter: str, parameter: str) -> Columns:
    csv.field_size_limit(MOST_LINE)  # the csv module stops at 128 KiB a field unless told
    where = f"{parameter}: {shown_path(path)}"
    with open_text(path, parameter, newline="") as lines:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
        try:
            header = next(reader, [])
            columns: dict[str, list[str | None]] = {name: [] for name in header}
            numbers: list[int] = []
            if len(columns) != len(header):
                twice = next(name for name in header if header.count(name) > 1)
                raise InputError(f"{where} names a column twice: {shown(twice)}")
            for row in reader:
                if not row:
                    continue  # a blank line
                if len(row) != len(header):
                    raise InputError(
                        f"{where}, line {reader.line_num}: {len(row)} fields under a "
                        f"header of {len(header)}"
                    )
                numbers.append(reader.line_num)
                for name, value in zip(header, row, strict=True):
                    columns[name].append(value or None)
        except csv.Error as error:
            raise InputError(f"{where}, line {reader.line_num}: {error}") from None
    found = FileColumns(where, numbers)
    found.update(columns)
    return found


def _read_jsonl(path: Path, parameter: str) -> Columns:
    records: list[dict[str, Any]] = []
    numbers: list[int] = []
    where = f"{parameter}: {shown_path(path)}"
    with open_text(path, parameter) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line, parse_constant=_no_number)
            except (ValueError, RecursionError) as error:
                said = plain(str(error), 200)
                raise InputError(f"{where}, line {number} is no JSON: {said}") from None
            if not isinstance(record, dict):
                raise InputError(f"{where}, line {number} is not an object {{...}}")
            records.append(record)
            numbers.append(number)
    found = FileColumns(where, numbers)
    for name in dict.fromkeys(name for record in records for name in record):
        found[name] = [record.get(name) for record in records]
    return found


def _read_parquet(path: Path, parameter: str) -> Columns:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("pyarrow (reads parquet)", "pip install pyarrow") from None
    where = f"{parameter}: {shown_path(path)}"
    try:
        with open_regular(path, parameter) as file:
            found = pq.ParquetFile(file)
            rows, size = found.metadata.num_rows, os.fstat(file.fileno()).st_size
            if rows > MOST_ROWS and size * 1000 < rows * MOST_BYTES_A_ROW:
                raise InputError(f"{where} says that {size:,} bytes hold {rows:,} rows")
            table = found.read()
            names = table.column_names
            if len(set(names)) != len(names):
                twice = next(name for name in names if names.count(name) > 1)
                raise InputError(f"{where} names a column twice: {shown(twice)}")
            return {name: table.column(name).to_pylist() for name in names}
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, ArithmeticError, TypeError) as error:
        first = plain((str(error).splitlines() or [""])[0], 200)
        raise InputError(f"{where} is not a parquet file that can be read: {first}") from None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
