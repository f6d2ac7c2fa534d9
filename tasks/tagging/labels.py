"""Labels of words: BIO2, which marks the first word of every entity with B-.

Label 0 is "O", outside of all entities; type t has 1 + 2t (B-) and 2 + 2t (I-).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.corpus import BoolArray, IntArray, Mention, Spans
from uedp_bench.errors import shown
from uedp_bench.tasks.tagging.words import WordTable

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
    first, last = _touched(words, spans)
    labels = np.zeros(len(words.words), dtype=np.int64)
    if where is not None:
        _check_whole(words, spans, types, (first, last), where)
    taken_by = np.full(len(words.words), -1, dtype=np.int64)
    order = np.lexsort([-spans.end, spans.start, spans.row])
    for span in order.tolist():
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


def _touched(words: WordTable, spans: Spans) -> tuple[IntArray, IntArray]:
    """(spans,) first and last word of each; the last is before the first for none."""
    width = 1 + int(max(words.end.max(initial=0), spans.end.max(initial=0)))
    row, at = words.row * width, spans.row * width
    first = np.searchsorted(row + words.end, at + spans.start, "right")
    last = np.searchsorted(row + words.start, at + spans.end) - 1
    return first, last


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
