"""Putting words among those of rows, at word boundaries and outside of annotated spans."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import Rewriting

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus, IntArray, Piece

_WORD = re.compile(r"\S+")


def inserted(
    corpus: Corpus, pieces: list[tuple[str, IntArray]], rng: np.random.Generator
) -> Corpus:
    """The corpus with texts inserted into rows, each at a word boundary that is drawn uniformly.

    No boundary within an entity or another annotated span is drawn. Spans move with their words.

    Args:
        corpus: is not changed.
        pieces: what is inserted, and the rows (rows,) into which it is, once each.
        rng: random generator for the boundaries.
    """
    new: defaultdict[int, list[str]] = defaultdict(list)
    for text, rows in pieces:
        for row in rows.tolist():
            new[row].append(text)
    changed = np.zeros(len(corpus), dtype=bool)
    changed[list(new)] = True
    inside = _inside_of_spans(corpus, changed)
    rewriting = Rewriting(corpus)
    for row in sorted(new):
        rewriting.pieces(row, list(_at_boundaries(corpus.texts[row], inside[row], new[row], rng)))
    return replace(
        rewriting.corpus(),
        origin=np.where(changed, -1, corpus.origin),
        targets=corpus.targets,
        records=corpus.records,
    )


def _inside_of_spans(corpus: Corpus, rows: BoolArray) -> defaultdict[int, set[int]]:
    """Places of these rows that lie strictly within a mention or another annotated span."""
    out: defaultdict[int, set[int]] = defaultdict(set)
    for spans in (corpus.entities, *(layer.spans for layer in corpus.layers.values())):
        if spans.lost:
            continue
        selected = np.flatnonzero(rows[spans.row])
        columns = (column[selected].tolist() for column in (spans.row, spans.start, spans.end))
        for row, start, end in zip(*columns, strict=True):
            out[row].update(range(start + 1, end))
    return out


def _at_boundaries(
    text: str, inside: set[int], new: list[str], rng: np.random.Generator
) -> Iterator[Piece]:
    """Insertions with their places, in order; texts at one boundary follow each other."""
    words = [match.span() for match in _WORD.finditer(text)]
    places = [start for start, _ in words if start not in inside]
    end = words[-1][1] if words else 0
    drawn = np.sort(rng.integers(len(places) + 1, size=len(new)))
    for number in np.unique(drawn).tolist():
        joined = " ".join(new[i] for i in np.flatnonzero(drawn == number).tolist())
        if number < len(places):
            yield places[number], places[number], f"{joined} "
        else:
            yield end, end, f" {joined}" if words else joined
