"""Changing the texts of a corpus row by row while its annotations follow."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from uedp_bench.corpus.spans import COPIED, DROPPED, REPLACED, Alignment, Mention
from uedp_bench.corpus.table import Corpus
from uedp_bench.data.stored_rows import replaced_texts
from uedp_bench.errors import InputError

Piece = tuple[int, int, str | None]
"""(start, end, new text) in characters of the old text; None where it is dropped."""

Edit = tuple[int, int, int]
"""(start, end, length of the new text) in characters of the old text."""


class Rewriting:
    """New texts for some rows of a corpus; entity mentions and layers move along.

    A publisher whose rows change one by one, and that carries "entities" and "layers", makes its
    corpus with it. `Alignment` documents the outcome for a span.

    Args:
        corpus: the old corpus, which stays as it is. A publisher that makes several rows of one,
            or leaves some out, starts from `corpus.take(rows)`: `origin` keeps the row that each
            came from.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._old = corpus
        self._texts: dict[int, str] = {}
        self._changed = np.zeros(len(corpus), dtype=bool)
        self._annotated = np.zeros(len(corpus), dtype=bool)
        for spans in (corpus.entities, *(layer.spans for layer in corpus.layers.values())):
            if not spans.lost:
                self._annotated[spans.row] = True
        self._pieces = tuple(array("q") for _ in range(6))

    def words(self, row: int, words: Sequence[Piece]) -> None:
        """Replace a row by substitutes, joined by single spaces.

        Args:
            row: row of the corpus; each once.
            words: pieces of its text in order, without overlaps. Text between them is dropped.

        Raises:
            InputError: if they are not in order, overlap, or reach outside the text.
        """
        _check_order(row, self._old.texts[row], [(start, end) for start, end, _ in words])
        self._set(row, " ".join(new for *_, new in words if new))
        if self._annotated[row]:
            at = 0
            for start, end, new in self._with_gaps(row, words):
                length = len(new or "")
                self._add(row, (start, end), (at, at + length), REPLACED if new else DROPPED)
                at += length + 1 if new else 0

    def pieces(self, row: int, pieces: Sequence[Piece]) -> None:
        """Replace or drop some pieces of a row; all text between them stays.

        Args:
            row: row of the corpus; each once.
            pieces: pieces of its text in order, without overlaps.

        Raises:
            InputError: if they are not in order, overlap, or reach outside the text.
        """
        old = self._old.texts[row]
        _check_order(row, old, [(start, end) for start, end, _ in pieces])
        out, at = list[str](), 0
        for start, end, new in pieces:
            out += [old[at:start], new or ""]
            at = end
        text = "".join([*out, old[at:]])
        self.edited(row, text, [(start, end, len(new or "")) for start, end, new in pieces])

    def edited(self, row: int, text: str, edits: Sequence[Edit]) -> None:
        """Give a row a text that differs from its own in some places only.

        Args:
            row: row of the corpus; each once.
            text: new text.
            edits: replaced places, in order and without overlaps; all else is the same.

        Raises:
            InputError: if the old text with the edits is not as long as the new one, or they are
                not in order, overlap, or reach outside the text.
        """
        old = self._old.texts[row]
        _check_order(row, old, [(start, end) for start, end, _ in edits])
        if len(old) + sum(new - (end - start) for start, end, new in edits) != len(text):
            raise InputError(f"the edits of row {row} do not make its new text")
        self._set(row, text)
        if self._annotated[row]:
            self._add_edits(row, edits)

    def corpus(self, mentions: Iterable[Mention] | None = None) -> Corpus:
        """Make the corpus with the new texts; targets and records are gone.

        Args:
            mentions: mentions of entities in the new texts, if the publisher knows better.
        """
        columns = [np.frombuffer(column, dtype=np.int64) for column in self._pieces]
        order = np.argsort(columns[0], kind="stable")  # rows may come in any order
        alignment = Alignment(self._changed, *(column[order] for column in columns))
        rows, new = np.array([*self._texts], dtype=np.int64), [*self._texts.values()]
        texts = replaced_texts(self._old.texts, rows, new)
        return self._old.with_texts(texts, mentions, alignment=alignment)

    def _set(self, row: int, text: str) -> None:
        if self._changed[row]:
            raise InputError(f"row {row} is rewritten twice")
        self._texts[row], self._changed[row] = text, True

    def _add(self, row: int, old: tuple[int, int], new: tuple[int, int], outcome: int) -> None:
        for column, value in zip(self._pieces, (row, *old, *new, outcome), strict=True):
            column.append(value)

    def _add_edits(self, row: int, edits: Sequence[Edit]) -> None:
        before, after = self._old.texts[row], self._texts[row]
        at = new_at = 0
        for start, end, length in (*edits, (len(before), len(before), 0)):
            if start > at:
                gap = start - at
                self._add(row, (at, start), (new_at, new_at + gap), COPIED)
                new_at += gap
            if end > start:
                left = not after[new_at : new_at + length].strip()
                outcome = DROPPED if left and before[start:end].strip() else REPLACED
                self._add(row, (start, end), (new_at, new_at + length), outcome)
            new_at, at = new_at + length, end

    def _with_gaps(self, row: int, words: Sequence[Piece]) -> Iterator[Piece]:
        """Words, with text other than white space between them as dropped pieces."""
        text = self._old.texts[row]
        for (_, before, _), word in pairwise([(0, 0, None), *words, (len(text), len(text), None)]):
            if text[before : word[0]].strip():
                yield before, word[0], None
            if word[1] > word[0]:
                yield word


def _check_order(row: int, text: str, pieces: Sequence[tuple[int, int]]) -> None:
    before = 0
    for start, end in pieces:
        if not before <= start <= end <= len(text):
            raise InputError(
                f"piece ({start}, {end}) of row {row} does not lie between {before} and the end "
                f"of its text, {len(text)}"
            )
        before = end
