from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.text.annotation.dates import Date, find_dates

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
    found = find_dates(f"(born {text}) in Troy")
    assert found == [(6, 6 + len(text), Date(date.year, date.month, date.day))]


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
