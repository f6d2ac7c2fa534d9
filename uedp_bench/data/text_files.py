"""Records of text files: csv and tsv, PubTator, and BRAT."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from uedp_bench.errors import InputError, plain, shown
from uedp_bench.io.files import MOST_LINE, UTF_8, open_text, shown_path

Quoting = Literal["standard", "none"]
"""`standard`: a field may stand in double quotes, as RFC 4180 has it; `none`: a quote is text."""

DELIMITERS = ",;\t|"
"""Delimiters that messages and guesses consider."""

MANY_SPANNING = 10
"""Records over several lines that show quoting by their number."""

_BLANK = frozenset({"\n", "\r\n", "\r"})


class Dialect(NamedTuple):
    """Delimiter and quoting of a table in text.

    Attributes:
        delimiter: delimiter of the fields of a record.
        quoting: None for `standard` that is refused where the file may have none.
        may_guess: True if the delimiter is a default, so that another may be right.
    """

    delimiter: str
    quoting: Quoting | None = None
    may_guess: bool = False


class Record(NamedTuple):
    """A record: the line where it starts, from 1, and its fields."""

    line: int
    fields: list[str]


def read_records(
    path: Path, parameter: str, dialect: Dialect, *, encoding: str = UTF_8, has_options: bool = True
) -> Iterator[Record]:
    """Read the records of a file, all with as many fields as the first; blank lines are left out.

    Args:
        path: the file.
        parameter: parameter that names the file (`OWNER.path`), for messages.
        dialect: dialect of the file.
        encoding: encoding of its text.
        has_options: True if the owner has the parameters `quoting` and `delimiter`, for messages.

    Raises:
        InputError: with the line where the record starts, for another number of fields, a quote
            that is not closed, or, with quoting None, a quoted field over several lines of which
            each is a record by itself: one reading of such a file is wrong.
    """
    csv.field_size_limit(MOST_LINE)  # the csv module stops at 128 KiB a field by default
    where = f"{parameter}: {shown_path(path)}"
    owner = parameter.partition(".")[0] if has_options else ""
    with open_text(path, parameter, newline="", encoding=encoding) as text:
        lines = _Lines(text)
        reader = csv.reader(
            lines,
            delimiter=dialect.delimiter,
            quoting=csv.QUOTE_NONE if dialect.quoting == "none" else csv.QUOTE_MINIMAL,
            strict=True,
        )
        evidence = _Evidence(where, owner, dialect.delimiter)
        is_quoted, width = False, 0
        first: Record | None = None
        while True:
            start = reader.line_num + 1
            lines.read.clear()
            try:
                fields = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                hint = _quoting_hint(owner, dialect)
                if any('\\"' in line for line in lines.read):
                    hint = "; a quote within quotes is doubled, not escaped by a backslash"
                raise InputError(f"{where}, line {start}: {error}{hint}") from None
            if not fields:
                continue
            record = Record(start, fields)
            if first is None:
                first, width = record, len(fields)
                # Nobody calls a column "user" with its quotes.
                line = lines.read[-1].rstrip("\r\n")
                is_quoted = line[:1] == '"' == line[-1:]
                if any("\0" in field for field in fields):
                    raise InputError(
                        f"{where}, line {start}: null characters, as UTF-16 has where it is read "
                        f"as {'UTF-8' if encoding == UTF_8 else encoding}; name its encoding"
                    )
            else:
                if width == 1 or len(fields) != width:
                    _check_width(record, first, lines.read[-1], dialect, where, owner)
                evidence.add(record, lines.read)
            yield record
        if dialect.quoting is None and not is_quoted:
            evidence.check()


class _Lines:
    """Lines of a text; `read` has those that were read since it was cleared."""

    def __init__(self, text: Iterator[str]) -> None:
        self._text = text
        self.read: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._text)
        self.read.append(line)
        return line


class _Evidence:
    """Evidence for quotes that quote, and for quotes that are text.

    A record whose fields are not those of its lines proves quoting: a file of rows without quoting
    has none. A record over several lines, each of which has all fields of one, is most likely
    several that a quote swallowed. Where there are many of these, each quote that opens a field is
    closed at the end of one: that is no accident, unless rows between tabs are lines of a dialogue.
    """

    def __init__(self, where: str, owner: str, delimiter: str) -> None:
        self._where, self._owner, self._delimiter = where, owner, delimiter
        self._quoted = 0
        self._swallowed: list[tuple[int, int]] = []

    def add(self, record: Record, lines: list[str]) -> None:
        """Count a record that stands on these lines."""
        delimiters = len(record.fields) - 1
        if len(lines) == 1:  # most records; what follows says the same, and takes longer
            self._quoted += lines[0].count(self._delimiter) != delimiters
            return
        # A blank line proves nothing, unless all records are single fields: a record has no blank.
        filled = [line for line in lines if not delimiters or line not in _BLANK]
        proves = any(line.count(self._delimiter) != delimiters for line in filled)
        if proves or (not delimiters and not _BLANK.isdisjoint(lines)):
            self._quoted += 1
        else:
            self._swallowed.append((record.line, record.line + len(lines) - 1))

    def check(self) -> None:
        """Refuse a file that most likely has no quoting.

        Raises:
            InputError: with the first record that a quote swallowed.
        """
        is_regular = self._delimiter != "\t" and len(self._swallowed) >= MANY_SPANNING
        if is_regular or len(self._swallowed) <= self._quoted:
            return
        first, last = self._swallowed[0]
        option = (
            f"say which it is: {self._owner}.quoting is standard (one field) or none (quotes are "
            "text)"
            if self._owner
            else "write it with every quote doubled within quoted fields"
        )
        raise InputError(
            f"{self._where}, line {first}: a quote opens a field that ends in line {last}, and "
            f"each of these lines has all fields of a row; {option}"
        )


def _check_width(
    record: Record, first: Record, line: str, dialect: Dialect, where: str, owner: str
) -> None:
    """Refuse a record of another width than the first, or a delimiter that cuts nothing."""
    width = len(first.fields)
    other = None
    if width == 1 and dialect.may_guess:
        name = first.fields[0]
        candidates = [each for each in DELIMITERS if each in name and each != dialect.delimiter]
        other = next((each for each in candidates if line.count(each) == name.count(each)), None)
        if other is None and len(record.fields) != 1 and candidates:
            other = candidates[0]
    if other is not None:
        option = f"{owner}.delimiter" if owner else "the delimiter"
        raise InputError(
            f"{where}, line {first.line}: {shown(first.fields[0])} is one column between "
            f"{_name(dialect.delimiter)}; is {option} {other!r}?"
        )
    if len(record.fields) != width:
        hint = _quoting_hint(owner, dialect) if '"' in line else ""
        raise InputError(
            f"{where}, line {record.line}: {len(record.fields)} fields, and {width} in line "
            f"{first.line}{hint}"
        )


def _quoting_hint(owner: str, dialect: Dialect) -> str:
    if not owner or dialect.quoting == "none":
        return ""
    return f"; if quotes of this file are text, set {owner}.quoting=none"


def _name(delimiter: str) -> str:
    names = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
    return names.get(delimiter, plain(repr(delimiter), 20))


# ------------------------------------------------------------------- annotations beside their texts
# Offsets count characters of the text as it stands in the file, end exclusive. A mention whose
# words are not those at its place is refused: the file was changed, or its line ends were.

PUBTATOR_TITLE = re.compile(r"(\d+)\|t\|(.*)")
MOST_FIGURES = 15
"""Figures of an offset, at most."""

_ABSTRACT = re.compile(r"(\d+)\|a\|(.*)")

StandoffColumns = tuple[dict[str, list[Any]], list[int]]
"""Columns `id`, `text` and `entities` (spans of a row), and the line of each row."""


def read_pubtator(path: Path, parameter: str, encoding: str) -> StandoffColumns:
    """Read documents of PubTator: title, abstract, and a line a mention.

    The text is the title and the abstract with a space between. Lines of relations are left out.

    Args:
        path: the file.
        parameter: parameter that names the file, for messages.
        encoding: encoding of its text.

    Raises:
        InputError: naming the line that is none of these.
    """
    columns: dict[str, list[Any]] = {"id": [], "text": [], "entities": []}
    numbers: list[int] = []
    with open_text(path, parameter, encoding=encoding, newline="") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{parameter}: {shown_path(path)}, line {number}"
            content = line.rstrip("\r\n")
            if title := PUBTATOR_TITLE.fullmatch(content):
                for name, value in (("id", title[1]), ("text", title[2]), ("entities", [])):
                    columns[name].append(value)
                numbers.append(number)
                continue
            if not content.strip():
                continue
            part = _ABSTRACT.fullmatch(content)
            fields = content.split("\t")
            document = part[1] if part else fields[0]
            if not numbers or document != columns["id"][-1]:
                raise InputError(f"{where} belongs to no document: {shown(content)}")
            if part:
                columns["text"][-1] += f" {part[2]}"
            elif len(fields) >= 5:
                columns["entities"][-1].append(_span(columns["text"][-1], fields[1:5], where))
            elif len(fields) != 4:  # a relation: its type and two concepts
                raise InputError(f"{where} is no mention (id, start, end, words, type)")
    return columns, numbers


def read_brat(folder: Path, parameter: str, encoding: str) -> StandoffColumns:
    """Read a folder of BRAT: a document a pair of files, NAME.txt and NAME.ann.

    A mention of several pieces reaches from the first to the last. Lines of relations, events,
    attributes and notes are left out.

    Args:
        folder: the folder.
        parameter: parameter that names it, for messages.
        encoding: encoding of its texts.

    Raises:
        InputError: naming the file without its pair, or the line that is no annotation.
    """
    columns: dict[str, list[Any]] = {"id": [], "text": [], "entities": []}
    texts = (file.with_suffix(".ann") for file in folder.glob("*.txt"))
    for file in sorted({*folder.glob("*.ann"), *texts}):
        with open_text(file.with_suffix(".txt"), parameter, encoding=encoding, newline="") as text:
            document = text.read()
        columns["id"].append(file.stem)
        columns["text"].append(document)
        columns["entities"].append(list(_brat_mentions(file, document, parameter, encoding)))
    return columns, [1] * len(columns["id"])


def _brat_mentions(
    file: Path, document: str, parameter: str, encoding: str
) -> Iterator[dict[str, Any]]:
    with open_text(file, parameter, encoding=encoding) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.startswith("T"):
                continue
            where = f"{parameter}: {shown_path(file)}, line {number}"
            fields = line.rstrip("\r\n").split("\t")
            kind, _, places = fields[1].partition(" ") if len(fields) == 3 else ("", "", "")
            pieces = [piece.split(" ") for piece in places.split(";")]
            if any(len(piece) != 2 for piece in pieces):
                raise InputError(f"{where} is no mention (id, type with start and end, words)")
            words = fields[2] if len(pieces) == 1 else None
            yield _span(document, [pieces[0][0], pieces[-1][1], words, kind], where)


def _span(text: str, fields: list[Any], where: str) -> dict[str, Any]:
    """A mention from its start, end, words and type; words of None are not compared."""
    start, end, words, kind = fields
    if not all(place.isdecimal() and len(place) <= MOST_FIGURES for place in (start, end)):
        raise InputError(
            f"{where}: start and end are {shown(start)} and {shown(end)}; give numbers"
        )
    at = text[int(start) : int(end)]
    if words is not None and " ".join(at.split()) != " ".join(words.split()):
        raise InputError(
            f"{where}: the words are {shown(words)}, and the text has {shown(at)} there"
        )
    return {"start": int(start), "end": int(end), "type": kind}
