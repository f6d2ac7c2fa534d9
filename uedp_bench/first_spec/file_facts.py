"""Facts of a file from its content: its format, its encoding, its delimiter."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from uedp_bench.data.tables import FORMATS as TABLES
from uedp_bench.data.tables import ending_of
from uedp_bench.data.text_files import (
    DELIMITERS,
    PUBTATOR_TITLE,
    Dialect,
    Quoting,
    read_records,
)
from uedp_bench.errors import InputError, shown
from uedp_bench.io.files import (
    GZIP_MAGIC,
    UTF_8,
    encoding_of_mark,
    open_regular,
    open_text,
    refuse_packed,
    shown_path,
)
from uedp_bench.tasks.sources.reading.files import ENDINGS as TOKEN_FILES
from uedp_bench.tasks.sources.reading.files import FileFormat, is_comment
from uedp_bench.tasks.sources.reading.tag_schemes import looks_tagged

FORMATS: dict[str, FileFormat] = {**TABLES, **dict.fromkeys(sorted(TOKEN_FILES), "conll")}
"""Format of a file, by its ending."""

LOOKED_AT = 2**20
"""Bytes of a file from which its format is guessed; its encoding is checked on all of it."""

MOST_NULLS = 0.01
"""Share of null characters in a text, at most; what has more is no text."""

_LIST = re.compile(r"\[\s*(\{\s*[\"}]|\]|\Z)")
_OBJECT = re.compile(r"\{\s*([\"'}]|\Z)")
_DELIMITED = ("csv", "tsv")


@dataclass(frozen=True)
class FileFacts:
    """Facts of a file.

    Attributes:
        path: path of the file.
        file_format: format of the file.
        encoding: encoding of its text, by Python's name.
        delimiter: delimiter of fields, of csv and tsv; None elsewhere.
        quoting: quoting of csv and tsv, where it is not the standard one.
        by_ending: True if the ending says the format, so that a spec need not name it.
        documents: True if a file of tokens marks documents.
        width: number of columns of a file of tokens; 0 elsewhere.
    """

    path: Path
    file_format: FileFormat
    encoding: str = "utf-8"
    delimiter: str | None = None
    quoting: Quoting | None = None
    by_ending: bool = True
    documents: bool = False
    width: int = 0

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the source `text`, without those at their defaults."""
        parameters: dict[str, Any] = {"path": str(self.path)}
        if not self.by_ending:
            parameters["file_format"] = self.file_format
        if self.encoding != "utf-8":
            parameters["encoding"] = self.encoding
        if self.delimiter not in (None, "\t" if self.file_format == "tsv" else ","):
            parameters["delimiter"] = self.delimiter
        if self.quoting is not None:
            parameters["quoting"] = self.quoting
        return parameters

    @property
    def words(self) -> str:
        """Facts in words."""
        names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
        sign = names.get(self.delimiter or "", shown(self.delimiter))
        between = f", fields between {sign}" if self.delimiter else ""
        kinds = {"jsonl": "an object a line", "json": "a list of objects", "lines": "a text a line",
                 "brat": "a text and its annotations a pair of files",
                 "conll": f"{self.width} columns, a token a line"}  # fmt: skip
        kind = kinds.get(self.file_format, self.file_format)
        quotes = ", quotes are text" if self.quoting == "none" else ""
        written = "" if self.file_format == "parquet" else f", {self.encoding}"
        return f"{kind}{between}{quotes}{written}"


def look_at(path: Path, layout: Mapping[str, str] = MappingProxyType({})) -> FileFacts:
    """Look at a file, and collect its facts.

    Args:
        path: path of the file.
        layout: `delimiter` and `quoting` of a table, where the user named them.

    Raises:
        InputError: if it cannot be read, is empty, or is none of the formats of the source `text`.
    """
    where = f"init: {shown_path(path)}"
    with open_regular(path, "init") as raw:
        start = raw.read(LOOKED_AT)
    if start[:2] == GZIP_MAGIC:
        try:
            with open_regular(path, "init") as raw, gzip.GzipFile(fileobj=raw) as unpacked:
                start = unpacked.read(LOOKED_AT)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{where} is damaged or cut short ({error})") from error
    if not start.strip(b" \t\r\n"):
        raise InputError(f"{where} is empty")
    refuse_packed(start, where)
    named = FORMATS.get(ending_of(path))
    if start[:4] == b"PAR1":
        return FileFacts(path, "parquet", by_ending=named == "parquet")
    encoding = _encoding(path, start)
    text = start.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="ignore")
    if text.count("\0") > MOST_NULLS * len(text):
        raise InputError(
            f"{where} is no text: {', '.join(sorted(set(FORMATS)))} are read; save a spreadsheet "
            "or a document as csv first"
        )
    # Lines of a file end as csv and JSON have it: U+2028, which tweets have, stands within one.
    lines = [line for line in islice(io.StringIO(text, newline=""), 2000) if line.strip()]
    file_format, delimiter = _format_of(text, lines, named)
    if layout:
        if file_format in ("jsonl", "json"):
            raise InputError(f"--{next(iter(layout))}: {where} is {file_format}, and no csv or tsv")
        file_format = file_format if file_format in _DELIMITED else "csv"
        delimiter = layout.get("delimiter", delimiter or ",")
    quoting = None if delimiter is None else _quoting(path, encoding, delimiter)
    if "quoting" in layout:
        quoting = "none" if layout["quoting"] == "none" else "standard"
    return FileFacts(
        path, file_format, encoding, delimiter, quoting, file_format == named,
        documents=file_format == "conll" and "-DOCSTART-" in text,
        width=len(_cells(lines[-1])) if file_format == "conll" else 0,
    )  # fmt: skip


def _encoding(path: Path, start: bytes) -> str:
    marked = encoding_of_mark(start) or _wide_encoding(start)
    if marked is not None:
        return marked
    for name in ("utf-8", "cp1252"):
        try:
            with open_text(path, "init", encoding=name) as text:
                for _ in iter(lambda: text.read(LOOKED_AT), ""):
                    pass
        except InputError as error:
            if not isinstance(error.__cause__, UnicodeDecodeError):
                raise
            continue
        return name
    return "latin-1"


def _wide_encoding(start: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark: most characters have null bytes at the same places."""
    for name, size, places in (
        ("utf-32-le", 4, (1, 2, 3)),
        ("utf-32-be", 4, (0, 1, 2)),
        ("utf-16-le", 2, (1,)),
        ("utf-16-be", 2, (0,)),
    ):
        parts = [start[at:4096:size] for at in range(size)]
        nulls = [part.count(0) / max(len(part), 1) for part in parts]
        if all((share > 0.9) if at in places else share < 0.1 for at, share in enumerate(nulls)):
            return name
    return None


def _quoting(path: Path, encoding: str, delimiter: str) -> Quoting | None:
    """Proposed quoting of a file that does not show it; None for one that does, or fits neither.

    Where both readings are whole, lines of several fields are rows, and a line that is one field is
    a line of a text.
    """
    encoding = UTF_8 if encoding == "utf-8" else encoding
    width = 0
    choices: tuple[Quoting | None, ...] = (None, "none", "standard")
    for quoting in choices:
        rows = enclosed = 0
        try:
            records = read_records(path, "init", Dialect(delimiter, quoting), encoding=encoding)
            for _, fields in records:
                rows, width = rows + 1, len(fields)
                enclosed += any(len(f) > 1 and f[0] == '"' == f[-1] for f in fields)
        except InputError:
            continue
        if quoting != "none" or (width > 1 and 2 * enclosed <= rows):
            return quoting
    return None  # the source names the line


def _format_of(text: str, lines: list[str], named: str | None) -> tuple[FileFormat, str | None]:
    """Format of the text, and the delimiter of fields."""
    first = lines[0].lstrip()
    if PUBTATOR_TITLE.fullmatch(first.rstrip()):
        return "pubtator", None
    if _OBJECT.match(first):
        return "jsonl", None
    if first.startswith("[") and (named == "json" or _LIST.match(text.lstrip())):
        return "json", None
    if named in ("jsonl", "json"):
        return ("jsonl" if named == "jsonl" else "json"), None  # the source names the line
    if named == "conll" or _is_tagged(text, lines):
        return "conll", None
    usual = "\t" if named == "tsv" else ","
    delimiter = _delimiter(lines, usual)
    if named in _DELIMITED:
        return ("tsv" if named == "tsv" else "csv"), delimiter or usual
    # Commas stand in every text; a table without an ending must be a clear one.
    if named != "lines" and delimiter is not None:
        return ("tsv" if delimiter == "\t" else "csv"), delimiter
    if named == "lines" and delimiter in ("\t", "|"):
        return ("tsv" if delimiter == "\t" else "csv"), delimiter
    return "lines", None


def _cells(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t" if "\t" in line else None)


def _is_tagged(text: str, lines: list[str]) -> bool:
    """A token a line, its tag last, and blank lines between sentences."""
    if not re.search(r"\n[ \t]*\r?\n", text.strip()):
        return False
    rows = [
        _cells(line)
        for line in lines[:-1]
        if not line.startswith("-DOCSTART-") and not is_comment(line)
    ]
    if not rows or min(map(len, rows)) < 2 or len(set(map(len, rows))) > 1:
        return False
    return looks_tagged([row[-1] for row in rows])


def _delimiter(lines: list[str], usual: str) -> str | None:
    """Delimiter that cuts lines into equally many fields; None where none does."""
    best, most = None, (0, 0.0)
    for candidate in DELIMITERS:
        try:
            rows = list(islice(csv.reader(lines, delimiter=candidate), 200))
        except csv.Error:
            continue
        rows = rows[:-1] or rows  # the last may be cut
        width = len(rows[0]) if rows else 0
        alike = Counter(map(len, rows))[width] / max(len(rows), 1)
        # Of two that cut every line alike, a comma in each text is the narrower one.
        score = (width if alike == 1 else 0, alike * (1.0 if candidate == usual else 0.95))
        if width > 1 and alike >= 0.8 and score > most:
            best, most = candidate, score
    return best
