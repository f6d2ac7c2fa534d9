"""Mentions in one text while pieces of the text are replaced."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uedp_bench.corpus import Edit

Mention = tuple[int, int, int]
"""(start, end, type index) of a mention in one text."""

Interval = tuple[int, int]
"""(start, end) in characters, end exclusive."""

_SPACES = re.compile(r"\s+")


def replaced(
    text: str, mentions: Sequence[Mention], where: Sequence[Interval], by: str
) -> tuple[str, list[Mention]]:
    """The text with other pieces, and the mentions that no replaced piece overlaps, moved along.

    Args:
        text: is not changed.
        mentions: mentions in the text.
        where: pieces to replace, in order and without overlaps.
        by: replacement of each.
    """
    pieces, moved, at = [], [], 0
    for start, end in where:
        pieces += [text[at:start], by]
        at = end
    for first, last, kind in mentions:
        if all(last <= start or end <= first for start, end in where):
            shift = sum(len(by) - (end - start) for start, end in where if end <= first)
            moved.append((first + shift, last + shift, kind))
    return "".join([*pieces, text[at:]]), moved


def tidy(text: str, mentions: Sequence[Mention]) -> tuple[str, list[Mention]]:
    """The text with single spaces and none at its ends, and its mentions moved along."""
    moved = []
    for start, end, kind in mentions:
        before = " ".join(text[:start].split())
        first = len(before) + (1 if before and text[start - 1].isspace() else 0)
        moved.append((first, first + len(" ".join(text[start:end].split())), kind))
    return " ".join(text.split()), moved


def tidying(text: str) -> list[Edit]:
    """The edits that `tidy` makes in a text."""
    inside = (0, len(text))
    return [
        (run.start(), run.end(), 0 if run.start() in inside or run.end() in inside else 1)
        for run in _SPACES.finditer(text)
        if run[0] != " " or run.start() in inside or run.end() in inside
    ]


def composed(first: Sequence[Edit], second: Sequence[Edit]) -> list[Edit]:
    """Edits of a text that do at once what the second do to what the first make of it.

    Edits that overlap in the text between become one.

    Args:
        first: edits of the text, in order and without overlaps.
        second: edits of the text that the first ones make.
    """
    # (start, end in the text between, which of the two, characters that it adds)
    between, shift = list[tuple[int, int, int, int]](), 0
    for start, end, new in first:
        between.append((start + shift, start + shift + new, 0, new - (end - start)))
        shift += new - (end - start)
    between += [(start, end, 1, new - (end - start)) for start, end, new in second]
    groups: list[tuple[int, int, list[int]]] = []
    for start, end, which, added in sorted(between):
        if groups and start < groups[-1][1]:
            low, high, both = groups.pop()
            start, end = low, max(high, end)
        else:
            both = [0, 0]
        both[which] += added
        groups.append((start, end, both))
    out, shift = list[Edit](), 0
    for start, end, (before, after) in groups:
        old = start - shift
        out.append((old, old + (end - start) - before, end - start + after))
        shift += before
    return out
