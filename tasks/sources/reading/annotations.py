"""Annotations of texts as files have them: character spans, or a tag a word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from uedp_bench.corpus import BoolArray, Layer, Mention, Spans
from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.files.cell_values import NOT_TEXT
from uedp_bench.files.printable import plain

Place = tuple[int, int]
"""(start, end) of a word in its text."""

_BIO = re.compile(r"[BI]-\S+|O")
_STARTS = re.compile(r"[BI]-\S+")


class Where(Protocol):
    """Names a row, and a word of it, in messages."""

    def __call__(self, row: int, word: int = 0) -> str:
        """File and line, where they are known."""
        ...


@dataclass(frozen=True)
class Words:
    """Texts and the places of their words, a list a row."""

    texts: Sequence[str]
    places: Sequence[Sequence[Place]]
    where: Where


@dataclass(frozen=True)
class Annotation:
    """What a column annotates.

    Attributes:
        mentions: (row, start, end, index into `types`).
        types: sorted.
        rows: (rows,) True for rows that have a value: null means that nobody annotated them.
    """

    mentions: list[Mention]
    types: tuple[str, ...]
    rows: BoolArray

    def layer(self, texts: Sequence[str]) -> Layer:
        """The same as a layer of a corpus."""
        return Layer(Spans.build(texts, self.mentions), self.types, self.rows)


def words_of(texts: Sequence[str]) -> list[list[Place]]:
    """Places of what stands between white space."""
    return [[found.span() for found in re.finditer(r"\S+", text)] for text in texts]


def places_of(tokens: Sequence[str]) -> list[Place]:
    """Places of tokens in the text that they make, joined by single spaces."""
    places, at = [], 0
    for token in tokens:
        places.append((at, at + len(token)))
        at += len(token) + 1
    return places


def read_annotation(values: Sequence[Any], column: str, words: Words) -> Annotation:
    """What a column annotates, each row by spans or by tags.

    A list of tags has one a word. Where one of the column starts with `B-` or `I-`, all are read as
    IOB1 or IOB2 (`O` is outside); else each word has the type that its tag names.

    Args:
        values: of each row: a list of {start, end, type}, or a list of tags, as JSON text too.
        column: its name.
        words: of the texts.

    Raises:
        InputError: naming row, column and value, for one that is none of these.
    """
    rows = [_parsed(value, words.where(row), column) for row, value in enumerate(values)]
    every = {item for items in rows for item in items or () if isinstance(item, str)}
    known = sorted(filter(_BIO.fullmatch, every)) if any(map(_STARTS.fullmatch, every)) else None
    found: list[tuple[int, int, int, str]] = []
    for row, items in enumerate(rows):
        if items and isinstance(items[0], str):
            spans = _of_tags(row, items, column, words, known)
        else:
            where = f"{words.where(row)}, column {shown(column)}"
            spans = list(_of_spans(items or [], words.texts[row], where))
        found += [(row, *span) for span in spans]
    types = tuple(sorted({kind for *_, kind in found}))
    index = {name: at for at, name in enumerate(types)}
    return Annotation(
        [(row, start, end, index[kind]) for row, start, end, kind in found],
        types,
        np.array([items is not None for items in rows], dtype=bool),
    )


def _parsed(value: Any, where: str, column: str) -> list[Any] | None:
    try:
        items = json.loads(value) if isinstance(value, str) else value
        return None if items is None else list(items)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{where}, column {shown(column)}: {shown(value)} is not a list of "
            f"{{start, end, type}} or of tags: {plain(str(error), 200)}"
        ) from None


def _of_spans(items: list[Any], text: str, where: str) -> Iterator[tuple[int, int, str]]:
    for item in items:
        try:
            start, end, kind = item["start"], item["end"], item["type"]
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{where} is not a list of {{start, end, type}}: {shown(item)}{_lack(item, error)}"
            ) from None
        if not (type(start) is int and type(end) is int and isinstance(kind, str)):
            raise InputError(
                f"{where} is not a list of {{start, end, type}}: start and end must be whole "
                f"numbers and type a text: {shown(item)}"
            )
        if not kind or NOT_TEXT.search(kind):
            raise InputError(f"{where}: {shown(kind)} is no name of a type")
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"{where}: ({shown(start)}, {shown(end)}) is not inside the text of {len(text)} "
                "characters"
            )
        yield start, end, kind


def _lack(item: Any, error: Exception) -> str:
    if not (isinstance(item, dict) and isinstance(error, KeyError)):
        return ""
    near = nearest(str(error.args[0]), [str(key) for key in item])
    return f" has no {error}" + (f"; did you mean it by {near!r}?" if near else "")


def _of_tags(
    row: int, tags: list[Any], column: str, words: Words, known: list[str] | None
) -> list[tuple[int, int, str]]:
    """Spans of a row's tags; `known` are the IOB tags of the column, None where it has none."""
    places = words.places[row]
    if len(tags) != len(places):
        raise InputError(
            f"{words.where(row)}, column {shown(column)}: {len(tags)} tags for {len(places)} words"
        )
    for at, tag in enumerate(tags):
        where = f"{words.where(row, at)}, column {shown(column)}: tag {at + 1} of the row"
        if not isinstance(tag, str) or not tag.strip() or NOT_TEXT.search(tag):
            raise InputError(f"{where} is {shown(tag)}; a tag is a text")
        if known is not None and not _BIO.fullmatch(tag):
            near = nearest(tag, known)
            hint = f"; did you mean {near!r}?" if near else ""
            raise InputError(
                f"{where} is {shown(tag)}, and others of the column are IOB: it must be O, or B- "
                f"or I- with a type{hint}"
            )
    if known is not None:
        return iob_spans(places, tags)
    return [(*place, tag) for place, tag in zip(places, tags, strict=True)]


def iob_spans(places: Sequence[Place], tags: Sequence[str]) -> list[tuple[int, int, str]]:
    """Entities as (start, end, type) of words at these places.

    Reads IOB1, where `B-` separates neighbours of one type and any other change starts an entity
    by itself; IOB2, which marks every start with `B-`, comes out the same.
    """
    spans: list[tuple[int, int, str]] = []
    before = ""
    for (start, end), tag in zip(places, tags, strict=True):
        prefix, _, kind = tag.partition("-")
        if kind and kind == before and prefix == "I":
            spans[-1] = (spans[-1][0], end, kind)
        elif kind:
            spans.append((start, end, kind))
        before = kind
    return spans
