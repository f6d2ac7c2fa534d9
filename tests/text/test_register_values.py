from __future__ import annotations

import datetime
from difflib import SequenceMatcher
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.text.register_values import (
    PART,
    Date,
    closeness,
    find_dates,
    similarity,
    words_of_name,
)

FORMS = (
    "%d %B %Y",
    "%B %d, %Y",
    "%B %d , %Y",
    "%d %b. %Y",
    "%b %d, %Y",
    "%Y-%m-%d",
    "%dth of %B %Y",
)


@given(st.dates(datetime.date(1000, 1, 1), datetime.date(2999, 12, 31)), st.sampled_from(FORMS))
def test_a_date_is_found_however_it_is_written(date: datetime.date, form: str) -> None:
    text = date.strftime(form)
    dates = find_dates(f"(born {text}) in Troy")
    assert dates == [(6, 6 + len(text), Date(date.year, date.month, date.day))]


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("in August 1961 and 1990", [Date(1961, 8), Date(1990)]),
        ("Sept. 1, 1999; Sep 1 1999", [Date(1999, 9, 1)] * 2),
        ("31 February 1999", []),
        ("no. 18403/1991, 1.2.1999, 3/4/1961, 19612, 12,1999", []),
        ("4 August", []),
        ("the 1980s and 2001-2003", []),
    ],
)
def test_dates_of_texts(text: str, dates: list[Date]) -> None:
    assert [date for *_, date in find_dates(text)] == dates


def test_a_date_tells_what_it_is_at_least_as_exact_about() -> None:
    day, month, year = Date(1961, 8, 4), Date(1961, 8), Date(1961)
    assert day.tells(day)
    assert day.tells(month)
    assert day.tells(year)
    assert not year.tells(day)
    assert not month.tells(day)
    assert not Date(1961, 8, 5).tells(day)
    assert not Date(1962, 8, 4).tells(year)


SHORT = st.text(alphabet="abéŁ ", max_size=9)


def longest_common(first: str, second: str) -> int:
    @cache
    def upto(i: int, j: int) -> int:
        if not i or not j:
            return 0
        if first[i - 1] == second[j - 1]:
            return upto(i - 1, j - 1) + 1
        return max(upto(i - 1, j), upto(i, j - 1))

    return upto(len(first), len(second))


@given(SHORT, SHORT)
def test_similarity_is_the_share_of_the_longest_common_subsequence(a: str, b: str) -> None:
    total = len(a) + len(b)
    want = 2 * longest_common(a, b) / total if total else 1.0
    assert similarity(a, b) == pytest.approx(want)
    # difflib looks for blocks: a common subsequence, not always the longest.
    assert SequenceMatcher(None, a, b, autojunk=False).ratio() <= similarity(a, b) + 1e-9


@pytest.mark.parametrize(
    ("value", "phrase", "least", "most"),
    [
        ("Michelle LaVaughn Robinson", "Michelle LaVaughn Robinson", 1, 1),
        ("Michelle LaVaughn Robinson (m. 1992)", "Mrs. Michelle LaVaughn Robinson", 1, 1),
        ("Michelle LaVaughn Robinson", "Robinson", PART, PART),
        ("Michelle LaVaughn Robinson", "Michelle Robinson", PART, PART),
        ("Michelle LaVaughn Robinson", "M. Robinson", PART, PART),
        ("Michelle LaVaughn Robinson", "M.", 0, 0.1),
        ("Michelle Robinson", "Anna Robinson", 0, 0.8),
        ("Anna Robinson", "Robinson Robinson", 0, 0.8),
        ("Łukasz Müller", "Muller", PART, PART),
        ("José Ángel Núñez", "Jose Angel Nunez", 1, 1),
        ("Άγγελος Αβραμίδης", "Αβραμίδης", PART, PART),
        ("Robinson", "Michelle Robinson", 0, 0.8),
        ("(m. 1992)", "Robinson", 0, 0),
    ],
)
def test_persons(value: str, phrase: str, least: float, most: float) -> None:
    assert least <= closeness("person", value, phrase) <= most


def test_dates_agree_as_dates() -> None:
    born = "(1961-08-04) August 4, 1961 (age 60)\nHonolulu, Hawaii"
    assert closeness("date", born, "4 August 1961") == 1
    assert closeness("date", born, "5 August 1961") == 0
    assert closeness("date", born, "1961") == 0
    assert closeness("date", "1961", "4 August 1961") == 1


def test_others_agree_as_a_whole() -> None:
    assert closeness("organisation", "Harvard University", "the Harvard University") == 1
    assert closeness("organisation", "Harvard University", "Harvard") < 0.6
    assert closeness("organisation", "Harvard University", "Harward Univercity") > 0.85
    assert closeness("place", "Turkey", "TURKEY") == 1
    assert words_of_name("The Dr. of") == ("of",)
