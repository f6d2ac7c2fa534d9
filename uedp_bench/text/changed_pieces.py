"""Which pieces of a text are another in a second version of it, by the words that both share.

Nobody says how the second version was made, so this is a guess: the longest common subsequence of
words (Hirschberg 1975, as rapidfuzz computes it), whatever their case. A word that stands in both
by accident counts as the same, and where a text was written anew, so much of it is one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

WORD = re.compile(r"\w+|[^\w\s]")
"""A run of letters, digits and underscores, or any other character that is not white space."""


MOST_PAIRS = 2_500_000_000
"""Words of one text times words of the other, past which all between their common beginning and end
counts as changed: to compare more takes gigabytes."""


class Change(NamedTuple):
    """A piece of the old text and what stands in its place.

    Attributes:
        start, end: of the piece, in characters of the old text, end exclusive; equal where
            something was added.
        length: characters of what stands in its place; 0 where nothing does.
        hides: a word of the old text is not there any more. Else spaces are others, or the case of
            a word is, or something was added.
    """

    start: int
    end: int
    length: int
    hides: bool


class Compared(NamedTuple):
    """Two versions of a text.

    Attributes:
        changes: in order, without overlaps; all else is the same, character by character or but
            for the case of letters.
        words: of the old text.
        kept: words of the old text that stand in the new one, in the same order.
    """

    changes: tuple[Change, ...]
    words: int
    kept: int


def compare(old: str, new: str) -> Compared:
    """What was changed in a text, as far as the words that are left show it.

    A change begins and ends with a word: white space at its sides that did not change is not in it.
    """
    before, after = _places(old), _places(new)
    pairs = list(_pairs(_folded(old, before), _folded(new, after)))
    edges = [(before[a], after[b]) for a, b in pairs]
    changes: list[Change] = []
    at = new_at = 0
    for (start, end), (new_start, new_end) in [*edges, ((len(old),) * 2, (len(new),) * 2)]:
        changes += _between((old[at:start], new[new_at:new_start]), at)
        if end - start != new_end - new_start:  # letters of another case may be more letters
            changes.append(Change(start, end, new_end - new_start, hides=False))
        at, new_at = end, new_end
    return Compared(tuple(changes), len(before), len(pairs))


def _places(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in WORD.finditer(text)]


def _folded(text: str, places: Sequence[tuple[int, int]]) -> list[str]:
    return [text[start:end].casefold() for start, end in places]


def _pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of the words that both have, in order."""
    if len(old) * len(new) > MOST_PAIRS:
        yield from _ends(old, new)
        return
    for code in LCSseq.opcodes(old, new):
        if code.tag == "equal":
            yield from zip(
                range(code.src_start, code.src_end),
                range(code.dest_start, code.dest_end),
                strict=True,
            )


def _ends(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of the words that both begin with, then of those that both end with."""
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    left = most - first
    last = next((at for at in range(left) if old[-1 - at] != new[-1 - at]), left)
    yield from zip(range(first), range(first), strict=True)
    ends = range(len(old) - last, len(old)), range(len(new) - last, len(new))
    yield from zip(*ends, strict=True)


def _between(gap: tuple[str, str], at: int) -> Iterator[Change]:
    """What changed between two words that both texts have.

    Args:
        gap: what stands there in the old text and in the new one.
        at: where it begins in the old text.
    """
    old, new = gap
    if old == new:
        return
    if not old.strip():
        yield Change(at, at + len(old), len(new), hides=False)
        return
    for before, after in zip(_parts(old), _parts(new), strict=True):
        if before != after:
            yield Change(at, at + len(before), len(after), hides=bool(before.strip()))
        at += len(before)


def _parts(text: str) -> tuple[str, str, str]:
    """White space at the beginning, what stands between, white space at the end."""
    inner = text.strip()
    first = len(text) - len(text.lstrip())
    return text[:first], inner, text[first + len(inner) :]
