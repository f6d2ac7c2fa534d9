"""Any csv, tsv, jsonl, parquet or CoNLL file with named columns."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from uedp_bench.component import at
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError, MissingExtraError, shown
from uedp_bench.files.printable import plain
from uedp_bench.files.regular_files import open_regular, shown_path
from uedp_bench.files.text_files import MOST_LINE, open_text
from uedp_bench.source import Source
from uedp_bench.tasks.sources.reading.columns import (
    ColumnParams,
    corpus_of_columns,
    undeclared_classes,
)
from uedp_bench.tasks.sources.reading.file_columns import (
    DOCUMENT,
    SPLIT,
    Columns,
    FileColumns,
    joined,
)
from uedp_bench.tasks.sources.reading.splits import ALIASES
from uedp_bench.tasks.sources.reading.token_files import ENDINGS, read_tokens

MOST_ROWS, MOST_BYTES_A_ROW = 10_000_000, 64
"""A parquet file names its number of rows; past the first number, it is believed where the file has
this many bytes for a thousand of them."""

_TABLES = frozenset({".csv", ".tsv", ".jsonl", ".ndjson", ".parquet"})


class TextFileParams(ColumnParams):
    """The file and its columns."""

    path: Path = Field(
        description="file ending in .csv, .tsv, .jsonl, .ndjson, .conll, .bio, .iob, .iob2 (each "
        "plain or .gz) or .parquet; or a folder with one a split: train, valid (or dev), test, "
        "public"
    )
    token_columns: tuple[str, ...] = Field(
        default=(),
        exclude_if=at(()),
        description="names of the columns of a file in CoNLL layout (.conll, .bio, .iob, .iob2), "
        "the tokens first; by default the first is token and the last gold",
    )


class TextFile(Source[TextFileParams]):
    """Rows of a file with named columns.

    csv and tsv have a header and the quoting of RFC 4180, and their empty fields are nulls; jsonl
    has one object a line; a file in CoNLL layout has a token and its tags a line, and a blank line
    after a sentence; all text is UTF-8. Splits that the files do not have are cut off the training
    users, whole users at a time.
    """

    name: ClassVar[str] = "text"
    source: ClassVar[str] = "a file of the user"
    Params = TextFileParams

    def undeclared(self) -> frozenset[str]:
        """See `Source`."""
        return undeclared_classes(self.params)

    def read(self) -> Corpus:
        """The corpus of the file.

        Raises:
            InputError: for a missing or malformed file, and see `corpus_of_columns`.
        """
        params = self.params
        if params.path.is_dir():
            files = _of_splits(params.path, f"{self.name}.path")
            columns: Columns = joined(
                {
                    split: read_columns(file, self.name, params.token_columns)
                    for split, file in files.items()
                }
            )
            params = params.model_copy(update={"split_column": params.split_column or SPLIT})
        else:
            columns = read_columns(params.path, self.name, params.token_columns)
        if isinstance(columns, FileColumns) and columns.by_word:
            params = _of_tokens(params, columns)
        return corpus_of_columns(columns, params, self.name)


def _of_splits(folder: Path, parameter: str) -> dict[str, Path]:
    """The file of each split that a folder has, by the beginning of its name.

    Raises:
        InputError: if none is of the training split, or two are of one split.
    """
    found: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        split = ALIASES.get(file.name.partition(".")[0].lower())
        if split is None or _ending(file) not in {*ENDINGS, *_TABLES}:
            continue
        if split in found:
            raise InputError(
                f"{parameter}: {shown_path(folder)} has two files of the split {split}: "
                f"{found[split].name} and {file.name}"
            )
        found[split] = file
    if "train" not in found:
        raise InputError(
            f"{parameter}: {shown_path(folder)} has no file train.*, of a kind that this source "
            f"reads: {', '.join(sorted({*ENDINGS, *_TABLES}))}"
        )
    return {split: found[split] for split in SPLITS if split in found}


def _ending(path: Path) -> str:
    endings = [ending for ending in path.suffixes if ending != ".gz"]
    return endings[-1].lower() if endings else ""


def _of_tokens(params: TextFileParams, columns: Columns) -> TextFileParams:
    """What is not said of a file in CoNLL layout: all its columns of tags are layers."""
    token, *tags = (name for name in columns if name not in (DOCUMENT, SPLIT))
    said = {
        "tokens_column": params.tokens_column or token,
        "layer_columns": params.layer_columns or tuple(tags),
    }
    return params.model_copy(update=said)


def read_columns(path: Path, owner: str, token_columns: tuple[str, ...] = ()) -> Columns:
    """The columns of a file, whose format is in its ending.

    Args:
        path: the file.
        owner: the source, for messages.
        token_columns: names of the columns of a file in CoNLL layout.

    Raises:
        InputError: if the file is missing, of an unknown format or malformed.
    """
    kind = _ending(path)
    parameter = f"{owner}.path"
    if kind in ENDINGS:
        return read_tokens(path, token_columns, parameter)
    if kind in {".csv", ".tsv"}:
        return _read_delimited(path, "," if kind == ".csv" else "\t", parameter)
    if kind in {".jsonl", ".ndjson"}:
        return _read_jsonl(path, parameter)
    if kind == ".parquet":
        return _read_parquet(path, parameter)
    raise InputError(
        f"{parameter}: {shown_path(path)} must end in .csv, .tsv, .jsonl, .ndjson, .parquet or, in "
        f"CoNLL layout, {', '.join(sorted(ENDINGS))}"
    )


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
