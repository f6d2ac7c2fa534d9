"""Names of people by a public list: a detector without a model, which misses what is not on it."""

from __future__ import annotations

import re
from functools import cache

_WORD = re.compile(r"[^\W\d_]+(?:['’]t\b)?")  # don't is one word, and Anna's is not


def listed_names(text: str) -> list[tuple[int, int]]:
    """(start, end) of every listed first name in a text, with the last name behind it.

    A name is a word in the list's own spelling (Anna, not anna or ANNA). A last name counts only
    directly behind a first name, after one space. Nicknames, other languages and typing errors are
    missed; words that are names too (Will, May, Grace) are taken for names.
    """
    first, last = _lists()
    words = list(_WORD.finditer(text))
    found: list[tuple[int, int]] = []
    for at, word in enumerate(words):
        if word[0] not in first or (found and word.start() < found[-1][1]):
            continue
        behind = words[at + 1] if at + 1 < len(words) else None
        joined = behind and text[word.end() : behind.start()] == " " and behind[0] in last
        found.append((word.start(), behind.end() if behind and joined else word.end()))
    return found


@cache
def _lists() -> tuple[frozenset[str], frozenset[str]]:
    """First and last names of Faker's locale en_US: public lists of the US census."""
    from faker.providers.person.en_US import Provider

    return frozenset(Provider.first_names), frozenset(Provider.last_names)
