"""The corpus: the one typed table that sources make and that everything else reads.

A row is the smallest independent training example; no state crosses rows. A row belongs to a user
(and to further groups), carries character spans of entities, a label, private attributes of its
author, and the split that it is in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from uedp_bench.errors import CapabilityError, InputError

if TYPE_CHECKING:
    from uedp_bench.text.entities import DetectionParams

IntArray = NDArray[np.int64]
"""Ids, counts and row numbers."""

BoolArray = NDArray[np.bool_]
"""Masks."""

FloatArray = NDArray[np.float64]
"""Scores and vectors, in double precision."""

A = TypeVar("A", bound=np.generic)

SPLITS: tuple[str, ...] = ("train", "valid", "test", "held_out", "public")
"""Names of the splits; `Corpus.split` holds indexes into this tuple."""


def normalise_surface(surface: str) -> str:
    """Case-folded surface with single spaces: with the type, the identity of an entity."""
    return " ".join(surface.split()).casefold()


@dataclass(frozen=True, eq=False)
class Spans:
    """Entity mentions as parallel arrays, ordered by row and start.

    Attributes:
        row: (mentions,) row of the corpus.
        start, end: (mentions,) character offsets into the row's text, end exclusive.
        type: (mentions,) index into `Corpus.entity_types`.
        entity: (mentions,) id of the entity, dense from 0: equal type and normalised surface.
    """

    row: IntArray
    start: IntArray
    end: IntArray
    type: IntArray
    entity: IntArray

    def __len__(self) -> int:
        return len(self.row)

    @staticmethod
    def build(texts: Sequence[str], mentions: Iterable[tuple[int, int, int, int]]) -> Spans:
        """Spans of (row, start, end, type index) mentions; entity ids follow first appearance.

        Raises:
            InputError: if a span is empty, reversed or reaches outside its text.
        """
        table = np.array(sorted(mentions), dtype=np.int64).reshape(-1, 4)
        ids: dict[tuple[int, str], int] = {}
        entity = np.empty(len(table), dtype=np.int64)
        for i, (at, first, last, kind) in enumerate(table.tolist()):
            if not 0 <= first < last <= len(texts[at]):
                raise InputError(
                    f"entity span ({first}, {last}) of row {at} is not inside its text of "
                    f"{len(texts[at])} characters"
                )
            entity[i] = ids.setdefault((kind, normalise_surface(texts[at][first:last])), len(ids))
        row, start, end, kind_of = (column.copy() for column in table.T)
        return Spans(row, start, end, kind_of, entity)

    @staticmethod
    def none() -> Spans:
        """No mentions at all."""
        return Spans(*(np.empty(0, dtype=np.int64) for _ in range(5)))

    def mentions(self) -> list[tuple[int, int, int, int]]:
        """(row, start, end, type index) of every mention, as `build` takes them."""
        table = np.stack([self.row, self.start, self.end, self.type], axis=1)
        return [(row, start, end, kind) for row, start, end, kind in table.tolist()]

    def moved(self, position: IntArray) -> Spans:
        """The mentions of the rows that are kept, in their new order; ids of entities are kept.

        Args:
            position: (rows,) new place of each row, -1 for one that is left out.
        """
        keep = np.flatnonzero(position[self.row] >= 0)
        keep = keep[np.argsort(position[self.row[keep]], kind="stable")]
        return Spans(
            position[self.row[keep]], self.start[keep], self.end[keep], self.type[keep],
            self.entity[keep],
        )  # fmt: skip


class LostSpans(Spans):
    """Stands where a publisher did not carry the mentions: whoever asks for them is refused.

    No mentions at all would be taken for text without entities.

    Args:
        publisher: name of the mechanism after which nobody knows where mentions are.
    """

    def __init__(self, publisher: str) -> None:
        object.__setattr__(self, "publisher", publisher)

    def _refuse(self) -> NoReturn:
        raise CapabilityError(
            f"entity mentions are not known after {self.publisher}, which does not carry them: "
            "leave it out, or what needs them"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name not in Spans.__dataclass_fields__:
            raise AttributeError(name)
        self._refuse()

    def __len__(self) -> int:
        self._refuse()

    def __repr__(self) -> str:
        return f"LostSpans({self.__dict__['publisher']!r})"

    def moved(self, position: IntArray) -> Spans:
        """Still lost."""
        return self


class GoldSpans(NamedTuple):
    """Mentions that people labelled, of types that `types` declares: for measuring only."""

    spans: Spans
    types: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Index:
    """Rows of each key in compressed form: key k has rows `rows[offsets[k]:offsets[k + 1]]`."""

    offsets: IntArray
    rows: IntArray

    @staticmethod
    def build(keys: IntArray, rows: IntArray, size: int) -> Index:
        """Index of (key, row) pairs; each pair is kept once, negative keys are left out."""
        pairs = np.unique(np.stack([keys, rows], axis=1)[keys >= 0], axis=0).reshape(-1, 2)
        counts = np.bincount(pairs[:, 0], minlength=size)
        return Index(np.concatenate([[0], np.cumsum(counts)]), pairs[:, 1].copy())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> IntArray:
        """(keys,) number of rows of each key."""
        return np.diff(self.offsets)

    def __getitem__(self, key: int) -> IntArray:
        return self.rows[self.offsets[key] : self.offsets[key + 1]]

    def take(self, keys: IntArray) -> tuple[IntArray, IntArray]:
        """Rows of several keys at once: (position in `keys`, row), both (pairs,)."""
        counts = self.counts[keys]
        owner = np.repeat(np.arange(len(keys)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return owner, self.rows[self.offsets[keys][owner] + within]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts with the users, entities, labels and private attributes that belong to them.

    Attributes:
        texts: (rows,) the text of each row; tokenised sources join tokens by single spaces.
        groups: ids (rows,) per kind of group, dense from 0, -1 for none; "user" is always there.
        split: (rows,) index into `SPLITS`.
        entities: mentions that count as entities; `entity_types` declares their types.
        labels: (rows,) index into `label_names`, -1 for none; or None where a source has none.
        attributes: per name (rows,) index into `attribute_names[name]`, -1 for unknown.
        origin: (rows,) row of the source's corpus that this row was made from, -1 for a row that an
            attack planted.
        targets: (rows,) reference translations, or None.
        vectors: (rows, d) what a representation mechanism published, or None.
        detector: how `entities` were found, None where they are the source's own labels.
        gold: the source's own labels beside those that a detector found, where it has any.

    Raises:
        InputError: if arrays do not have one entry a row, or "user" is missing.
    """

    texts: tuple[str, ...]
    groups: Mapping[str, IntArray]
    split: IntArray
    entities: Spans = field(default_factory=Spans.none)
    entity_types: tuple[str, ...] = ()
    labels: IntArray | None = None
    label_names: tuple[str, ...] = ()
    attributes: Mapping[str, IntArray] = field(default_factory=dict)
    attribute_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    targets: tuple[str, ...] | None = None
    vectors: FloatArray | None = None
    detector: DetectionParams | None = None
    gold: GoldSpans | None = None

    def __post_init__(self) -> None:
        rows = len(self.texts)
        if not len(self.origin):
            object.__setattr__(self, "origin", np.arange(rows, dtype=np.int64))
        if "user" not in self.groups:
            raise InputError("corpus: groups lack 'user'; every row needs a user (-1 for none)")
        columns: dict[str, Sized] = {
            **self.groups,
            **self.attributes,
            "split": self.split,
            "origin": self.origin,
        }
        optional = {"labels": self.labels, "targets": self.targets, "vectors": self.vectors}
        columns |= {name: column for name, column in optional.items() if column is not None}
        for name, column in columns.items():
            if len(column) != rows:
                raise InputError(f"corpus: {name} has {len(column)} entries for {rows} rows")

    def __len__(self) -> int:
        return len(self.texts)

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
        """(rows,) whether the row mentions an entity."""
        out = np.zeros(len(self), dtype=bool)
        out[self.entities.row] = True
        return out

    def surface(self, mention: int) -> str:
        """Text of one mention, as it stands in its row."""
        spans = self.entities
        text: str = self.texts[spans.row[mention]]
        return text[spans.start[mention] : spans.end[mention]]

    def where(self, *splits: str) -> BoolArray:
        """(rows,) whether the row is in one of the splits.

        Raises:
            InputError: for a split that does not exist.
        """
        unknown = [name for name in splits if name not in SPLITS]
        if unknown:
            raise InputError(f"split {unknown[0]!r} is not one of {', '.join(SPLITS)}")
        return np.isin(self.split, [SPLITS.index(name) for name in splits])

    def only(self, *splits: str) -> Corpus:
        """The rows of the named splits; user and entity ids are kept."""
        return self.take(np.flatnonzero(self.where(*splits)))

    def take(self, rows: IntArray) -> Corpus:
        """The given rows in the given order; user and entity ids are kept."""
        position = np.full(len(self), -1, dtype=np.int64)
        position[rows] = np.arange(len(rows))
        return replace(
            self,
            texts=tuple(self.texts[i] for i in rows.tolist()),
            groups={name: ids[rows] for name, ids in self.groups.items()},
            split=self.split[rows],
            entities=self.entities.moved(position),
            labels=None if self.labels is None else self.labels[rows],
            attributes={name: ids[rows] for name, ids in self.attributes.items()},
            origin=self.origin[rows],
            targets=None if self.targets is None else tuple(self.targets[i] for i in rows.tolist()),
            vectors=None if self.vectors is None else self.vectors[rows],
            gold=self.gold and self.gold._replace(spans=self.gold.spans.moved(position)),
        )

    def with_split(self, rows: BoolArray, split: str) -> Corpus:
        """The same corpus with the given rows moved to another split."""
        return replace(self, split=np.where(rows, SPLITS.index(split), self.split))

    def with_texts(
        self,
        texts: Sequence[str],
        mentions: Iterable[tuple[int, int, int, int]] = (),
        entity_types: tuple[str, ...] | None = None,
    ) -> Corpus:
        """The same rows with other texts and the mentions (row, start, end, type) in them.

        Mentions that are not given are gone, gold ones too; labels, targets and users stay.
        """
        return replace(
            self,
            texts=tuple(texts),
            entities=Spans.build(texts, mentions),
            entity_types=self.entity_types if entity_types is None else entity_types,
            gold=None,
        )

    def with_vectors(self, vectors: FloatArray) -> Corpus:
        """The same rows as vectors (rows, d); texts are empty, mention nothing and mean nothing."""
        return replace(self.with_texts([""] * len(self)), vectors=vectors, targets=None)

    @cached_property
    def keys(self) -> IntArray:
        """(rows,) a name for each row that no other row of the run has.

        It is the source's row, or for a row that an attack planted a negative number by its place
        in the corpus, and survives `only` and `take` for the former. What is drawn once for a row,
        such as its noise, is keyed by it.
        """
        return np.where(self.origin >= 0, self.origin, -2 - np.arange(len(self)))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything that the corpus holds, 16 hexadecimal digits."""
        digest = hashlib.sha256()
        for text in (*self.texts, *(self.targets or ())):
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        arrays = [self.split, *_columns_of(self.entities)]
        arrays += [self.groups[name] for name in sorted(self.groups)]
        arrays += [self.attributes[name] for name in sorted(self.attributes)]
        arrays += [] if self.labels is None else [self.labels]
        arrays += [] if self.gold is None else _columns_of(self.gold.spans)
        for array in arrays:
            digest.update(np.ascontiguousarray(array, dtype=np.int64).tobytes() + b"|")
        if self.vectors is not None:
            digest.update(np.ascontiguousarray(self.vectors).tobytes())
        names = [self.entity_types, self.label_names, tuple(sorted(self.groups))]
        names += [] if self.gold is None else [self.gold.types]
        digest.update(repr((names, sorted(self.attribute_names.items()))).encode())
        return digest.hexdigest()[:16]


def _columns_of(spans: Spans) -> list[IntArray]:
    """What a fingerprint looks at: ids of entities follow from it."""
    if isinstance(spans, LostSpans):
        return []
    return [spans.row, spans.start, spans.end, spans.type]


def dense_ids(names: Sequence[str]) -> IntArray:
    """Ids (rows,) of names, dense from 0 in order of first appearance."""
    ids: dict[str, int] = {}
    return np.array([ids.setdefault(name, len(ids)) for name in names], dtype=np.int64)


def or_alone(users: IntArray) -> IntArray:
    """Users of rows, for what is resampled together; one without a user (-1) is its own."""
    alone = users < 0
    return np.where(alone, users.max(initial=-1) + np.cumsum(alone), users)


def concatenate(first: Corpus, second: Corpus) -> Corpus:
    """Rows of both, in order; ids of groups are shared, ids of entities are made anew.

    Raises:
        InputError: if the two do not declare the same groups, types and classes.
    """
    declared = [
        (set(c.groups), c.entity_types, c.label_names, dict(c.attribute_names), c.labels is None)
        for c in (first, second)
    ]
    if declared[0] != declared[1]:
        raise InputError("corpora that declare different groups or classes do not concatenate")
    texts = (*first.texts, *second.texts)
    return replace(
        first,
        texts=texts,
        groups={k: np.concatenate([ids, second.groups[k]]) for k, ids in first.groups.items()},
        split=np.concatenate([first.split, second.split]),
        entities=_both(first.entities, second.entities, texts, len(first)),
        labels=_joined(first.labels, second.labels),
        attributes={
            k: np.concatenate([ids, second.attributes[k]]) for k, ids in first.attributes.items()
        },
        origin=np.concatenate([first.origin, second.origin]),
        targets=None
        if first.targets is None or second.targets is None
        else (*first.targets, *second.targets),
        vectors=_joined(first.vectors, second.vectors),
        gold=None
        if first.gold is None or second.gold is None
        else GoldSpans(
            _both(first.gold.spans, second.gold.spans, texts, len(first)), first.gold.types
        ),
    )


def _both(first: Spans, second: Spans, texts: Sequence[str], shift: int) -> Spans:
    """Mentions of the rows of two corpora, those of the second moved by so many rows."""
    for spans in (first, second):
        if isinstance(spans, LostSpans):
            return spans
    moved = [(row + shift, start, end, kind) for row, start, end, kind in second.mentions()]
    return Spans.build(texts, [*first.mentions(), *moved])


def _joined(first: NDArray[A] | None, second: NDArray[A] | None) -> NDArray[A] | None:
    return None if first is None or second is None else np.concatenate([first, second])
