"""Dates as English texts write them, compared as dates.

"August 4, 1961", "4 August 1961", "4 Aug. 1961" and "1961-08-04" are one date. Numbers with
slashes or full stops are left alone: which number is the month depends on the country.
"""

from __future__ import annotations

import datetime
import re
from typing import NamedTuple

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
