"""Two versions of a text, compared by their words in normal form.

NFC and NFD, full-width letters, signs that nobody sees, escapes of HTML, case and spaces are no
differences.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import regex
from rapidfuzz.distance import LCSseq

from uedp_bench.corpus.keys import normal_surface

_CLUSTER = regex.compile(
    r"(?P<plain>[\x00-\x7F--&]+)(?![^\x00-\x7F])|&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z]\w*);|\X",
    regex.V1,
)
"""ASCII that stays as it is; else an escape of HTML, or one character with its marks."""
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
)
_WORD = regex.compile(
    rf"[{_UNSPACED}]\p{{M}}*|[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]+|\S", regex.V1
)
"""A run of letters and digits, or any other character that is not white space. Scripts without
spaces between words have a word a character."""
_ACCENTS = regex.compile(r"[\u0300-\u036F]+")
_KEYBOARD = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe"}
    | dict.fromkeys("\u2018\u2019\u201a\u2032", "'")
    | dict.fromkeys("\u201c\u201d\u201e\u2033\u00ab\u00bb", '"')
    | dict.fromkeys("\u2010\u2012\u2013\u2014\u2212", "-")
)
"""Letters with a stroke, ligatures, quotation marks and dashes, as a keyboard has them."""


class NormalWord(NamedTuple):
    """A word of a text.

    Attributes:
        form: normal form.
        start, end: place in the text as it is written, end exclusive.
        spaced: white space stands before it.
    """

    form: str
    start: int
    end: int
    spaced: bool

    @property
    def is_name(self) -> bool:
        """True for a run of letters and digits, False for another sign."""
        return self.form[0].isalnum()


@lru_cache(maxsize=64)
def normal_words(text: str) -> tuple[NormalWord, ...]:
    """Words of a text in order, none of which overlap."""
    written, places = _normal(text)
    words: list[NormalWord] = []
    last = 0
    for match in _WORD.finditer(written):
        first, end = match.span()
        word = NormalWord(match[0], places[first][0], places[end - 1][1], first > last)
        last = end
        if words and word.start < words[-1].end:  # one character was written for several words
            before = words.pop()
            word = NormalWord(before.form + word.form, before.start, word.end, before.spaced)
        words.append(word)
    return tuple(words)


def without_accents(form: str) -> str:
    """A form without the marks that Latin, Greek and Cyrillic letters carry: "jose" for "josé".

    Quotation marks and dashes are those of a keyboard, too.
    """
    if form.isascii():
        return form
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", form)).translate(_KEYBOARD)
    return unicodedata.normalize("NFC", bare) or form


def _normal(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Normal form of a text, spaces as they are, and the place that each character comes from."""
    letters: list[str] = []
    places: list[tuple[int, int]] = []
    for form, start, end, plain in _clusters(text):
        letters.append(form)
        places += (
            [(at, at + 1) for at in range(start, end)] if plain else [(start, end)] * len(form)
        )
    return "".join(letters), places


def _clusters(text: str) -> Iterator[tuple[str, int, int, bool]]:
    """Normal form, start and end of each piece; True where its characters keep their places."""
    for match in _CLUSTER.finditer(text):
        start, end = match.span()
        piece = html.unescape(match[0]) if match[0][0] == "&" else match[0]
        if match["plain"] is not None or (match[0][0] == "&" and piece == match[0]):
            yield match[0].lower(), start, end, True
        else:
            form = normal_surface(piece) or (" " if piece.isspace() else "")
            yield form, start, end, False


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
    """Changes between two words that both texts have."""
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


Pair = tuple[str, str]
"""A text and its translation."""

LEAST_WORDS = 3
"""A text of fewer words may stand in its translation by chance: names and numbers often do."""


def holds_text(pair: Pair) -> bool:
    """True if the translation holds the whole text and more: then it is not a translation alone.

    A text of fewer than `LEAST_WORDS` words may be part of its translation ("in"), and one that is
    its own translation may be right (a name, a code): both are False.
    """
    text, target = map(normal_surface, pair)
    return text != target and text in target and len(text.split()) >= LEAST_WORDS
