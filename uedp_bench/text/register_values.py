"""Values of a register: tags of its keys, and the closeness of a phrase to a value, from 0 to 1.

Keys and tags are those of Hathurusinghe, Nejadgholi and Bolic, A Privacy-Preserving Approach to
Extraction of Personal Information through Automatic Annotation and Federated Learning, PrivateNLP
2021, table 1.

Dates are compared as dates: "August 4, 1961", "4 August 1961", "4 Aug. 1961" and "1961-08-04" are
one. Numbers with slashes or full stops are left alone: which number is the month depends on the
country.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from pydantic import Field
from rapidfuzz import fuzz

from uedp_bench.components.component import Params
from uedp_bench.corpus.keys import normal_surface

Kind = Literal["date", "person", "organisation", "place"]
"""Kind of a value, which decides its comparison with a phrase of a text."""


class RecordTag(Params):
    """Records whose values a tag marks."""

    keys: tuple[str, ...] = Field(
        min_length=1, description="keys of the records whose values it marks; case does not matter"
    )
    kind: Kind = Field(
        description="what the values are: dates agree as dates, persons by parts of their names, "
        "the others as a whole"
    )


WIKIPII: Mapping[str, RecordTag] = {
    "BD": RecordTag(keys=("Born", "Born:"), kind="date"),
    "PR": RecordTag(
        keys=("Parent", "Parent(s)", "Parents", "Father", "Father's name", "Mother",
              "Mother's name"),
        kind="person",
    ),
    "SP": RecordTag(keys=("Spouse", "Spouse(s)", "Spouses"), kind="person"),
    "CH": RecordTag(keys=("Children",), kind="person"),
    "ED": RecordTag(
        keys=("Education", "High school", "High school:", "Law School", "School", "Schools",
              "College", "College(s)", "Colleges", "Alma mater", "Almat mater"),
        kind="organisation",
    ),
}  # fmt: skip
"""Tags of the paper: birth date, parents, spouses, children and education. Its table 1, as it is
printed."""


def normalise_key(key: str) -> str:
    """A key in one case and with single spaces, without the colon at its end."""
    return normal_surface(key.replace("’", "'")).rstrip(" :")


def tags_by_key(tags: Mapping[str, RecordTag]) -> dict[str, str]:
    """RecordTag by normalised key.

    Raises:
        ValueError: if a key belongs to two tags.
    """
    tag_names: dict[str, str] = {}
    for name, tag in tags.items():
        for key in tag.keys:
            other = tag_names.setdefault(normalise_key(key), name)
            if other != name:
                raise ValueError(f"the key {key!r} belongs to two tags, {other} and {name}")
    return tag_names


_NAMES = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
_NUMBERS = {name[:3].casefold(): at for at, name in enumerate(_NAMES, start=1)}
_MONTH = rf"(?P<{{0}}>(?:{'|'.join(_NAMES)})|(?:{'|'.join(n[:3] for n in _NAMES)}|Sept)\b\.?)"
_DAY = r"(?P<{0}>\d{{1,2}})(?:st|nd|rd|th)?"
_FORMS = (
    r"(?P<y1>\d{4})-(?P<m1>\d{2})-(?P<d1>\d{2})",
    rf"{_DAY.format('d2')}\s+(?:of\s+)?{_MONTH.format('m2')}(?:\s*,)?\s+(?P<y2>\d{{4}})",
    rf"{_MONTH.format('m3')}\s+{_DAY.format('d3')}\s*,?\s+(?P<y3>\d{{4}})",
    rf"{_MONTH.format('m4')}(?:\s*,)?\s+(?P<y4>\d{{4}})",
    r"(?P<y5>[12]\d{3})",
)
_DATE = re.compile(rf"(?<![\w/.,-])(?:{'|'.join(_FORMS)})(?!\w|[/.,-]\d)", re.IGNORECASE)


class Date(NamedTuple):
    """A date, of which day and month may be unknown (0)."""

    year: int
    month: int = 0
    day: int = 0

    def tells(self, other: Date) -> bool:
        """True if this date is `other`, at least as exact.

        The year alone does not tell a birthday; a day in 1961 tells the year.
        """
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True) if theirs)


def find_dates(text: str) -> list[tuple[int, int, Date]]:
    """(start, end, date) of every date in a text that has a year; impossible days are none."""
    dates = []
    for match in _DATE.finditer(text):
        fields = {name[0]: value for name, value in match.groupdict().items() if value}
        date = Date(int(fields["y"]), _month(fields.get("m", "0")), int(fields.get("d", 0)))
        if _possible(date):
            dates.append((*match.span(), date))
    return dates


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text[:3].casefold()]


def _possible(date: Date) -> bool:
    try:
        datetime.date(date.year, date.month or 1, date.day or 1)
    except ValueError:
        return False
    return True


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
