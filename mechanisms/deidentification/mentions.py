"""Mentions in one text while pieces of the text are replaced."""

from __future__ import annotations

from collections.abc import Sequence

Mention = tuple[int, int, int]
"""(start, end, type index) of a mention in one text."""

Interval = tuple[int, int]
"""(start, end) in characters, end exclusive."""


def replaced(
    text: str, mentions: Sequence[Mention], where: Sequence[Interval], by: str
) -> tuple[str, list[Mention]]:
    """The text with other pieces, and the mentions that no replaced piece overlaps, moved along.

    Args:
        text: is not changed.
        mentions: in the text.
        where: pieces to replace, in order and without overlaps.
        by: what each becomes.
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
