"""Normal forms of names, which decide if two spellings are one person or entity.

Ids (of users, rows, records, coins, classes) keep their case; surfaces (of entities, and words that
texts are compared by) lose it. Both lose characters that nobody sees.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import regex

from uedp_bench.data.cell_values import text_of

_IGNORABLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\N{ZERO WIDTH NO-BREAK SPACE}]+")
"""Characters without a picture of their own: soft hyphens, joiners, variation selectors, marks."""
_WHOLE_FLOAT = re.compile(r"([+-]?\d+)\.0+")
"""Whole number as written by a table whose column also had an empty cell."""


def without_ignorables(text: str) -> str:
    """Remove the characters that Unicode lets a reader ignore (UAX #44)."""
    return _IGNORABLE.sub("", text)


def normal_id(value: Any) -> str:
    """Normal form of an id: numbers by value, Unicode NFC, no ignorable character, case kept.

    7, 7.0, "7" and "7.0" are one id; "007" is another.

    Args:
        value: text or number, as a file gives it.
    """
    text = unicodedata.normalize("NFC", without_ignorables(text_of(value))).strip()
    whole = _WHOLE_FLOAT.fullmatch(text)
    return whole[1] if whole else text


def normal_spelling(word: str) -> str:
    """Normal form of a word whose case counts: NFKC, no ignorable character, single spaces."""
    return " ".join(without_ignorables(unicodedata.normalize("NFKC", word)).split())


def normal_surface(surface: str) -> str:
    """Normal form of a surface: NFKC, no ignorable character, case-folded, single spaces.

    Folding can undo a composition, so the form is composed again (Unicode, chapter 3, D147).
    """
    if surface.isascii():
        return " ".join(surface.split()).casefold()
    seen = without_ignorables(unicodedata.normalize("NFKC", surface)).casefold()
    return " ".join(unicodedata.normalize("NFKC", seen).split())
