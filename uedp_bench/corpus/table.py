"""The table itself: its columns, declared once, and values derived from them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus._columns import (
    ArrayColumn,
    ArraysColumn,
    Facts,
    Kind,
    LayersColumn,
    RowNames,
    SpansColumn,
    TextColumn,
    Texts,
    UserColumn,
    UserNames,
)
from uedp_bench.corpus.keys import BoolArray, FloatArray, Index, IntArray, Names
from uedp_bench.corpus.spans import Alignment, Layer, Mention, Spans
from uedp_bench.data.stored_rows import StoredTexts, joined_texts
from uedp_bench.errors import CapabilityError, InputError, nearest

if TYPE_CHECKING:
    from uedp_bench.corpus.entity_detection import DetectionParams

SPLITS: tuple[str, ...] = ("train", "valid", "test", "held_out", "public")
"""Names of the splits; `Corpus.split` holds indexes into this tuple."""


@dataclass(frozen=True)
class Column:
    """A column of the corpus.

    Attributes:
        name: the attribute of `Corpus` that holds it.
        kind: kind of the column, which knows the effect of operations on rows.
        content: True if it tells the content of rows. A publisher carries it, or it is gone.
    """

    name: str
    kind: Kind
    content: bool = False


COLUMNS: tuple[Column, ...] = (
    Column("texts", TextColumn()),
    Column("targets", TextColumn(), content=True),
    Column("split", ArrayColumn(0)),
    Column("entities", SpansColumn(), content=True),
    Column("groups", ArraysColumn()),
    Column("attributes", ArraysColumn()),
    Column("labels", ArrayColumn(-1)),
    Column("layers", LayersColumn(), content=True),
    Column("vectors", ArrayColumn(0.0, whole=False)),
    Column("origin", ArrayColumn(-1, seen=False)),
    Column("records", UserColumn(), content=True),
    Column("ids", TextColumn()),
    Column("row_names", RowNames()),
    Column("user_names", UserNames()),
)
"""All columns, in the order in which a fingerprint looks at them. New ones come last."""

CONTENT: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.content)
"""Columns, beside the text, that tell the content of rows."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts with the users, entities, labels and private attributes that belong to them.

    Attributes:
        texts: (rows,) the text of each row; tokenised sources join tokens by single spaces. Those
            of a large file stay in it: go over them in order, or ask `some_texts` for many at once.
        groups: ids (rows,) per kind of group, dense from 0, -1 for none; "user" is always there.
        split: (rows,) index into `SPLITS`.
        entities: mentions that count as entities; `entity_types` declares their types.
        labels: (rows,) index into `label_names`, -1 for none; or None where a source has none.
        attributes: per name (rows,) index into `attribute_names[name]`, -1 for unknown.
        origin: (rows,) row of the source's corpus that this row was made from, -1 for a row that an
            attack planted.
        targets: (rows,) target of each text, such as its translation, or None.
        vectors: (rows, d) vectors that a representation mechanism published, or None.
        detector: detection of `entities`; None where they are the source's own labels.
        layers: further annotations by name: "gold" is what people labelled.
        records: facts by user id, such as what a register knows of each person, or None. Users
            without rows, and those beyond its end, have none.
        ids: (rows,) the source's id of each row, or None: `row_ids` names every row.
        row_names: stable names of rows, by which public choices are made
            (`corpus.public_numbers`); a row that is planted or rewritten keeps its own. None until
            `Source.load` gives them.
        user_names: stable names of users, by id. None where ids are the users' names, as in
            generated text: then a user's id must depend on nobody else.
        quotas: sentences on public choices that could not be made unit by unit, each of which a
            guarantee about these rows assumes.

    Raises:
        InputError: if arrays do not have one entry a row, or "user" is missing.
    """

    texts: Sequence[str]
    groups: Mapping[str, IntArray]
    split: IntArray
    entities: Spans = field(default_factory=Spans.none)
    entity_types: tuple[str, ...] = ()
    labels: IntArray | None = None
    label_names: tuple[str, ...] = ()
    attributes: Mapping[str, IntArray] = field(default_factory=dict)
    attribute_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    targets: Sequence[str] | None = None
    vectors: FloatArray | None = None
    detector: DetectionParams | None = None
    layers: Mapping[str, Layer] = field(default_factory=dict)
    records: tuple[Facts, ...] | None = None
    ids: Sequence[str] | None = None
    row_names: Names | None = None
    user_names: Names | None = None
    quotas: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.texts)
        if not len(self.origin):
            object.__setattr__(self, "origin", np.arange(rows, dtype=np.int64))
        if "user" not in self.groups:
            raise InputError("corpus: groups lack 'user'; every row needs a user (-1 for none)")
        for column, value in self._columns():
            column.kind.check(value, column.name, rows)

    def _columns(self) -> list[tuple[Column, Any]]:
        """The columns that this corpus has, with their values."""
        columns = [(column, getattr(self, column.name)) for column in COLUMNS]
        return [(column, value) for column, value in columns if value is not None]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def stored(self) -> bool:
        """True if Arrow holds its texts: read those that are needed, and no others."""
        return isinstance(self.texts, StoredTexts)

    @property
    def users(self) -> IntArray:
        """(rows,) user of each row, -1 for none."""
        return self.groups["user"]

    @cached_property
    def user_count(self) -> int:
        """Size of the space of user ids: 1 + the largest id (users without rows included)."""
        return int(self.users.max(initial=-1)) + 1

    @cached_property
    def entity_count(self) -> int:
        """Size of the space of entity ids."""
        return int(self.entities.entity.max(initial=-1)) + 1

    @cached_property
    def rows_of_user(self) -> Index:
        """User id -> its rows."""
        return Index.build(self.users, np.arange(len(self)), self.user_count)

    @cached_property
    def rows_of_entity(self) -> Index:
        """Entity id -> the rows that mention it, each once."""
        return Index.build(self.entities.entity, self.entities.row, self.entity_count)

    @cached_property
    def entities_of_row(self) -> Index:
        """Row -> the ids of the entities that it mentions, each once."""
        return Index.build(self.entities.row, self.entities.entity, len(self))

    @cached_property
    def users_of_entity(self) -> IntArray:
        """(entities,) number of distinct users that mention each entity."""
        user = self.users[self.entities.row]
        return Index.build(self.entities.entity, user, self.entity_count).counts

    @property
    def spread(self) -> IntArray:
        """(entities,) number of *other* users whose text mentions the entity: users - 1."""
        return self.users_of_entity - 1

    @cached_property
    def sensitive(self) -> BoolArray:
        """(rows,) True where the row mentions an entity."""
        out = np.zeros(len(self), dtype=bool)
        out[self.entities.row] = True
        return out

    def surface(self, mention: int) -> str:
        """Text of one mention, as it stands in its row."""
        spans = self.entities
        text: str = self.texts[spans.row[mention]]
        return text[spans.start[mention] : spans.end[mention]]

    def where(self, *splits: str) -> BoolArray:
        """(rows,) True where the row is in one of the splits.

        Raises:
            InputError: for a split that does not exist.
        """
        unknown = [name for name in splits if name not in SPLITS]
        if unknown:
            raise InputError(f"split {unknown[0]!r} is not one of {', '.join(SPLITS)}")
        return np.isin(self.split, [SPLITS.index(name) for name in splits])

    def only(self, *splits: str) -> Corpus:
        """Take the rows of the named splits; user and entity ids are kept."""
        return self.take(np.flatnonzero(self.where(*splits)))

    def take(self, rows: IntArray) -> Corpus:
        """Take rows in an order; user and entity ids are kept.

        A row may come twice, as by a publisher that makes several rows of one.
        """
        users = self.users[rows]
        return self._with({c.name: c.kind.take(value, rows, users) for c, value in self._columns()})

    def blank(self, rows: BoolArray) -> Corpus:
        """Copy with the content of the marked rows (rows,) blanked.

        Text and every content column say nothing there, and a user who has no other row loses its
        facts. Labels, attributes, groups and split stay.
        """
        content = [(c, value) for c, value in self._columns() if c.content or c.name == "texts"]
        return self._with({c.name: c.kind.blank(v, rows, self.users) for c, v in content})

    def with_split(self, rows: BoolArray, split: str) -> Corpus:
        """Copy with the marked rows (rows,) moved to another split."""
        return replace(self, split=np.where(rows, SPLITS.index(split), self.split))

    def with_texts(
        self,
        texts: Sequence[str],
        mentions: Iterable[Mention] | None = None,
        entity_types: tuple[str, ...] | None = None,
        *,
        alignment: Alignment | None = None,
        targets: Sequence[str] | None = None,
    ) -> Corpus:
        """Copy with other texts and the mentions (row, start, end, type) in them.

        With an alignment, mentions and layers follow it, unless mentions are given. Everything else
        that told the content of rows is gone: without an alignment, old mentions
        and layers; targets unless new ones are given; records always. Labels, attributes, groups
        and splits stay.
        """
        if mentions is not None or alignment is None:
            entities = Spans.build(texts, mentions or ())
        else:
            entities, _ = alignment.spans(self.entities, texts)
        layers = {} if alignment is None else self.layers
        return replace(
            self,
            texts=texts if isinstance(texts, StoredTexts) else tuple(texts),
            entities=entities,
            entity_types=self.entity_types if entity_types is None else entity_types,
            layers={n: alignment.layer(layer, texts) for n, layer in layers.items() if alignment},
            targets=None if targets is None else tuple(targets),
            records=None,
        )

    def with_vectors(self, vectors: FloatArray) -> Corpus:
        """Copy with vectors (rows, d) in place of texts, which are empty and mention nothing."""
        return replace(self.with_texts([""] * len(self)), vectors=vectors)

    def layer(self, name: str) -> Layer:
        """Annotation of a name.

        Raises:
            CapabilityError: if the corpus has none, with those that it has.
        """
        if name not in self.layers:
            near = nearest(name, self.layers)
            names = ", ".join(sorted(self.layers)) or "none"
            hint = f"did you mean {near!r}?" if near else f"layers: {names}"
            raise CapabilityError(f"the corpus has no layer {name!r}; {hint}")
        return self.layers[name]

    def _with(self, columns: Mapping[str, Any]) -> Corpus:
        return replace(self, **columns)

    @cached_property
    def keys(self) -> IntArray:
        """(rows,) a name for each row that no other row of the run has.

        It is the source's row, or for a row that an attack planted a negative number by its place
        in the corpus, and survives `only` and `take` for the former. It keys draws that are
        made once for a row, such as its noise.
        """
        return np.where(self.origin >= 0, self.origin, -2 - np.arange(len(self)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that the corpus holds, 16 hexadecimal digits."""
        digest = hashlib.sha256()
        for column, value in self._columns():
            column.kind.digest(value, digest)
        names: list[Any] = [self.entity_types, self.label_names, tuple(sorted(self.groups))]
        # Gold labels were the first layer, and had no name.
        names += [
            layer.types if name == "gold" else (name, layer.types)
            for name, layer in sorted(self.layers.items())
            if not layer.spans.lost
        ]
        digest.update(repr((names, sorted(self.attribute_names.items()))).encode())
        return digest.hexdigest()[:16]


def dense_ids(names: Sequence[str]) -> IntArray:
    """Ids (rows,) of names, dense from 0 in order of first appearance."""
    ids: dict[str, int] = {}
    return np.array([ids.setdefault(name, len(ids)) for name in names], dtype=np.int64)


def or_alone(users: IntArray) -> IntArray:
    """Users of rows, as units of resampling; a row without a user (-1) is a unit of its own."""
    alone = users < 0
    return np.where(alone, users.max(initial=-1) + np.cumsum(alone), users)


def concatenate(first: Corpus, second: Corpus) -> Corpus:
    """Join the rows of both, in order; ids of groups are shared, ids of entities are made anew.

    Raises:
        InputError: if the two do not declare the same groups, types and classes, or know different
            facts of one user.
    """
    declared = [
        (set(c.groups), c.entity_types, c.label_names, dict(c.attribute_names), c.labels is None)
        for c in (first, second)
    ]
    if declared[0] != declared[1]:
        raise InputError("corpora that declare different groups or classes do not concatenate")
    texts = Texts(joined_texts(first.texts, second.texts), len(first))
    both: dict[str, Any] = {}
    for column in COLUMNS:
        sides = getattr(first, column.name), getattr(second, column.name)
        complete = all(side is not None for side in sides)
        both[column.name] = column.kind.join(*sides, texts) if complete else None
    both["quotas"] = tuple(dict.fromkeys((*first.quotas, *second.quotas)))
    return replace(first, **both)
