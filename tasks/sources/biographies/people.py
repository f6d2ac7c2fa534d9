"""Invented people with their families, schools and dates of birth, for `wiki-biographies`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

import numpy as np
from rapidfuzz import fuzz, process

from uedp_bench.api import Facts
from uedp_bench.text.automatic_annotation import words_of_name

LOCALES: tuple[str, ...] = ("en_US", "de_DE", "fr_FR", "es_ES", "cs_CZ", "tr_TR", "sv_SE", "el_GR")
"""Locales of Faker's lists of names; half of all pages take the first."""

NO_NAMES = frozenset({"an", "april", "august", "june", "may", "will"})
"""Names that are words or months: a sentence could mean either."""

APART = 0.8
"""People of a page are less close than this to each other, so that each can be told by name."""

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
DATE_FORMS: tuple[str, ...] = (
    "{month} {day} , {year}", "{day} {month} {year}", "{year}-{m:02}-{day:02}",
    "{short}. {day} , {year}",
)  # fmt: skip
SCHOOLS: tuple[str, ...] = (
    "{place} University", "University of {place}", "{last} College", "{place} High School",
    "{last} School of Law", "{place} Academy of Music", "{last} Institute of Technology",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """Whom a page is about.

    Attributes:
        name: name of the subject, first and last name.
        male: True if the page says "he".
        born: date of birth.
        named: full names by tag (PR, SP, CH) and names of schools (ED).
        bystander: somebody else, of whom no register says anything here.
        places: where things happen; none is close to a name of the page.
    """

    name: str
    male: bool
    born: datetime.date
    named: dict[str, tuple[str, ...]]
    bystander: str
    places: tuple[str, ...]

    @property
    def family_name(self) -> str:
        """Last name of the subject, the father, a spouse and the children."""
        return self.name.rpartition(" ")[2]

    def facts(self, absent: frozenset[tuple[str, str]]) -> Facts:
        """Facts of the infobox, with the keys of Wikipedia, without the (tag, value) absent."""
        values_of = {"BD": (written(self.born, 0).replace(" ,", ","),), **self.named}
        keys = {"BD": "Born", "PR": "Parent(s)", "SP": "Spouse(s)", "CH": "Children",
                "ED": "Alma mater"}  # fmt: skip
        left = {
            key: tuple(value for value in values_of[tag] if (tag, value) not in absent)
            for tag, key in keys.items()
        }
        return {key: values for key, values in left.items() if values}


def written(date: datetime.date, form: int) -> str:
    """A date in one of `DATE_FORMS`."""
    month = MONTHS[date.month - 1]
    return DATE_FORMS[form].format(
        month=month, short=month[:3], day=date.day, year=date.year, m=date.month
    )


def make_subject(rng: np.random.Generator) -> Subject:
    """The next subject."""
    locale = LOCALES[0] if rng.random() < 0.5 else LOCALES[1 + int(rng.integers(len(LOCALES) - 1))]
    first, last = _lists(locale)
    spouses, children = int(rng.choice([1, 2], p=[0.75, 0.25])), int(rng.integers(1, 4))
    family = 3 + children  # the subject, the father, one spouse and the children
    while True:
        first_names = [
            first[at] for at in rng.choice(len(first), family + spouses + 1, replace=False)
        ]
        names = [last[at] for at in rng.choice(len(last), 2 + spouses, replace=False)]
        people = [f"{name} {names[0]}" for name in first_names[:family]]
        people += [f"{a} {b}" for a, b in zip(first_names[family:], names[1:], strict=True)]
        if _told_apart([*first_names, *names]) and _told_apart(people):
            break
    places = _places_apart([*first_names, *names])
    chosen = [places[at] for at in rng.choice(len(places), 6, replace=False).tolist()]
    schools = [
        SCHOOLS[at].format(place=place, last=last[int(rng.integers(len(last)))])
        for at, place in zip(rng.choice(len(SCHOOLS), 2, replace=False), chosen, strict=False)
    ]
    subject, father, spouse, *rest = people
    young, (bystander, mother, *second) = rest[:children], rest[children:]
    return Subject(
        name=subject,
        male=bool(rng.random() < 0.5),
        born=datetime.date(1935, 1, 1) + datetime.timedelta(days=int(rng.integers(60 * 365))),
        named={"PR": (father, mother), "SP": (spouse, *second), "CH": tuple(young),
               "ED": tuple(schools[: int(rng.integers(1, 3))])},
        bystander=bystander,
        places=tuple(chosen[2:]),
    )  # fmt: skip


def _told_apart(names: Sequence[str]) -> bool:
    """True if no two names are close."""
    plain = _plain(names)
    near = process.cdist(plain, plain, scorer=fuzz.ratio) >= 100 * APART
    return bool(near.sum() == len(plain))


def _places_apart(names: Sequence[str]) -> list[str]:
    """Places that are not close to any of the names."""
    closest = process.cdist(_plain(_places()), _plain(names), scorer=fuzz.ratio).max(axis=1)
    return [_places()[at] for at in np.flatnonzero(closest < 100 * APART).tolist()]


def _plain(names: Sequence[str]) -> list[str]:
    return [" ".join(words_of_name(name)) for name in names]


@cache
def _lists(locale: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """First and last names of a locale of Faker, each one capitalised word."""
    provider = import_module(f"faker.providers.person.{locale}").Provider
    first, last = (
        tuple(sorted({name for name in names if _is_word(name)}))
        for names in (provider.first_names, provider.last_names)
    )
    return first, last


def _is_word(name: str) -> bool:
    letters = name.replace("-", "").replace("'", "")
    return (
        letters.isalpha()
        and len(letters) > 2
        and name[0].isupper()
        and not name.isupper()
        and name.casefold() not in NO_NAMES
    )


@cache
def _places() -> tuple[str, ...]:
    """Capitals of one word."""
    from faker.providers.date_time import Provider

    return tuple(sorted({each.capital for each in Provider.countries if _is_word(each.capital)}))
