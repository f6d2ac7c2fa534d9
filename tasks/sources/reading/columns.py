"""Tables with named columns, from files or from a data set, as a corpus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from operator import ne
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from uedp_bench.components.component import equals
from uedp_bench.contracts.source import SourceParams
from uedp_bench.corpus import (
    SPLITS,
    BoolArray,
    Corpus,
    Facts,
    IntArray,
    Names,
    Spans,
    StoredTexts,
    names_of_ids,
    normal_id,
    with_documents,
    with_lone_rows,
)
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.corpus.stable_names import PLANTED
from uedp_bench.data.table_columns import (
    BLANK,
    GOOD,
    NO_TEXT,
    NULL,
    ArrowColumns,
    Coded,
    States,
    is_blank,
    refuse_no_texts,
    texts_of,
)
from uedp_bench.data.tables import PYTHON_HINT, Columns, FileColumns, is_printed_list, taken
from uedp_bench.errors import InputError, Problems, nearest, setting, shown
from uedp_bench.tasks.sources.reading.annotations import Annotation, Words, read_annotation
from uedp_bench.tasks.sources.reading.files import DOCUMENT, check_one_type, place_of
from uedp_bench.tasks.sources.reading.splits import (
    TRAIN,
    CutBy,
    SplitParams,
    cut_missing_splits,
    read_records,
    split_index,
)
from uedp_bench.text.entities import add_entities

PUBLIC = SPLITS.index("public")
AT_ONCE = 8_192
"""Values of a column in memory that are read together."""

LAYOUT = (
    "neighbours have files of one layout: the scheme of a column of tags, and what the columns of "
    "a CoNLL file hold, follow from all rows"
)
"""Assumption of guarantees about files of tags or of tokens."""

NO_TOKEN = re.compile("[\\s\0\ud800-\udfff]")
"""White space, and what no text has."""


class ColumnParams(DetectionParams, SplitParams, SourceParams):
    """Columns of the text, and of its labels, users and splits.

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
        "exclusive (as JSON text in csv and tsv); or with a list of tags, one a word. With a "
        "detector, entities are what it finds, and this column is only used to measure it",
    )
    tokens_column: str | None = Field(
        default=None,
        exclude_if=equals(None),
        description="column with the list of tokens of each row: joined by single spaces they are "
        "its text, and text_column is not read",
    )
    layer_columns: tuple[str, ...] = Field(
        default=(),
        exclude_if=equals(()),
        description="columns with annotations, each a layer of its name: spans or tags, as in "
        "entities_column. A row with null is not annotated",
    )
    target_column: str | None = Field(
        default=None,
        exclude_if=equals(None),
        description="column with the text that each row shall become, its translation say",
    )
    records: Path | None = Field(
        default=None,
        exclude_if=equals(None),
        description='jsonl file of what is known of users, {"user", "facts": {key: [texts]}} a '
        "line; needs user_column",
    )
    split_column: str | None = Field(
        default=None, description="column that says train, valid, test or public"
    )
    skip_blank: bool = Field(
        default=False,
        exclude_if=equals(False),
        description="leave out rows whose text, user or split is null, blank or holds a null "
        "character, in place of refusing them",
    )
    id_column: str | None = Field(
        default=None,
        exclude_if=equals(None),
        description="column with the id of each row, by which what another tool made of it is "
        "found; without it a row's id is its number, from 0",
    )


def undeclared_classes(params: ColumnParams) -> frozenset[str]:
    """See `Source.undeclared`: names of types and labels that nobody listed."""
    undeclared = {f"layer {name}" for name in params.layer_columns}
    undeclared |= {f"attribute {name}" for name in params.attribute_columns}
    if not params.label_names:
        undeclared.add("labels")
    if params.detector != "none":  # which knows its types; labels by people are a layer beside it
        undeclared.add("layer gold")
    elif params.entity_types is None:
        undeclared.add("entities")
    return frozenset(undeclared)


def corpus_of_columns(
    columns: Columns,
    params: ColumnParams,
    owner: str,
    declared: Mapping[str, tuple[str, ...]] | None = None,
) -> Corpus:
    """The corpus that a table holds.

    Args:
        columns: the table.
        params: choice of columns.
        owner: the source, for messages.
        declared: classes by column that the data set itself declares.

    Raises:
        InputError: for an empty table, a missing column (with the nearest name), nulls in the
            columns of text, user or split (how many and where), or a malformed entity.
    """
    _check_columns(columns, params, owner)
    kept = _kept(columns, params, owner) if params.skip_blank else None
    columns = columns if kept is None else taken(columns, kept)
    words = _words(columns, params, owner)
    texts = words.texts if isinstance(words.texts, StoredTexts) else tuple(words.texts)
    ids = _ids(columns, params, owner, kept)
    users, user_names = _users(columns, params, owner)
    split = _split(columns, params, owner)
    declared_classes = dict(declared or {})
    if params.label_column is not None and params.label_names:
        declared_classes[params.label_column] = params.label_names
    labels: IntArray | None = None
    label_names: tuple[str, ...] = ()
    if params.label_column is not None:
        labels, label_names = _classes(columns, params.label_column, declared_classes, owner)
    attributes = {
        name: _classes(columns, name, declared_classes, owner) for name in params.attribute_columns
    }
    annotated = {
        name: read_annotation(
            partial(_in_parts, columns, name), name, words, entities=name == params.entities_column
        )
        for name in (*params.layer_columns, params.entities_column)
        if name is not None
    }
    none = Annotation(np.empty((0, 4), dtype=np.int64), (), np.empty(0, dtype=bool))
    entities = annotated.get(params.entities_column or "", none)
    corpus = Corpus(
        texts=texts,
        groups={"user": users},
        split=split,
        entities=Spans.build(texts, entities.mentions),
        entity_types=entities.types,
        labels=labels,
        label_names=label_names,
        attributes={name: ids for name, (ids, _) in attributes.items()},
        attribute_names={name: names for name, (_, names) in attributes.items()},
        targets=_targets(columns, params, split, owner),
        layers={name: annotated[name].layer(texts) for name in params.layer_columns},
        records=_records(columns, params, owner),
        ids=None if params.id_column is None else ids,
        user_names=user_names,
        quotas=(LAYOUT,) if any(each.by_tags for each in annotated.values()) else (),
    )
    if params.user_column is None:
        corpus = with_lone_rows(corpus)
    elif isinstance(columns, FileColumns) and columns.by_word and params.user_column == DOCUMENT:
        corpus = with_documents(corpus)
    by: CutBy = "row" if params.label_column == params.user_column is not None else "user"
    # Numbers of rows are ids for other tools, and no names: they count the rows before.
    corpus = replace(cut_missing_splits(corpus, params, owner, by=by), ids=ids)
    return add_entities(corpus, params, gold=params.entities_column is not None)


def named_columns(params: ColumnParams) -> dict[str, str]:
    """Columns that the parameters name, by what they hold."""
    written = params.tokens_column or params.text_column
    columns = {
        "text" if params.tokens_column is None else "tokens": written,
        "user": params.user_column,
        "label": params.label_column,
        "entities": params.entities_column,
        "split": params.split_column,
        "target": params.target_column,
        "id": params.id_column,
        **{f"attribute {name}": name for name in params.attribute_columns},
        **{f"layer {name}": name for name in params.layer_columns},
    }
    return {field: name for field, name in columns.items() if name is not None}


def _check_columns(columns: Columns, params: ColumnParams, owner: str) -> None:
    problems = Problems()
    for field, name in named_columns(params).items():
        if name not in columns:
            near = nearest(name, columns)
            present = ", ".join(columns) or "none"
            hint = f"did you mean {near!r}?" if near else f"columns: {present}"
            message = f"{owner}: no column {shown(name)} for the {field}; {hint}"
            mends = (setting(f"source.{field}_column", near),) if near and " " not in field else ()
            with problems.collect():
                raise InputError(message, mends=mends)
    problems.check()
    if not _rows(columns, params):
        raise InputError(f"{owner}: the corpus is empty: there is not one row")
    if params.records is not None and params.user_column is None:
        raise InputError(f"{owner}: records tells facts of users: give user_column as well")
    beside = params.detector != "none" and params.entities_column not in (None, "gold")
    if beside and "gold" in params.layer_columns:
        raise InputError(
            f"{owner}: with a detector the column {shown(params.entities_column)} becomes the "
            "layer gold, and layer_columns names another column of this name"
        )


def _kept(columns: Columns, params: ColumnParams, owner: str) -> Sequence[int]:
    """Numbers of the rows whose text, user and split are there."""
    named = (params.tokens_column or params.text_column, params.user_column, params.split_column)
    required = [name for name in named if name is not None]
    if isinstance(columns, ArrowColumns) and params.tokens_column is None:
        is_filled = np.ones(columns.rows, dtype=bool)
        for name in required:
            is_filled &= ~_blanks(columns, name, owner)
        kept: Sequence[int] = np.flatnonzero(is_filled).tolist()
    else:
        values = zip(*(columns[name] for name in required), strict=True)
        kept = [row for row, cells in enumerate(values) if not any(map(is_blank, cells))]
    if not kept:
        raise InputError(f"{owner}: the corpus is empty: every row is blank")
    return kept


def _blanks(columns: ArrowColumns, name: str, owner: str) -> BoolArray:
    """(rows,) True where a column has nothing, or what no text has."""
    if (checked := columns.texts(name)) is not None:
        return np.asarray(checked[1] != GOOD)
    coded = columns.coded(name, f"{owner}: column {shown(name)}")
    bad = [at for at, value in enumerate(coded.values) if is_blank(value)]
    return coded.where(bad, null=True)


def _words(columns: Columns, params: ColumnParams, owner: str) -> Words:
    """Texts, and how messages call their rows."""

    def where(row: int, word: int = 0) -> str:
        return place_of(columns, row, owner, word)

    name = params.tokens_column
    if name is None:
        return Words(_filled(columns, params.text_column, owner), where)
    texts: list[str] = []
    for row, value in enumerate(chain.from_iterable(map(_listed, _in_parts(columns, name)))):
        tokens = value
        with suppress(ValueError, RecursionError):
            tokens = json.loads(value) if isinstance(value, str) else value
        tokens = list(tokens) if isinstance(tokens, list | tuple) else []
        good = (isinstance(t, str) and t and not NO_TOKEN.search(t) for t in tokens)
        if not tokens or not all(good):
            hint = PYTHON_HINT if is_printed_list(value) else ": texts without white space"
            raise InputError(
                f"{where(row)}, column {shown(name)}: {shown(value)} is not a list of tokens{hint}"
            )
        texts.append(" ".join(tokens))  # no token has white space: its words are the tokens
    return Words(texts, where)


def _in_parts(columns: Columns, name: str) -> Iterable[Any]:
    """The values of some rows of a column after the other: lists, or Arrow arrays."""
    if isinstance(columns, ArrowColumns):
        return columns.arrays(name)
    values = columns[name]
    return (list(values[at : at + AT_ONCE]) for at in range(0, len(values), AT_ONCE))


def _listed(part: Any) -> list[Any]:
    return part if isinstance(part, list) else part.to_pylist()


def _targets(
    columns: Columns, params: ColumnParams, split: IntArray, owner: str
) -> Sequence[str] | None:
    """Target texts; public rows may do without one."""
    name = params.target_column
    if name is None:
        return None
    values, states = _checked_texts(columns, name, f"{owner}: column {shown(name)}")
    bad = np.flatnonzero(np.isin(states, (NULL, BLANK)) & (split != PUBLIC))
    if len(bad):
        raise InputError(
            f"{place_of(columns, int(bad[0]), owner)}, column {shown(name)}: the target is null or "
            f"blank ({len(bad)} such of {len(values)} rows); only public rows may have none"
        )
    return values


def _records(columns: Columns, params: ColumnParams, owner: str) -> tuple[Facts, ...] | None:
    if params.records is None or params.user_column is None:
        return None
    names = _coded(columns, params.user_column, owner).values  # in the order of their ids
    return read_records(params.records, names, owner)


def _rows(columns: Columns, params: ColumnParams) -> int:
    if isinstance(columns, ArrowColumns):
        return columns.rows
    return len(columns[params.tokens_column or params.text_column])


def _checked_texts(columns: Columns, name: str, where: str) -> tuple[Sequence[str], States]:
    """A column as strings, nulls empty, and what each is; those of a large file stay in it.

    Raises:
        InputError: for a value that no text can be made of.
    """
    column = columns.texts(name) if isinstance(columns, ArrowColumns) else None
    if column is None:
        values = texts_of(columns[name], where)
        kinds = (NULL if v is None else GOOD if v.strip() else BLANK for v in values)
        return tuple(v or "" for v in values), np.fromiter(kinds, np.int8, len(values))
    texts, states = column
    bad = np.flatnonzero(states == NO_TEXT)
    if len(bad):
        first = int(bad[0])
        refuse_no_texts(texts[first], len(bad), first, len(texts), where)
    return column


def _filled(columns: Columns, name: str, owner: str) -> Sequence[str]:
    """A column as strings, none of which is null or blank."""
    texts, states = _checked_texts(columns, name, f"{owner}: column {shown(name)}")
    _refuse_blank(states != GOOD, name, owner)
    return texts


def _refuse_blank(blank: BoolArray, name: str, owner: str) -> None:
    bad = np.flatnonzero(blank)
    if len(bad):
        raise InputError(
            f"{owner}: column {shown(name)} has {len(bad)} null or blank "
            f"{'value' if len(bad) == 1 else 'values'}, the first in row {bad[0] + 1} of "
            f"{len(blank)} (the first row is 1); source.skip_blank=true leaves such rows out"
        )


def _coded(columns: Columns, name: str, owner: str, *, filled: bool = True) -> Coded:
    """A column as numbers of its ids (`normal_id`); if it is to be `filled`, none is blank."""
    where = f"{owner}: column {shown(name)}"
    if isinstance(columns, ArrowColumns):
        coded = columns.coded(name, where)
    else:
        check_one_type(columns, name, owner)
        coded = Coded.from_values(texts_of(columns[name], where))
    coded = coded.renamed([*map(normal_id, coded.values)])
    if filled:
        blank = [at for at, value in enumerate(coded.values) if not value.strip()]
        _refuse_blank(coded.where(blank, null=True), name, owner)
    return coded


def _users(columns: Columns, params: ColumnParams, owner: str) -> tuple[IntArray, Names | None]:
    """Users of rows and their names; every row is one of its own where no column says it."""
    if params.user_column is None:
        return np.arange(_rows(columns, params), dtype=np.int64), None
    coded = _coded(columns, params.user_column, owner)
    return coded.codes, names_of_ids("user", coded.values)


def _ids(
    columns: Columns, params: ColumnParams, owner: str, kept: Sequence[int] | None
) -> Sequence[str] | None:
    """Ids of rows, no two of them equal, and none of them as planted rows are called.

    Rows without ids that were left after others were taken out are known by their numbers before.
    """
    if params.id_column is None:
        return None if kept is None else tuple(map(str, kept))
    written = _filled(columns, params.id_column, owner)
    if not isinstance(columns, ArrowColumns):
        check_one_type(columns, params.id_column, owner)
    ids = tuple(map(normal_id, written))
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        before = first.setdefault(name, row)
        if before != row or name.startswith(PLANTED):
            twice = f"is that of row {before + 1} too" if before != row else "is a planted row's"
            if written[before] != written[row]:
                twice += f", written {shown(written[before])} there, {shown(written[row])} here"
            raise InputError(
                f"{place_of(columns, row, owner)}, column {shown(params.id_column)}: the id "
                f"{shown(name)} {twice}; every row needs an id of its own"
            )
    return ids if any(map(ne, ids, written)) else written  # those of a large file stay in it


def _split(columns: Columns, params: ColumnParams, owner: str) -> IntArray:
    name = params.split_column
    if name is None:
        return np.full(_rows(columns, params), TRAIN, dtype=np.int64)
    coded = _coded(columns, name, owner)
    where = f"{owner}, column {shown(name)}"
    return np.array([split_index(value, where) for value in coded.values])[coded.codes]


def _classes(
    columns: Columns, name: str, declared: Mapping[str, tuple[str, ...]], owner: str
) -> tuple[IntArray, tuple[str, ...]]:
    """Ids (rows,) of a column's values, -1 for null, and the names that they number."""
    coded = _coded(columns, name, owner, filled=False)
    names = declared.get(name) or tuple(sorted(coded.values))
    index = {normal_id(value): at for at, value in enumerate(names)}
    unknown = [at for at, value in enumerate(coded.values) if value not in index]
    if unknown:
        row = int(coded.where(unknown).argmax())
        value = coded.values[coded.codes[row]]
        near = nearest(value, names)
        hint = f"did you mean {near!r}?" if near else f"declared: {', '.join(names)}"
        raise InputError(
            f"{owner}: column {shown(name)}, row {row + 1}: {shown(value)} is not a declared "
            f"class; {hint}"
        )
    return np.array([*(index[value] for value in coded.values), -1])[coded.codes], names
