"""Annotations of texts as files have them: character spans, or a tag a word."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from uedp_bench.corpus import BoolArray, IntArray, Layer, Spans, some_texts
from uedp_bench.data.table_columns import NOT_TEXT
from uedp_bench.data.tables import PYTHON_HINT, is_printed_list
from uedp_bench.errors import InputError, nearest, plain, shown
from uedp_bench.tasks.sources.reading.tag_schemes import (
    CATEGORIES,
    Place,
    TagError,
    TagScheme,
    TypedPlace,
    scheme_of,
)

SPAN_FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("start_position", "start_offset", "start_char", "begin"),
    "end": ("end_position", "end_offset", "end_char"),
    "type": ("entity_type", "label", "entity_group"),
}
"""Fields of a span, and what Presidio, spaCy, Prodigy, doccano, TAB and transformers call them."""


@dataclass(frozen=True)
class Words:
    """Texts whose words are what stands between white space.

    Attributes:
        texts: texts of all rows.
        where: name of a word in messages, by its row and its number there: file and line.
    """

    texts: Sequence[str]
    where: Callable[[int, int], str]


@dataclass(frozen=True)
class Annotation:
    """Mentions that a column annotates.

    Attributes:
        mentions: (mentions, 4) row, start, end, index into `types`.
        types: types of mentions, sorted.
        rows: (rows,) True for rows that have a value: null means that nobody annotated them.
        by_tags: True if some rows have tags, whose scheme follows from all of them.
    """

    mentions: IntArray
    types: tuple[str, ...]
    rows: BoolArray
    by_tags: bool = False

    def layer(self, texts: Sequence[str]) -> Layer:
        """Build a layer of a corpus."""
        return Layer(Spans.build(texts, self.mentions), self.types, self.rows)


def places_of(tokens: Sequence[str]) -> list[Place]:
    """Places of tokens in the text that they make, joined by single spaces."""
    places, at = [], 0
    for token in tokens:
        places.append((at, at + len(token)))
        at += len(token) + 1
    return places


def read_annotation(
    values: Callable[[], Iterable[Any]], column: str, words: Words, *, entities: bool = False
) -> Annotation:
    """Read the annotation of a column, each row by spans or by tags.

    A list of tags has one a word; all of the column are of one scheme (`tag_schemes`).

    Args:
        values: gives the values of some rows after the other, as lists or as Arrow arrays. That of
            a row is a list of spans (`span_fields`), or a list of tags, as JSON text too.
        column: its name.
        words: words of the texts.
        entities: the column marks entities, so that some tag is for words outside of them.

    Raises:
        InputError: naming row, column and value, for one that is none of these.
    """
    reading = _Reading(column, words)
    for part in values():
        reading.add_spans(part)
    if reading.tags:
        reading.rows = 0
        scheme: TagScheme | TagError
        try:
            scheme = scheme_of(reading.tags)
        except TagError as error:
            scheme = error
        if entities and isinstance(scheme, TagScheme) and scheme.name == CATEGORIES:
            tag = min(reading.tags)
            scheme = TagError(tag, "makes every word an entity: no tag of the column is O")
        for part in values():
            reading.add_tags(part, scheme)
    return reading.annotation()


class _Reading:
    """Annotations of a column as far as it was read; few rows are objects at a time.

    Attributes:
        rows: rows that were read.
        tags: the different ones.
    """

    def __init__(self, column: str, words: Words) -> None:
        self._column, self._words = column, words
        self.rows = 0
        self.tags: set[str] = set()
        self._types: dict[str, int] = {}
        self._mentions: list[IntArray] = []
        self._annotated: list[BoolArray] = []

    def add_spans(self, part: Any) -> None:
        """Reads the spans of some more rows, and which tags there are."""
        table = None if isinstance(part, list) else self._of_arrow(part)
        if table is not None:
            self._mentions.append(table)
            self._annotated.append(part.is_valid().to_numpy(zero_copy_only=False))
        else:
            rows = self._parsed(part)
            self.tags |= {item for items in rows for item in items or () if _is_tag(item)}
            spans = [(at, items) for at, items in enumerate(rows) if items and not _tagged(items)]
            at = np.array([at for at, _ in spans], dtype=np.int64)
            texts = some_texts(self._words.texts, self.rows + at)
            for (row, items), text in zip(spans, texts, strict=True):
                self._add(row, _of_spans(items, text, self._where(row)))
            self._annotated.append(np.array([items is not None for items in rows], dtype=bool))
        self.rows += len(part)

    def add_tags(self, part: Any, scheme: TagScheme | TagError) -> None:
        """Reads the tags of some more rows, or finds the row of the tag that has no scheme.

        A column of tags is read twice: none of them means anything before all are known.
        """
        rows = enumerate(self._parsed(part))
        tagged = [(at, items) for at, items in rows if items and _tagged(items)]
        at = np.array([at for at, _ in tagged], dtype=np.int64)
        texts = some_texts(self._words.texts, self.rows + at)
        for (row, items), text in zip(tagged, texts, strict=True):
            places = [word.span() for word in re.finditer(r"\S+", text)]
            where = partial(self._words.where, self.rows + row)
            self._add(row, _of_tags(items, places, self._column, scheme, where))
        self.rows += len(part)

    def annotation(self) -> Annotation:
        """Annotations of all rows that were read."""
        types = tuple(sorted(self._types))
        number = np.array([types.index(name) for name in self._types], dtype=np.int64)
        mentions = np.concatenate([np.empty((0, 4), dtype=np.int64), *self._mentions])
        mentions[:, 3] = number[mentions[:, 3]]
        rows = np.concatenate([np.empty(0, bool), *self._annotated])
        return Annotation(mentions, types, rows, bool(self.tags))

    def _add(self, row: int, spans: Iterable[tuple[int, int, str]]) -> None:
        types = self._types
        mentions = [
            (self.rows + row, start, end, types.setdefault(kind, len(types)))
            for start, end, kind in spans
        ]
        self._mentions.append(np.array(mentions, dtype=np.int64).reshape(-1, 4))

    def _of_arrow(self, part: Any) -> IntArray | None:
        """Mentions of an Arrow array of lists of {start, end, type}, without an object for any.

        None for any other array, and where a span is wrong: read as objects, it is refused.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if not _is_of_spans(part.type):
            return None
        items = part.flatten()
        start, end, kind = (pc.struct_field(items, name) for name in ("start", "end", "type"))
        if start.null_count or end.null_count or kind.null_count:
            return None
        lengths = pc.list_value_length(part).fill_null(0).to_numpy(zero_copy_only=False)
        places = np.stack([np.repeat(np.arange(len(part)), lengths), start, end], axis=1)
        rows, which = np.unique(places[:, 0], return_inverse=True)
        texts = some_texts(self._words.texts, self.rows + rows)
        sizes = np.array([*map(len, texts)], dtype=np.int64)[which]
        kind = kind.cast(pa.large_string()).dictionary_encode()
        names: list[str] = kind.dictionary.to_pylist()
        inside = (places[:, 1] >= 0) & (places[:, 1] < places[:, 2]) & (places[:, 2] <= sizes)
        if not inside.all() or any(not name or NOT_TEXT.search(name) for name in names):
            return None
        types = np.array([self._types.setdefault(name, len(self._types)) for name in names])
        places[:, 0] += self.rows
        return np.column_stack([places, types[kind.indices.to_numpy()]]).astype(np.int64)

    def _parsed(self, part: Any) -> list[list[Any] | None]:
        values = part if isinstance(part, list) else part.to_pylist()
        return [self._items(row, value) for row, value in enumerate(values)]

    def _items(self, row: int, value: Any) -> list[Any] | None:
        try:
            items = json.loads(value) if isinstance(value, str) else value
            return None if items is None else list(items)
        except (ValueError, TypeError, RecursionError) as error:
            hint = PYTHON_HINT if is_printed_list(value) else f": {plain(str(error), 200)}"
            raise InputError(
                f"{self._words.where(self.rows + row, 0)}, column {shown(self._column)}: "
                f"{shown(value)} is not a list of {{start, end, type}} or of tags{hint}"
            ) from None

    def _where(self, row: int) -> Callable[[], str]:
        return lambda: f"{self._words.where(self.rows + row, 0)}, column {shown(self._column)}"


def _is_of_spans(kind: Any) -> bool:
    import pyarrow as pa

    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    item = kind.value_type
    if not pa.types.is_struct(item):
        return False
    types = {field.name: field.type for field in item.fields}
    return (
        len(types) == item.num_fields
        and {"start", "end", "type"} <= {*types}
        and all(pa.types.is_signed_integer(types[name]) for name in ("start", "end"))
        and (pa.types.is_string(types["type"]) or pa.types.is_large_string(types["type"]))
    )


def _tagged(items: list[Any]) -> bool:
    return isinstance(items[0], str)


def span_fields(item: Any) -> tuple[Any, Any, Any]:
    """Start, end and type of a span, by any of the names that tools give them (`SPAN_FIELDS`).

    Raises:
        LookupError: if it lacks one of them, or has several that are not `start`, `end`, `type`.
        TypeError: for what is neither an object nor a list.
    """
    if isinstance(item, list | tuple) and len(item) == 3:
        return item[0], item[1], item[2]
    values = []
    for field, others in SPAN_FIELDS.items():
        names = [field] if field in item else [name for name in others if name in item]
        if len(names) > 1:
            raise LookupError(f"it has {' and '.join(names)}; call one of them {field}")
        values.append(item[names[0] if names else field])
    return values[0], values[1], values[2]


def _of_spans(
    items: list[Any], text: str, of_row: Callable[[], str]
) -> Iterator[tuple[int, int, str]]:
    for item in items:
        try:
            start, end, kind = span_fields(item)
        except (LookupError, TypeError) as error:
            raise InputError(
                f"{of_row()} is not a list of {{start, end, type}}: {shown(item)}"
                f"{_lack(item, error)}"
            ) from None
        if not (type(start) is int and type(end) is int and isinstance(kind, str)):
            raise InputError(
                f"{of_row()} is not a list of {{start, end, type}}: start and end must be whole "
                f"numbers and type a text: {shown(item)}"
            )
        if not kind or NOT_TEXT.search(kind):
            raise InputError(f"{of_row()}: {shown(kind)} is no name of a type")
        if not 0 <= start < end <= len(text):
            raise InputError(
                f"{of_row()}: ({shown(start)}, {shown(end)}) is not inside the text of {len(text)} "
                "characters"
            )
        yield start, end, kind


def _lack(item: Any, error: Exception) -> str:
    if isinstance(error, LookupError) and not isinstance(error, KeyError):
        return f": {error}"
    if not (isinstance(item, dict) and isinstance(error, KeyError)):
        return ""
    near = nearest(str(error.args[0]), [str(key) for key in item])
    return f" has no {error}" + (f"; did you mean it by {near!r}?" if near else "")


def _is_tag(item: Any) -> bool:
    return isinstance(item, str) and bool(item.strip()) and not NOT_TEXT.search(item)


def _of_tags(
    tags: list[Any],
    places: Sequence[Place],
    column: str,
    scheme: TagScheme | TagError,
    where_of: Callable[[int], str],
) -> list[TypedPlace]:
    """Spans of a row's tags.

    Raises:
        InputError: for the first tag that is none, or that its scheme does not have.
    """
    if len(tags) != len(places):
        raise InputError(
            f"{where_of(0)}, column {shown(column)}: {len(tags)} tags for {len(places)} words"
        )

    def refusal(word: int, reason: str) -> InputError:
        where = f"{where_of(word)}, column {shown(column)}: tag {word + 1} of the row"
        return InputError(f"{where} is {shown(tags[word])}, which {reason}")

    for at, tag in enumerate(tags):
        if not _is_tag(tag):
            raise refusal(at, "is no tag; a tag is a text")
        if isinstance(scheme, TagError) and tag == scheme.tag:
            raise refusal(at, scheme.reason)
    if isinstance(scheme, TagError):
        return []
    try:
        return scheme.spans(places, tags)
    except TagError as error:
        raise refusal(error.word or 0, error.reason) from None
