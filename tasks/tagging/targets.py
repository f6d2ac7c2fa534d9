"""Targets of a tagger: an annotation of a corpus, and the rows that it annotates completely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.corpus import BoolArray, Corpus, IntArray, Spans
from uedp_bench.errors import nearest
from uedp_bench.tasks.tagging.labels import labels_of_spans
from uedp_bench.tasks.tagging.words import WordTable
from uedp_bench.text.automatic_annotation import AUTOMATIC

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
