"""What became of the words of a text, as far as the two versions of it show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import Layer

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus, IntArray, Mention, Spans
    from uedp_bench.text.changed_pieces import Compared

CHANGED = "changed"
"""Type of a piece whose place no placeholder with a name has taken."""

MOST_TYPES = 100
"""Names of placeholders that are told apart; with more of them, every piece is `CHANGED`."""

_PLACEHOLDER = re.compile(r"[<\[{(*_#]+\s*([A-Za-z][A-Za-z _-]*?)[\s_-]*\d*\s*[>\]})*_#]+")


def compare_all(old: Sequence[str], new: Sequence[str | None]) -> dict[int, Compared]:
    """What changed in each row of which there is a new text."""
    from uedp_bench.text.changed_pieces import compare

    pairs = enumerate(zip(old, new, strict=True))
    return {row: compare(text, to) for row, (text, to) in pairs if to is not None}


def changed_layer(
    old: Sequence[str], new: Sequence[str | None], found: Mapping[int, Compared]
) -> Layer:
    """Pieces that are not there any more, by the name of the placeholder in their place."""
    named: list[tuple[int, int, int, str]] = []
    for row, each in found.items():
        text, shift = new[row] or "", 0
        for change in each.changes:
            begin = change.start + shift
            shift += change.length - (change.end - change.start)
            if change.hides:
                match = _PLACEHOLDER.fullmatch(text[begin : begin + change.length].strip())
                kind = CHANGED if match is None else match[1].upper()
                named.append((row, change.start, change.end, kind))
    types = {kind for *_, kind in named}
    few = sorted(types - {CHANGED}) if len(types) <= MOST_TYPES else []
    number = {kind: at for at, kind in enumerate([*few, CHANGED])}
    mentions = [(row, start, end, number.get(kind, len(few))) for row, start, end, kind in named]
    return Layer.build(old, mentions, tuple(number))


def without_unsure(corpus: Corpus, found: Mapping[int, Compared]) -> Corpus:
    """The corpus without the mentions that cannot be told to have gone to one piece of a text.

    A longer piece that says something else may or may not name them still.
    """
    pieces: list[Mention] = [
        (row, change.start, change.end, 0)
        for row, each in found.items()
        for change in each.changes
        if change.hides and change.length
    ]
    table = np.array(pieces, dtype=np.int64).reshape(-1, 4)

    def sure(spans: Spans) -> BoolArray:
        """(spans,) False where a changed piece touches one and reaches beyond it."""
        width = 1 + max(table[:, 2].max(initial=0), spans.end.max(initial=0))
        starts, ends = table[:, 0] * width + table[:, 1], table[:, 0] * width + table[:, 2]
        low, high = spans.row * width + spans.start, spans.row * width + spans.end
        first = np.searchsorted(ends, low, "right")
        last = np.searchsorted(starts, high) - 1
        inside: BoolArray = (first > last) | (
            (_at(starts, first) >= low) & (_at(ends, last) <= high)
        )
        return inside

    entities, layers = corpus.entities, dict(corpus.layers)
    if not entities.lost:
        entities = entities.chosen(sure(entities))
    for name, layer in corpus.layers.items():
        if not layer.spans.lost:
            good, rows = sure(layer.spans), layer.rows.copy()
            rows[layer.spans.row[~good]] = False
            layers[name] = Layer(layer.spans.chosen(good), layer.types, rows)
    return replace(corpus, entities=entities, layers=layers)


def _at(values: IntArray, places: IntArray) -> IntArray:
    """Values at places, some of which are past the end: what stands there is not looked at."""
    padded: IntArray = np.append(values, 0)
    return padded[np.minimum(places, len(values))]
