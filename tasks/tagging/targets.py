"""What a tagger learns: an annotation of a corpus, and the rows of which it says everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, IntArray, Spans
from uedp_bench.errors import InputError, nearest
from uedp_bench.tasks.tagging.labels import labels_of_spans
from uedp_bench.tasks.tagging.words import WordTable
from uedp_bench.text.annotation.automatic import AUTOMATIC

ENTITIES = "entities"
"""The value of the parameter `layer` that names no layer, but the entities of the corpus."""


@dataclass(frozen=True, eq=False)
class Annotation:
    """An annotation of the rows of a corpus.

    Attributes:
        spans: with numbers of `types`.
        types: of spans.
        rows: (rows,) True for rows that are completely annotated: in others a word without a span
            may be one that nobody looked at.
        found: a program found the spans, and nobody promises that they fit words.
        name: how messages call it.
    """

    spans: Spans
    types: tuple[str, ...]
    rows: BoolArray
    found: bool
    name: str

    def take(self, rows: IntArray) -> Annotation:
        """The annotation of the given rows in the given order."""
        return replace(self, spans=self.spans.take(rows), rows=self.rows[rows])

    def of_types(self, types: Sequence[str]) -> Annotation:
        """The same with spans of these types alone, numbered as they are listed here."""
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
        found = corpus.layer(layer)
        by_program = layer == AUTOMATIC
        return Annotation(found.spans, found.types, found.rows, by_program, f"layer {layer}")
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
    there = np.unique(users[corpus.sensitive & corpus.where("public")])
    return np.isin(users, there[there >= 0]) | corpus.sensitive


def chosen_types(annotation: Annotation, types: Sequence[str] | None) -> tuple[str, ...]:
    """The types that are learnt: those asked for, or all.

    Raises:
        InputError: if there are none, or one is unknown.
    """
    known = annotation.types
    if not known:
        raise InputError(
            f"tagging learns types of entities, and {annotation.name} of the source declares none: "
            "name a layer (task.layer), or have the source find entities"
        )
    for name in types or ():
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
            raise InputError(f"task.types: {annotation.name} has no type {name!r}; {hint}")
    return known if types is None else tuple(dict.fromkeys(types))


def word_labels(origin: IntArray, annotation: Annotation, words: WordTable) -> IntArray:
    """(words,) BIO2 labels of all words; those of incomplete rows mean nothing.

    Args:
        origin: (rows,) rows of the source that they were made from (`Corpus.origin`).
        annotation: of these rows.
        words: of these rows.

    Raises:
        InputError: naming the row of the source, where spans that somebody labelled do not fit the
            words of a completely annotated row.
    """
    spans = annotation.spans.outside(~annotation.rows)

    def where(row: int) -> str:
        source = int(origin[row])
        which = "a planted row" if source < 0 else f"row {source} of the source"
        return f"tagging: {annotation.name}, {which}"

    answering = None if annotation.found else where
    return labels_of_spans(words, spans, annotation.types, where=answering)
