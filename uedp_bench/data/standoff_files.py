"""Annotations beside their texts: files of PubTator, and folders of BRAT.

Offsets count characters of the text as it stands in the file, end exclusive. A mention whose words
are not those at its place is refused: the file was changed, or its line ends were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError, shown
from uedp_bench.io.files import open_text, shown_path

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
    for file in sorted(folder.glob("*.ann")):
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
