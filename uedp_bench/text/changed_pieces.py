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
    before, after = _words(old), _words(new)
    pairs = list(_pairs([word for *_, word in before], [word for *_, word in after]))
    edges = [*((before[a], after[b]) for a, b in pairs), ((len(old),) * 2, (len(new),) * 2)]
    changes: list[Change] = []
    at = new_at = 0
    for (start, end, *_), (new_start, new_end, *_) in edges:
        changes += _between((old[at:start], new[new_at:new_start]), at)
        if end - start != new_end - new_start:  # letters of another case may be more letters
            changes.append(Change(start, end, new_end - new_start, hides=False))
        at, new_at = end, new_end
    return Compared(tuple(changes), len(before), len(pairs))


def _words(text: str) -> list[tuple[int, int, str]]:
    return [(*match.span(), match[0].casefold()) for match in WORD.finditer(text)]


def _pairs(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Places of the words that both have, in order."""
    for code in LCSseq.opcodes(old, new):
        if code.tag == "equal":
            yield from zip(
                range(code.src_start, code.src_end),
                range(code.dest_start, code.dest_end),
                strict=True,
            )


def _between(gap: tuple[str, str], at: int) -> Iterator[Change]:
    """What changed between two words that both texts have.

    Args:
        gap: what stands there in the old text and in the new one.
        at: where it begins in the old text.
    """
    old, new = gap
    if old == new:
        return
    first = _common(old, new)
    old, new, at = old[first:], new[first:], at + first
    last = _common(old[::-1], new[::-1])
    end, length = len(old) - last, len(new) - last
    yield Change(at, at + end, length, hides=bool(old[:end].strip()))


def _common(old: str, new: str) -> int:
    """How many spaces both begin with."""
    found = 0
    for a, b in zip(old, new, strict=False):
        if a != b or not a.isspace():
            break
        found += 1
    return found
