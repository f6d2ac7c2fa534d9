"""Closeness of a phrase of a text to a value of a register, from 0 to 1."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from rapidfuzz import fuzz

from uedp_bench.corpus.normal_form import normal_surface
from uedp_bench.text.annotation.dates import find_dates
from uedp_bench.text.annotation.keys import Kind

PART = 0.99
"""Largest closeness of a part of a name to the name: the name itself is closer."""

TITLES = frozenset({"dame", "dr", "judge", "lady", "lord", "madame", "miss", "monsieur", "mr",
                    "mrs", "ms", "prof", "professor", "sir"})  # fmt: skip
"""Words before names that are no part of them."""

_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def closeness(kind: Kind, value: str, phrase: str) -> float:
    """Closeness of a phrase to a value.

    Args:
        kind: kind of the value. Dates are equal or are not. A person may be called by a part of the
            name, such as the family name. Others are compared as a whole.
        value: value of the register; brackets do not count, except in dates.
        phrase: phrase of the text.
    """
    if kind == "date":
        dates, value_dates = find_dates(phrase), find_dates(value)
        return float(any(one.tells(other) for *_, one in dates for *_, other in value_dates))
    named = words_of_name(_BRACKETS.sub(" ", value))
    words = words_of_name(phrase)
    if not named or not words:
        return 0.0
    whole = similarity(" ".join(named), " ".join(words))
    if kind != "person" or len(words) >= len(named):
        return whole
    return max(whole, min(PART, _part(named, words)))


def similarity(first: str, second: str) -> float:
    """1 for equal texts, 0 for texts without a common character.

    Twice the length of the longest common subsequence over the sum of both lengths.
    """
    return float(fuzz.ratio(first, second)) / 100


@lru_cache(maxsize=65_536)
def words_of_name(name: str) -> tuple[str, ...]:
    """Words of a name in one case, without accents, titles in front of it and an article."""
    letters = unicodedata.normalize("NFKD", normal_surface(name.replace("’", "'")))
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = [word.strip(".,;:'\"“”") for word in plain.split()]
    words = [word for word in words if word]
    while len(words) > 1 and words[0] in TITLES | {"the"}:
        del words[0]
    return tuple(words)


def _part(named: Sequence[str], words: Sequence[str]) -> float:
    """Mean closeness of the phrase's words to words of the name.

    No word of the name counts twice. An initial stands for its word, but not alone.
    """
    if all(len(word) == 1 for word in words):
        return 0.0
    left, total = list(named), 0.0
    for word in words:
        close = [_word(other, word) for other in left]
        best = max(range(len(left)), key=close.__getitem__)
        total += close[best]
        del left[best]
    return total / len(words)


def _word(named: str, word: str) -> float:
    return float(named.startswith(word)) if len(word) == 1 else similarity(named, word)
