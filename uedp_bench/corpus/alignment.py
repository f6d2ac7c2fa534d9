"""Alignment of old and new texts of a publisher, by which annotations follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uedp_bench.corpus.row_index import BoolArray, IntArray
from uedp_bench.corpus.spans import Layer, Spans

COPIED, REPLACED, DROPPED = 0, 1, 2
"""Outcomes of a piece: each character stays, one whole became another, or nothing is left."""


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
        first, last = self._touched(moved)
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

    def _touched(self, spans: Spans) -> tuple[IntArray, IntArray]:
        """(spans,) first and last piece that each touches; the last is before the first for none.

        Pieces and spans are compared as numbers: the row, then the character.
        """
        width = 1 + max(self.end.max(initial=0), spans.end.max(initial=0))
        pieces, at = self.row * width, spans.row * width
        first = np.searchsorted(pieces + self.end, at + spans.start, "right")
        last = np.searchsorted(pieces + self.start, at + spans.end) - 1
        return first, last

    def _places(self, spans: Spans, first: IntArray, last: IntArray) -> tuple[IntArray, IntArray]:
        """(spans,) start and end in the new texts."""
        after = np.maximum(spans.start - self.start[first], 0)
        before = np.maximum(self.end[last] - spans.end, 0)
        start = self.new_start[first] + np.where(self.outcome[first] == COPIED, after, 0)
        end = self.new_end[last] - np.where(self.outcome[last] == COPIED, before, 0)
        return start, end

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
