"""Pieces of a text that a second version changed, by the words that both share.

The way in which the second version was made is not known, so this is a guess: the longest common
subsequence of words (Hirschberg 1975, as rapidfuzz computes it) in their normal form and without
accents. A word that stands in both by accident counts as the same, and where a text was written
anew, so much of it is one piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

from uedp_bench.text.normal_words import NormalWord, normal_words, without_accents

MOST_PAIRS = 2_500_000_000
"""Words of one text times words of the other, past which all between their common beginning and end
counts as changed: to compare more takes gigabytes."""


class Change(NamedTuple):
    """A piece of the old text and its replacement.

    Attributes:
        start, end: place of the piece, in characters of the old text, end exclusive; equal where
            something was added.
        length: characters of the replacement; 0 for none.
        hides: True if a word of the old text is gone. Else a word is written another way
            (case, accents, Unicode form, an escape of HTML), spaces are others, or something was
            added.
    """

    start: int
    end: int
    length: int
    hides: bool


class Compared(NamedTuple):
    """Two versions of a text.

    Attributes:
        changes: changes in order, without overlaps; all else is equal except the form of words.
        words: number of words of the old text.
        kept: number of words of the old text that stand in the new one, in order.
        added: number of words of the new text that are not among these.
    """

    changes: tuple[Change, ...]
    words: int
    kept: int
    added: int

    @property
    def is_same(self) -> bool:
        """True if the versions differ in spaces and the form of words at most."""
        return self.kept == self.words and not self.added


def compare(old: str, new: str) -> Compared:
    """Find the changes of a text, as far as the words that are left show them.

    A change begins and ends with a word: white space at its sides that did not change is not in it.
    """
    before, after = normal_words(old), normal_words(new)
    pairs = list(_pairs(_forms(before), _forms(after)))
    edges = [(before[a][1:3], after[b][1:3]) for a, b in pairs]
    changes: list[Change] = []
    at = new_at = 0
    for (start, end), (new_start, new_end) in [*edges, ((len(old),) * 2, (len(new),) * 2)]:
        changes += _between((old[at:start], new[new_at:new_start]), at)
        if end - start != new_end - new_start:  # another form of a word may be more letters
            changes.append(Change(start, end, new_end - new_start, hides=False))
        at, new_at = end, new_end
    return Compared(tuple(changes), len(before), len(pairs), len(after) - len(pairs))


def _forms(words: Sequence[NormalWord]) -> list[str]:
    return [without_accents(word.form) for word in words]


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
    """Places of the words that both begin with, then of words that both end with."""
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    left = most - first
    last = next((at for at in range(left) if old[-1 - at] != new[-1 - at]), left)
    yield from zip(range(first), range(first), strict=True)
    ends = range(len(old) - last, len(old)), range(len(new) - last, len(new))
    yield from zip(*ends, strict=True)


def _between(gap: tuple[str, str], at: int) -> Iterator[Change]:
    """Changes between two words that both texts have.

    Args:
        gap: text of the gap in the old text and in the new one.
        at: begin of the gap in the old text.
    """
    old, new = gap
    if old == new:
        return
    if not normal_words(old):
        yield Change(at, at + len(old), len(new), hides=False)
        return
    for before, after in zip(_parts(old), _parts(new), strict=True):
        if before != after:
            yield Change(at, at + len(before), len(after), hides=bool(normal_words(before)))
        at += len(before)


def _parts(text: str) -> tuple[str, str, str]:
    """Split a text into white space, inner text, white space."""
    inner = text.strip()
    first = len(text) - len(text.lstrip())
    return text[:first], inner, text[first + len(inner) :]
