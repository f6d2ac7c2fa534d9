"""Mentions of a text, a public list that names some of them, and the surrogates that replace them.

An occurrence of a line of the list begins and ends at the border of a word and has the surface of
the line, both in their normal form: as two mentions are of the same entity. A word is a run of
letters, digits and their marks; any other character that is not white space is a word by itself.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from uedp_bench.api import InputError
from uedp_bench.api.text import Edit, normal_surface
from uedp_bench.io.files import read_text, shown_path
from uedp_bench.text.comparison import NormalWord, normal_words

Mention = tuple[int, int, int]
"""(start, end, type index) of a mention in one text."""

Interval = tuple[int, int]
"""(start, end) in characters, end exclusive."""

_SPACES = re.compile(r"\s+")


def replaced(
    text: str, mentions: Sequence[Mention], where: Sequence[Interval], by: str
) -> tuple[str, list[Mention]]:
    """The text with other pieces, and the mentions that no replaced piece overlaps, moved along.

    Args:
        text: is not changed.
        mentions: mentions in the text.
        where: pieces to replace, in order and without overlaps.
        by: replacement of each.
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


def tidying(text: str) -> list[Edit]:
    """The edits that `tidy` makes in a text."""
    inside = (0, len(text))
    return [
        (run.start(), run.end(), 0 if run.start() in inside or run.end() in inside else 1)
        for run in _SPACES.finditer(text)
        if run[0] != " " or run.start() in inside or run.end() in inside
    ]


def composed(first: Sequence[Edit], second: Sequence[Edit]) -> list[Edit]:
    """Edits of a text that do at once what the second do to what the first make of it.

    Edits that overlap in the text between become one.

    Args:
        first: edits of the text, in order and without overlaps.
        second: edits of the text that the first ones make.
    """
    # (start, end in the text between, which of the two, characters that it adds)
    between, shift = list[tuple[int, int, int, int]](), 0
    for start, end, new in first:
        between.append((start + shift, start + shift + new, 0, new - (end - start)))
        shift += new - (end - start)
    between += [(start, end, 1, new - (end - start)) for start, end, new in second]
    groups: list[tuple[int, int, list[int]]] = []
    for start, end, which, added in sorted(between):
        if groups and start < groups[-1][1]:
            low, high, both = groups.pop()
            start, end = low, max(high, end)
        else:
            both = [0, 0]
        both[which] += added
        groups.append((start, end, both))
    out, shift = list[Edit](), 0
    for start, end, (before, after) in groups:
        old = start - shift
        out.append((old, old + (end - start) - before, end - start + after))
        shift += before
    return out


MOST_BYTES = 2**28
"""Size of a list, at most."""

Trie: TypeAlias = "dict[str, Trie]"
"""Words that may follow, each after a space where one stands before it; "" ends a surface."""


class PublicList:
    """Surfaces to look for; the time for a text does not grow with their number.

    Attributes:
        surfaces: normalised.
    """

    def __init__(self, surfaces: Iterable[str]) -> None:
        self.surfaces = frozenset(filter(None, map(normal_surface, surfaces)))
        self._root: Trie = {}
        for surface in self.surfaces:
            node = self._root
            for word in normal_words(surface):
                node = node.setdefault(f" {word.form}" if word.spaced else word.form, {})
            node[""] = {}

    @staticmethod
    def read(path: Path, field: str) -> PublicList:
        """The list in a text file of one surface a line, in UTF-8; blank lines do not count.

        Args:
            path: path of the file.
            field: the parameter that names it, for messages.

        Raises:
            InputError: if there is no such file, it is not UTF-8, or has no surface.
        """
        public_list = PublicList(read_text(path, field, MOST_BYTES).split("\n"))
        if not public_list.surfaces:
            raise InputError(f"{field}: {shown_path(path)} has no surface; write one a line")
        return public_list

    def keeps(self, placeholders: Iterable[str], field: str) -> None:
        """Checks that no surface occurs in a placeholder, or could reach into one.

        Raises:
            InputError: otherwise.
        """
        for surface in sorted(self.surfaces):
            if "<" in surface or ">" in surface:
                raise InputError(
                    f"{field}: {surface!r} has an angle bracket, which marks placeholders; use "
                    "style=remove or leave it out"
                )
        for placeholder in placeholders:
            if self.occurrences(placeholder):
                raise InputError(
                    f"{field}: a surface of the list is part of the placeholder {placeholder}; use "
                    "style=remove or leave it out"
                )

    def occurrences(self, text: str) -> list[Interval]:
        """The pieces of the text that occurrences cover, in order; overlapping ones are one."""
        words = normal_words(text)
        covered: list[Interval] = []
        for i, (_, start, _, _) in enumerate(words):
            end = self._longest(words, i)
            if end is None:
                continue
            if covered and start < covered[-1][1]:
                start, last = covered.pop()
                end = max(end, last)
            covered.append((start, end))
        return covered

    def _longest(self, words: Sequence[NormalWord], first: int) -> int | None:
        """End of the longest occurrence that begins at a word."""
        node, end = self._root.get(words[first].form), None
        at = first
        while node is not None:
            if "" in node:
                end = words[at].end
            at += 1
            if at == len(words):
                break
            word = words[at]
            node = node.get(f" {word.form}" if word.spaced else word.form)
        return end


POOL_DRAWS = 2000
"""Draws from Faker per kind; a pool holds the distinct ones."""

_POOL_SEED = 20_230
"""Pools are public and always the same; what is secret is the key that chooses from them."""

_LAST = datetime(2025, 1, 1, tzinfo=UTC)
"""Dates and times are drawn before it: Faker would take the moment of the run."""

_DRAW: dict[str, Callable[[Any], str]] = {
    "person": lambda fake: f"{fake.first_name()} {fake.last_name()}",
    "place": lambda fake: str(fake.city()),
    "organisation": lambda fake: str(fake.company()),
    "date": lambda fake: str(fake.date(pattern="%d %B %Y", end_datetime=_LAST)),
    "time": lambda fake: str(fake.time(pattern="%H:%M", end_datetime=_LAST)),
    "phone": lambda fake: str(fake.numerify("555-###-####")),
    "email": lambda fake: str(fake.ascii_safe_email()),
    "url": lambda fake: str(fake.url()),
    "language": lambda fake: str(fake.language_name()),
    "percent": lambda fake: f"{fake.random_int(1, 99)} %",
    "money": lambda fake: f"$ {fake.random_int(1, 9999)}",
    "ordinal": lambda fake: f"{fake.random_int(11, 19) + 100 * fake.random_int(0, 99)}th",
    "number": lambda fake: str(fake.random_int(2, 9999)),
    "title": lambda fake: str(fake.catch_phrase()).title(),
}

_KINDS: dict[str, tuple[str, ...]] = {
    "person": ("person", "per", "name", "nickname"),
    "place": ("loc", "location", "gpe", "fac", "facility", "city", "country", "address"),
    "organisation": ("org", "organization", "organisation", "company"),
    "date": ("date", "datetime"),
    "time": ("time",),
    "phone": ("phone", "phonenumber"),
    "email": ("email", "emailaddress"),
    "url": ("url", "domainname"),
    "language": ("language", "norp", "nrp", "nationality"),
    "percent": ("percent",),
    "money": ("money",),
    "ordinal": ("ordinal",),
    "number": ("cardinal", "quantity", "ip", "ipaddress", "id", "creditcard", "usssn", "iban"),
}
_KIND_OF_TYPE = {name: kind for kind, names in _KINDS.items() for name in names}


def kind_of(entity_type: str, surface: str) -> str:
    """The kind of surrogate for a surface of a type.

    Types are those of spaCy, Presidio and CoNLL, in any spelling of case and separators. The type
    PII covers several kinds, so there the surface decides; types without a pool of their own
    (works of art, products, events, laws, miscellaneous) become invented titles.
    """
    plain = re.sub(r"[^a-z]", "", entity_type.lower())
    if plain != "pii":
        return _KIND_OF_TYPE.get(plain, "title")
    if "@" in surface:
        return "email"
    return "phone" if sum(map(str.isdigit, surface)) >= 5 else "person"


@cache
def pool(kind: str) -> tuple[str, ...]:
    """Distinct invented surfaces of a kind, tokenised by single spaces; equal in every run."""
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(_POOL_SEED)
    drawn = (_DRAW[kind](fake).replace(",", " ,") for _ in range(POOL_DRAWS))
    return tuple(dict.fromkeys(" ".join(surface.split()) for surface in drawn))


class Surrogates:
    """A keyed function from (type, normalised surface) to an invented surface of the same kind.

    It has no memory: what an entity becomes depends on the key and on the entity alone, never on
    the other rows, so that a differentially private stage after it keeps its unit. Two entities
    may share a surrogate; none is its own.

    Args:
        key: secret key of HMAC-SHA-256.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, entity_type: str, surface: str) -> str:
        """The surrogate, in upper or lower case where the surface is."""
        plain = normal_surface(surface)
        choices = pool(kind_of(entity_type, surface))
        message = f"{entity_type}\0{plain}".encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, message, hashlib.sha256)
        at = int.from_bytes(digest[:8], "big") % len(choices)
        if normal_surface(choices[at]) == plain:
            at = (at + 1) % len(choices)
        chosen = choices[at]
        if surface.isupper() and len(surface) > 1:
            return chosen.upper()
        return chosen.lower() if surface.islower() else chosen
