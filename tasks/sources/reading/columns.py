"""Tables with named columns, from files or from a data set, as a corpus."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from uedp_bench.corpus import Corpus, IntArray, Spans, dense_ids
from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.files.printable import plain
from uedp_bench.source import SourceParams
from uedp_bench.tasks.sources.reading.splits import (
    TRAIN,
    SplitParams,
    cut_missing_splits,
    split_index,
)
from uedp_bench.tasks.sources.reading.values import NOT_TEXT, texts_of
from uedp_bench.text.entities import DetectionParams, add_entities

Columns = Mapping[str, Sequence[Any]]
"""Values by column name, all columns equally long; None is a null."""


class ColumnParams(DetectionParams, SplitParams, SourceParams):
    """Which columns hold what.

    Classes (labels, values of attributes, entity types) that are not declared are the sorted set
    of the values found in all splits together.
    """

    text_column: str = Field(default="text", description="column with the text of each row")
    user_column: str | None = Field(
        default=None, description="column with the user; without it every row is a user of its own"
    )
    label_column: str | None = Field(default=None, description="column with the class of each row")
    label_names: tuple[str, ...] = Field(
        default=(), description="classes in order (default: the sorted values of label_column)"
    )
    attribute_columns: tuple[str, ...] = Field(
        default=(), description="columns with private attributes of the user"
    )
    entities_column: str | None = Field(
        default=None,
        description="column with a list of {start, end, type} a row: character offsets, end "
        "exclusive (as JSON text in csv and tsv). With a detector, entities are what it finds, and "
        "this column is only used to measure it",
    )
    split_column: str | None = Field(
        default=None, description="column that says train, valid, test or public"
    )


def corpus_of_columns(
    columns: Columns,
    params: ColumnParams,
    owner: str,
    declared: Mapping[str, tuple[str, ...]] | None = None,
) -> Corpus:
    """The corpus that a table holds.

    Args:
        columns: the table.
        params: which column holds what.
        owner: the source, for messages.
        declared: classes by column that the data set itself declares.

    Raises:
        InputError: for an empty table, a missing column (with the nearest name), nulls in the
            columns of text, user or split (how many and where), or a malformed entity.
    """
    _check_columns(columns, params, owner)
    texts = tuple(_filled(columns, params.text_column, owner))
    users, split = _users(columns, params, owner), _split(columns, params, owner)
    known = dict(declared or {})
    if params.label_column is not None and params.label_names:
        known[params.label_column] = params.label_names
    labels: IntArray | None = None
    label_names: tuple[str, ...] = ()
    if params.label_column is not None:
        labels, label_names = _classes(columns, params.label_column, known, owner)
    attributes = {name: _classes(columns, name, known, owner) for name in params.attribute_columns}
    mentions, types = _entities(columns, params, owner)
    corpus = Corpus(
        texts=texts,
        groups={"user": users},
        split=cut_missing_splits(users, split, params, owner, labels),
        entities=Spans.build(texts, mentions),
        entity_types=types,
        labels=labels,
        label_names=label_names,
        attributes={name: ids for name, (ids, _) in attributes.items()},
        attribute_names={name: names for name, (_, names) in attributes.items()},
    )
    gold = params.entities_column is not None
    return add_entities(corpus, params, gold=gold)


def _check_columns(columns: Columns, params: ColumnParams, owner: str) -> None:
    asked = {
        "text": params.text_column,
        "user": params.user_column,
        "label": params.label_column,
        "entities": params.entities_column,
        "split": params.split_column,
        **{f"attribute {name}": name for name in params.attribute_columns},
    }
    for field, name in asked.items():
        if name is not None and name not in columns:
            near = nearest(name, columns)
            there = ", ".join(columns) or "none"
            hint = f"did you mean {near!r}?" if near else f"columns: {there}"
            raise InputError(f"{owner}: no column {shown(name)} for the {field}; {hint}")
    if not len(columns[params.text_column]):
        raise InputError(f"{owner}: the corpus is empty: there is not one row")


def _filled(columns: Columns, name: str, owner: str) -> list[str]:
    """A column as strings, none of which is null or blank."""
    values = texts_of(columns[name], f"{owner}: column {shown(name)}")
    bad = [row for row, value in enumerate(values) if value is None or not value.strip()]
    if bad:
        raise InputError(
            f"{owner}: column {shown(name)} has {len(bad)} null or blank "
            f"{'value' if len(bad) == 1 else 'values'}, the first in row {bad[0] + 1} of "
            f"{len(values)} (the first row is 1)"
        )
    return [value for value in values if value is not None]


def _users(columns: Columns, params: ColumnParams, owner: str) -> IntArray:
    if params.user_column is None:
        return np.arange(len(columns[params.text_column]), dtype=np.int64)
    return dense_ids(_filled(columns, params.user_column, owner))


def _split(columns: Columns, params: ColumnParams, owner: str) -> IntArray:
    name = params.split_column
    if name is None:
        return np.full(len(columns[params.text_column]), TRAIN, dtype=np.int64)
    values = _filled(columns, name, owner)
    index = {
        value: split_index(value, f"{owner}, column {shown(name)}")
        for value in dict.fromkeys(values)
    }
    return np.array([index[value] for value in values], dtype=np.int64)


def _classes(
    columns: Columns, name: str, declared: Mapping[str, tuple[str, ...]], owner: str
) -> tuple[IntArray, tuple[str, ...]]:
    """Ids (rows,) of a column's values, -1 for null, and the names that they number."""
    values = texts_of(columns[name], f"{owner}: column {shown(name)}")
    names = declared.get(name) or tuple(sorted({value for value in values if value is not None}))
    index: dict[str | None, int] = {None: -1, **{value: at for at, value in enumerate(names)}}
    for row, value in enumerate(values):
        if value not in index:
            near = nearest(value or "", names)
            hint = f"did you mean {near!r}?" if near else f"declared: {', '.join(names)}"
            raise InputError(
                f"{owner}: column {shown(name)}, row {row + 1}: {shown(value)} is not a declared "
                f"class; {hint}"
            )
    return np.array([index[value] for value in values], dtype=np.int64), names


def _entities(
    columns: Columns, params: ColumnParams, owner: str
) -> tuple[list[tuple[int, int, int, int]], tuple[str, ...]]:
    if params.entities_column is None:
        return [], ()
    found = list(_read_entities(columns[params.entities_column], params.entities_column, owner))
    texts = columns[params.text_column]
    for row, start, end, _ in found:
        if not 0 <= start < end <= len(str(texts[row])):
            raise InputError(
                f"{owner}: column {shown(params.entities_column)}, row {row + 1}: "
                f"({shown(start)}, {shown(end)}) is "
                f"not inside the text of {len(str(texts[row]))} characters"
            )
    types = tuple(sorted({kind for *_, kind in found}))
    return [(row, start, end, types.index(kind)) for row, start, end, kind in found], types


def _read_entities(
    values: Sequence[Any], column: str, owner: str
) -> Iterator[tuple[int, int, int, str]]:
    for row, value in enumerate(values):
        try:
            items = json.loads(value) if isinstance(value, str) else value
            for item in [] if items is None else items:
                start, end, kind = item["start"], item["end"], item["type"]
                if not (type(start) is int and type(end) is int and isinstance(kind, str)):
                    raise TypeError("start and end must be whole numbers and type a string")
                if not kind or NOT_TEXT.search(kind):
                    raise ValueError(f"{shown(kind)} is no name of a type")
                yield row, start, end, kind
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{owner}: column {shown(column)}, row {row + 1} is not a list of "
                f"{{start, end, type}}: {type(error).__name__}: {plain(str(error), 200)}"
            ) from None
