"""Character spans in the texts of a corpus, named annotations, and their way into new texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from uedp_bench.corpus.keys import BoolArray, IntArray, normal_surface
from uedp_bench.data.stored_rows import AT_ONCE, some_texts
from uedp_bench.errors import CapabilityError, InputError

Mention = tuple[int, int, int, int]
"""(row, start, end, type index), as `Spans.build` takes it; end exclusive."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Pieces of texts with a type each, as parallel arrays ordered by row and start.

    Attributes:
        row: (spans,) row of the corpus.
        start, end: (spans,) character offsets into the row's text, end exclusive.
        type: (spans,) index into the types that the holder of the spans declares.
        entity: (spans,) id of the entity, dense from 0: equal type and normalised surface.
    """

    row: IntArray
    start: IntArray
    end: IntArray
    type: IntArray
    entity: IntArray

    def __len__(self) -> int:
        return len(self.row)

    @staticmethod
    def build(texts: Sequence[str], mentions: Iterable[Mention] | IntArray) -> Spans:
        """Build spans of mentions (row, start, end, type); entity ids follow first appearance.

        Args:
            texts: texts of all rows.
            mentions: mentions in any order, (mentions, 4) where they are an array.

        Raises:
            InputError: if a span is empty, reversed or reaches outside its text.
        """
        table = mention_table(mentions)
        table = table[np.lexsort(table.T[::-1])]
        ids: dict[tuple[int, str], int] = {}
        entities = (ids.setdefault(name, len(ids)) for name in _names(texts, table))
        return Spans._from_table(table, np.fromiter(entities, dtype=np.int64, count=len(table)))

    def followed_by(self, texts: Sequence[str], mentions: Iterable[Mention] | IntArray) -> Spans:
        """Add mentions to these spans, as `build` makes them of all mentions together.

        One of these spans for each entity is looked up in its text, and no other.

        Args:
            texts: texts of all rows, in which these spans are as well.
            mentions: more mentions, as `build` takes them.

        Raises:
            InputError: as `build`.
        """
        more, own = mention_table(mentions), self.table()
        ids: dict[tuple[int, str], int] = {}
        entities, one = np.unique(self.entity, return_index=True)
        same = np.empty(int(entities.max(initial=-1)) + 1, dtype=np.int64)
        for entity, name in zip(entities.tolist(), _names(texts, own[one]), strict=True):
            same[entity] = ids.setdefault(name, len(ids))
        new = [ids.setdefault(name, len(ids)) for name in _names(texts, more)]
        table = np.concatenate([own, more])
        order = np.lexsort(table.T[::-1])
        every = np.concatenate([same[self.entity], np.array(new, dtype=np.int64)])[order]
        return Spans._from_table(table[order], _by_appearance(every))

    @staticmethod
    def _from_table(table: IntArray, entity: IntArray) -> Spans:
        row, start, end, kind = (column.copy() for column in table.T)
        return Spans(row, start, end, kind, entity)

    @staticmethod
    def none() -> Spans:
        """No spans at all."""
        return Spans(*(np.empty(0, dtype=np.int64) for _ in range(5)))

    @property
    def lost(self) -> bool:
        """True if a publisher did not carry the spans, so that nobody knows their places."""
        return False

    def table(self) -> IntArray:
        """(spans, 4) row, start, end and type index, as `build` takes them."""
        return np.stack([self.row, self.start, self.end, self.type], axis=1)

    def mentions(self) -> list[Mention]:
        """(row, start, end, type index) of every span, as `build` takes them."""
        return [(row, start, end, kind) for row, start, end, kind in self.table().tolist()]

    def chosen(self, which: IntArray | BoolArray) -> Spans:
        """Some of the spans, in their order; ids of entities are kept."""
        columns = (self.row, self.start, self.end, self.type, self.entity)
        return Spans(*(column[which] for column in columns))

    def renumbered(self, numbers: Sequence[int]) -> Spans:
        """Copy with `numbers[type]` in place of each type."""
        new = np.array(numbers, dtype=np.int64)
        return Spans(self.row, self.start, self.end, new[self.type], self.entity)

    def take(self, rows: IntArray) -> Spans:
        """Take the spans of some rows, in that order; a row may come twice."""
        first, last = (np.searchsorted(self.row, rows, side) for side in ("left", "right"))
        counts = last - first
        owner = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        at = first[owner] + within
        return Spans(owner, self.start[at], self.end[at], self.type[at], self.entity[at])

    def outside(self, rows: BoolArray) -> Spans:
        """Spans outside the marked rows (rows,)."""
        return self.chosen(~rows[self.row])


def mention_table(mentions: Iterable[Mention] | IntArray) -> IntArray:
    """(mentions, 4) row, start, end and type index."""
    rows = mentions if isinstance(mentions, np.ndarray) else list(mentions)
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _names(texts: Sequence[str], table: IntArray) -> Iterator[tuple[int, str]]:
    """Type and normalised surface of each mention of a table (mentions, 4).

    Raises:
        InputError: for one that is not inside its text.
    """
    for begin in range(0, len(table), AT_ONCE):
        part = table[begin : begin + AT_ONCE]
        for text, mention in zip(some_texts(texts, part[:, 0]), part.tolist(), strict=True):
            at, first, last, kind = mention
            if not 0 <= first < last <= len(text):
                raise InputError(
                    f"entity span ({first}, {last}) of row {at} is not inside its text of "
                    f"{len(text)} characters"
                )
            yield kind, normal_surface(text[first:last])


def _by_appearance(ids: IntArray) -> IntArray:
    """Renumber ids, dense from 0, in the order in which they come first."""
    _, first, which = np.unique(ids, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[which]


class LostSpans(Spans):
    """Spans that a publisher did not carry: any access to them is refused.

    No spans at all would be taken for text without entities.

    Args:
        publisher: name of the mechanism after which nobody knows the places of the spans.
        what: the spans, as the refusal calls them.
    """

    def __init__(self, publisher: str, what: str = "entity mentions") -> None:
        object.__setattr__(self, "publisher", publisher)
        object.__setattr__(self, "what", what)

    def _refuse(self) -> NoReturn:
        fields = self.__dict__
        raise CapabilityError(
            f"{fields['what']} are not known after {fields['publisher']}, which carries "
            "them for nobody, or for those alone whose `reads` name them: leave it out, or what "
            "needs them"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name not in Spans.__dataclass_fields__:
            raise AttributeError(name)
        self._refuse()

    def __len__(self) -> int:
        self._refuse()

    def __repr__(self) -> str:
        return f"LostSpans({self.__dict__['publisher']!r})"

    @property
    def lost(self) -> bool:
        """True."""
        return True

    def take(self, rows: IntArray) -> Spans:
        """Still lost."""
        return self

    def outside(self, rows: BoolArray) -> Spans:
        """Still lost."""
        return self


@dataclass(frozen=True, eq=False)
class Layer:
    """Annotation: the marks of people or of a program, and the rows that they annotated.

    One tag a word is a layer as well: its spans are the words.

    Attributes:
        spans: marked pieces.
        types: names of the types, by the numbers in `spans.type`.
        rows: (rows,) True for rows that are completely annotated. In the others a word without a
            span may still be one that nobody looked at: it must not be learnt as "outside".
    """

    spans: Spans
    types: tuple[str, ...]
    rows: BoolArray

    @staticmethod
    def build(
        texts: Sequence[str],
        mentions: Iterable[Mention] | IntArray,
        types: tuple[str, ...],
        rows: BoolArray | None = None,
    ) -> Layer:
        """Build a layer of mentions (row, start, end, type); all rows are complete by default.

        Raises:
            InputError: if a span is not inside its text.
        """
        complete = np.ones(len(texts), dtype=bool) if rows is None else rows
        return Layer(Spans.build(texts, mentions), types, complete)


COPIED, REPLACED, DROPPED = 0, 1, 2
"""Outcomes of a piece: each character stays, one whole became another, or nothing is left."""


def touched_pieces(
    pieces: tuple[IntArray, IntArray, IntArray], spans: Spans
) -> tuple[IntArray, IntArray]:
    """(spans,) first and last piece that each touches; the last is before the first for none.

    Pieces (row, start, end) and spans are compared as numbers: the row, then the character.
    """
    row, start, end = pieces
    width = 1 + max(end.max(initial=0), spans.end.max(initial=0))
    of_row, at = row * width, spans.row * width
    first = np.searchsorted(of_row + end, at + spans.start, "right")
    return first, np.searchsorted(of_row + start, at + spans.end) - 1


@dataclass(frozen=True, eq=False)
class Alignment:
    """Pieces of old texts and the pieces of new texts that they became, row by row.

    A span follows the pieces that it touches. It keeps its part of a copied piece, and covers a
    replaced piece whole: no part of a substitute is known to stand for a part of the word. It
    becomes none where it touches a dropped piece, and where it touches a part only of a replaced
    piece that another span touches as well.

    Attributes:
        changed: (rows,) True for rows with another text; spans in all others stay as they are.
        row, start, end: (pieces,) pieces of old texts, by row and place, without overlaps. What
            they leave out of a changed row is white space.
        new_start, new_end: (pieces,) their places in the new texts.
        outcome: (pieces,) `COPIED`, `REPLACED` or `DROPPED`.
    """

    changed: BoolArray
    row: IntArray
    start: IntArray
    end: IntArray
    new_start: IntArray
    new_end: IntArray
    outcome: IntArray

    def spans(self, spans: Spans, texts: Sequence[str]) -> tuple[Spans, BoolArray]:
        """Move spans of the old texts to the new ones; ids of entities are made anew.

        Args:
            spans: spans in the old texts; lost ones stay lost.
            texts: new texts.

        Returns:
            The spans, and (rows,) True for rows in which a part of a span is left whose meaning
            nobody knows.
        """
        torn = np.zeros(len(self.changed), dtype=bool)
        if spans.lost:
            return spans, torn
        stays = ~self.changed[spans.row]
        inside, moved = spans.chosen(stays), spans.chosen(~stays)
        first, last = touched_pieces((self.row, self.start, self.end), moved)
        touches = first <= last
        moved, first, last = moved.chosen(touches), first[touches], last[touches]
        start, end = self._places(moved, first, last)
        dropped = np.append(0, np.cumsum(self.outcome == DROPPED))
        gone = dropped[last + 1] - dropped[first]
        kept = (gone == 0) & ~self._shared(moved, first, last)
        torn[moved.row[~kept & (gone <= last - first)]] = True
        new = np.stack([moved.row, start, end, moved.type], axis=1)[kept]
        return Spans.build(texts, np.concatenate([inside.table(), new])), torn

    def layer(self, layer: Layer, texts: Sequence[str]) -> Layer:
        """Move an annotation of the old texts to the new ones.

        Rows in which a span was torn are no longer completely annotated.
        """
        spans, torn = self.spans(layer.spans, texts)
        return Layer(spans, layer.types, layer.rows & ~torn)

    def _places(self, spans: Spans, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """(spans,) start and end in the new texts."""
        after = np.maximum(spans.start - self.start[first], 0)
        before = np.maximum(self.end[last] - spans.end, 0)
        start = self.new_start[first] + np.where(self.outcome[first] == COPIED, after, 0)
        return start, self.new_end[last] - np.where(self.outcome[last] == COPIED, before, 0)

    def _shared(self, spans: Spans, first: IntArray, last: IntArray) -> BoolArray:
        """(spans,) True for one that cuts a replaced piece which another span touches too."""
        touching = np.zeros(len(self.row) + 1, dtype=np.int64)
        np.add.at(touching, first, 1)
        np.add.at(touching, last + 1, -1)
        others = np.cumsum(touching) > 1
        cuts_first = (self.outcome[first] != COPIED) & (spans.start > self.start[first])
        cuts_last = (self.outcome[last] != COPIED) & (spans.end < self.end[last])
        shared: BoolArray = (cuts_first & others[first]) | (cuts_last & others[last])
        return shared
