"""Words of a text in their normal form, with their places in the text as it is written.

Two versions of a text are compared by these words. NFC and NFD, full-width letters, signs that
nobody sees, escapes of HTML, case and spaces are no differences.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import regex

from uedp_bench.corpus.normal_form import normal_surface

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
