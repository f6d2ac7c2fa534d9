"""Features of a word by itself: its characters, and its case. No text is needed to read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uedp_bench.corpus import IntArray

_UNKNOWN, _BEGIN, _END = 1, 2, 3  # 0 stands for no character
_KNOWN = (*range(0x20, 0x7F), *range(0xA0, 0x180))
_IDS = {chr(code): _END + 1 + at for at, code in enumerate(_KNOWN)}
ALPHABET = _END + 1 + len(_KNOWN)
"""Ids of characters: none, unknown, begin and end of a word, ASCII, and the letters of Latin-1 and
of Latin Extended-A. It is fixed, so that no text is looked at to make it."""

CASES = 8
"""Ids of `case_of`."""

MOST_CHARACTERS = 20
"""Characters of a word that count: a longer one keeps its first and its last ten."""


class WordFeatures(NamedTuple):
    """Features of different words.

    Attributes:
        characters: (words, longest) ids with begin and end of the word, 0 after the last.
        cases: (words,) see `case_of`.
    """

    characters: IntArray
    cases: IntArray


def features_of(words: Sequence[str]) -> WordFeatures:
    """Read the features of words."""
    ids = [_characters(word) for word in words]
    table = np.zeros((len(words), MOST_CHARACTERS + 2), dtype=np.int64)
    for row, characters in zip(table, ids, strict=True):
        row[: len(characters)] = characters
    return WordFeatures(table, np.array([case_of(word) for word in words], dtype=np.int64))


def _characters(word: str) -> list[int]:
    if len(word) > MOST_CHARACTERS:
        half = MOST_CHARACTERS // 2
        word = word[:half] + word[-half:]
    return [_BEGIN, *(_IDS.get(character, _UNKNOWN) for character in word), _END]


def case_of(word: str) -> int:
    """0 neither letters nor digits; 1 digits alone; 2 digits without letters; 3 both.

    Letters alone: 4 all lower; 5 all upper (two or more); 6 the first upper; 7 mixed.
    """
    digits = any(character.isdigit() for character in word)
    letters = [character for character in word if character.isalpha()]
    if not letters:
        return (1 if word.isdigit() else 2) if digits else 0
    if digits:
        return 3
    upper = [letter.isupper() for letter in letters]
    if not any(upper):
        return 4
    if all(upper):
        return 5 if len(upper) > 1 else 6
    return 6 if upper[0] and not any(upper[1:]) else 7
