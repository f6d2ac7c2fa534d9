"""Targets of a tagger: words and their labels, and the rows that an annotation covers completely.

Words come with their places, so that labels of words and spans of characters agree. Labels are
BIO2, which marks the first word of every entity with B-: label 0 is "O", outside of all entities;
type t has 1 + 2t (B-) and 2 + 2t (I-).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np

from uedp_bench.api import BoolArray, Corpus, InputError, IntArray, Mention, Spans
from uedp_bench.corpus.spans import touched_pieces
from uedp_bench.errors import nearest, shown
from uedp_bench.text.automatic_annotation import AUTOMATIC

WordRule = Literal["spaces", "signs"]
"""`spaces`: what stands between white space. `signs`: letters, digits and underscores that stand
together are a word, and so is every other sign alone ("Smith," has two)."""

_PATTERNS: dict[WordRule, re.Pattern[str]] = {
    "spaces": re.compile(r"\S+"),
    "signs": re.compile(r"\w+|[^\w\s]"),
}


def with_words(texts: Iterable[str], rule: WordRule) -> Iterator[bool]:
    """True for each text that has a word."""
    pattern = _PATTERNS[rule]
    return (pattern.search(text) is not None for text in texts)


@dataclass(frozen=True, eq=False)
class WordTable:
    """Words of many rows, one row after the other: row i has `offsets[i]` to `offsets[i + 1]`.

    Attributes:
        words: (words,) as they stand in the texts.
        start, end: (words,) their characters in the text of their row, end exclusive.
        offsets: (rows + 1,).
    """

    words: tuple[str, ...]
    start: IntArray
    end: IntArray
    offsets: IntArray

    @staticmethod
    def from_texts(texts: Sequence[str], rule: WordRule) -> WordTable:
        """The words of texts by a rule."""
        pattern = _PATTERNS[rule]
        spans = [[match.span() for match in pattern.finditer(text)] for text in texts]
        words = [text[a:b] for text, row in zip(texts, spans, strict=True) for a, b in row]
        places = np.array([place for row in spans for place in row], dtype=np.int64).reshape(-1, 2)
        counts = np.array([len(row) for row in spans], dtype=np.int64)
        return WordTable(
            tuple(words),
            places[:, 0].copy(),
            places[:, 1].copy(),
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> IntArray:
        """(rows,) words of each row."""
        return np.diff(self.offsets)

    @property
    def row(self) -> IntArray:
        """(words,) row of each word."""
        return np.repeat(np.arange(len(self)), self.counts)

    def by_row(self) -> list[tuple[str, ...]]:
        """The words of each row."""
        return [self.words[a:b] for a, b in pairwise(self.offsets.tolist())]


OUTSIDE = 0
"""The label of a word outside of all entities."""


def label_names(types: Sequence[str]) -> tuple[str, ...]:
    """Names of all labels: ("O", "B-LOC", "I-LOC", ...)."""
    return ("O", *(f"{begin}-{name}" for name in types for begin in "BI"))


def labels_of_spans(
    words: WordTable,
    spans: Spans,
    types: Sequence[str],
    *,
    where: Callable[[int], str] | None = None,
) -> IntArray:
    """(words,) labels of the words that spans mark.

    White space around a span counts for nothing. Where nobody answers for the spans (`where` is
    None: a detector found them, or a tagger), a span takes every word that it touches; of two on
    one word, the one that starts first is kept (of two that start together, the longer) and the
    other is left out.

    Args:
        words: words of the rows.
        spans: spans in their texts, with types by number in `types`.
        types: names, for messages.
        where: name of a row in messages; given for spans that must fit the words.

    Raises:
        InputError: with `where`, naming the row, for a span that cuts a word or touches none, or
            two spans on one word.
    """
    first, last = touched_pieces((words.row, words.start, words.end), spans)
    labels = np.zeros(len(words.words), dtype=np.int64)
    if where is not None:
        _check_whole(words, spans, types, (first, last), where)
    taken_by = np.full(len(words.words), -1, dtype=np.int64)
    for span in np.lexsort([-spans.end, spans.start, spans.row]).tolist():
        a, b = int(first[span]), int(last[span]) + 1
        if a >= b:
            continue
        if (before := int(taken_by[a:b].max())) >= 0:
            if where is not None and not _same(spans, before, span):
                raise InputError(
                    f"{where(int(spans.row[span]))}: {_named(spans, before, types)} and "
                    f"{_named(spans, span, types)} share a word, and a word has one label: leave "
                    "out one of the two types (task.types), or one of the spans"
                )
            continue
        taken_by[a:b] = span
        labels[a:b] = 2 + 2 * spans.type[span]
        labels[a] -= 1
    return labels


def mentions_of_labels(words: WordTable, labels: IntArray) -> list[Mention]:
    """(row, start, end, type) of the entities that labels (words,) mark, as conlleval reads them.

    An entity begins at a B-, and at an I- whose word before, in its row, is not of its type.
    """
    inside = labels > OUTSIDE
    kind = (labels - 1) // 2
    row = words.row
    goes_on = inside & (labels % 2 == 0)
    goes_on[1:] &= inside[:-1] & (kind[1:] == kind[:-1]) & (row[1:] == row[:-1])
    goes_on[:1] = False
    begins = np.flatnonzero(inside & ~goes_on)
    # An entity ends before the first word after its beginning that does not go on.
    stops = np.append(np.flatnonzero(~goes_on), len(labels))
    ends = stops[np.searchsorted(stops, begins, "right")] - 1
    table = np.stack([row[begins], words.start[begins], words.end[ends], kind[begins]], axis=1)
    return [(a, b, c, d) for a, b, c, d in table.tolist()]


def _check_whole(
    words: WordTable,
    spans: Spans,
    types: Sequence[str],
    touched: tuple[IntArray, IntArray],
    where: Callable[[int], str],
) -> None:
    first, last = touched
    none = first > last
    if none.any():
        span = int(none.argmax())
        raise InputError(f"{where(int(spans.row[span]))}: {_named(spans, span, types)} has no word")
    begins: BoolArray = spans.start > words.start[first]
    cuts = begins | (spans.end < words.end[last])
    if cuts.any():
        span = int(cuts.argmax())
        word = words.words[int(first[span] if begins[span] else last[span])]
        raise InputError(
            f"{where(int(spans.row[span]))}: {_named(spans, span, types)} cuts the word "
            f"{shown(word)}: set task.words to 'signs' where signs stand beside names without a "
            "space, or correct the span"
        )


def _named(spans: Spans, span: int, types: Sequence[str]) -> str:
    place = f"({int(spans.start[span])}, {int(spans.end[span])})"
    return f"the span {place} of type {types[int(spans.type[span])]}"


def _same(spans: Spans, one: int, other: int) -> bool:
    return all(column[one] == column[other] for column in (spans.start, spans.end, spans.type))


ENTITIES = "entities"
"""The value of the parameter `layer` that names no layer, but the entities of the corpus."""


@dataclass(frozen=True, eq=False)
class Annotation:
    """An annotation of the rows of a corpus.

    Attributes:
        spans: spans, with types by number in `types`.
        types: types of spans.
        rows: (rows,) True for rows that are completely annotated: in others a word without a span
            may be one that nobody looked at.
        detected: True if a program found the spans, and nobody promises that they fit words.
        name: name in messages.
    """

    spans: Spans
    types: tuple[str, ...]
    rows: BoolArray
    detected: bool
    name: str

    def take(self, rows: IntArray) -> Annotation:
        """The annotation of the given rows in the given order."""
        return replace(self, spans=self.spans.take(rows), rows=self.rows[rows])

    def of_types(self, types: Sequence[str]) -> Annotation:
        """Copy with spans of these types alone, numbered in the order of `types`."""
        number = {name: at for at, name in enumerate(types)}
        new = np.array([number.get(name, -1) for name in self.types], dtype=np.int64)
        kept = self.spans.chosen(np.flatnonzero(new[self.spans.type] >= 0))
        spans = replace(kept, type=new[kept.type])
        return replace(self, spans=spans, types=tuple(types))


def annotation_of(corpus: Corpus, layer: str) -> Annotation:
    """The entities of a corpus, or one of its layers.

    A layer says which rows it annotates completely. Entities are those of all rows, but for public
    ones: where no row of a public user mentions any, nobody may have looked (text from a file of
    sentences has none), so that these rows count as not annotated.

    Raises:
        CapabilityError: if there is no such layer.
    """
    if layer != ENTITIES:
        annotated = corpus.layer(layer)
        detected = layer == AUTOMATIC
        return Annotation(
            annotated.spans, annotated.types, annotated.rows, detected, f"layer {layer}"
        )
    return Annotation(
        corpus.entities,
        corpus.entity_types,
        ~corpus.where("public") | _mentioning_users(corpus),
        corpus.detector is not None,
        ENTITIES,
    )


def _mentioning_users(corpus: Corpus) -> BoolArray:
    """(rows,) True for the rows of users of whom some row in the same split mentions an entity."""
    users = corpus.users
    mentioning = np.unique(users[corpus.sensitive & corpus.where("public")])
    return np.isin(users, mentioning[mentioning >= 0]) | corpus.sensitive


def chosen_types(annotation: Annotation, types: Sequence[str] | None) -> tuple[str, ...]:
    """Types to learn: the chosen ones, or all.

    Raises:
        InputError: if there are none, or one is unknown.
    """
    declared = annotation.types
    if not declared:
        raise InputError(
            f"tagging learns types of entities, and {annotation.name} of the source declares none: "
            "name a layer (task.layer), or have the source find entities"
        )
    for name in types or ():
        if name not in declared:
            near = nearest(name, declared)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(declared)}"
            raise InputError(f"task.types: {annotation.name} has no type {name!r}; {hint}")
    return declared if types is None else tuple(dict.fromkeys(types))


def word_labels(origin: IntArray, annotation: Annotation, words: WordTable) -> IntArray:
    """(words,) BIO2 labels of all words; labels in incomplete rows mean nothing.

    Args:
        origin: (rows,) rows of the source that they were made from (`Corpus.origin`).
        annotation: annotation of these rows.
        words: words of these rows.

    Raises:
        InputError: naming the row of the source, where spans that somebody labelled do not fit the
            words of a completely annotated row.
    """
    spans = annotation.spans.outside(~annotation.rows)

    def where(row: int) -> str:
        source = int(origin[row])
        which = "a planted row" if source < 0 else f"row {source} of the source"
        return f"tagging: {annotation.name}, {which}"

    answering = None if annotation.detected else where
    return labels_of_spans(words, spans, annotation.types, where=answering)
