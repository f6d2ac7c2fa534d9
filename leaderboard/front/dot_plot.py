"""A plot of a few values on one axis, as positions in percent: a table that shows what it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.leaderboard.cell_text import number

LONG_LABEL = 44
"""Characters of a label from which on it is cut: the page of the run has all parameters."""


@dataclass(frozen=True)
class Dot:
    """A value with its interval.

    Attributes:
        label: name of its row.
        value: finite.
        text: the value as tables write it.
        low, high: ends of the interval; None where there is none.
        page: page of the run that it leads to; empty for none.
        tone: "subject", "bad" or "plain".
        aside: a word more, such as "learned nothing".
    """

    label: str
    value: float
    text: str
    low: float | None = None
    high: float | None = None
    page: str = ""
    tone: str = "plain"
    aside: str = ""

    @property
    def short(self) -> str:
        """The label without the last of its parameters where there are many."""
        if len(self.label) <= LONG_LABEL:
            return self.label
        kept = self.label[:LONG_LABEL].rpartition(", ")[0]
        return f"{kept}, …)" if "(" in kept else f"{self.label[: LONG_LABEL - 2]} …"


@dataclass(frozen=True)
class Mark:
    """A line across the plot: a floor, or what is expected where nothing leaks."""

    label: str
    value: float
    text: str


@dataclass(frozen=True)
class Placed:
    """A dot with its places, in percent of the axis."""

    dot: Dot
    at: float
    left: float
    width: float


@dataclass(frozen=True)
class DotPlot:
    """Values on one axis; logarithmic where all are positive and span more than a decade.

    Attributes:
        axis: title of the axis, with its unit and better direction.
        dots: dots in the order of reading.
        marks: lines across.
    """

    axis: str
    dots: tuple[Dot, ...]
    marks: tuple[Mark, ...] = ()

    @property
    def logarithmic(self) -> bool:
        """True if places are by the logarithm."""
        values = self._values
        return min(values) > 0 and max(values) > 10 * min(values)

    @property
    def _values(self) -> list[float]:
        return [*(dot.value for dot in self.dots), *(mark.value for mark in self.marks)]

    def _place(self, value: float) -> float:
        if self.logarithmic:
            value = math.log10(max(value, min(self._values) / 10))
        return value

    def _ends(self) -> tuple[float, float]:
        values = [self._place(value) for value in self._values]
        low, high = min(values), max(values)
        room = 0.08 * ((high - low) or abs(high) or 1.0)
        return low - room, high + room

    def percent(self, value: float) -> float:
        """Place of a value, from 0 to 100; the end of the axis for values beyond it."""
        low, high = self._ends()
        if not math.isfinite(high - low):
            return 50.0  # numbers near the end of what floats hold
        at = 100.0 * (self._place(value) - low) / (high - low)
        return round(min(100.0, max(0.0, at)), 2)

    @property
    def placed(self) -> tuple[Placed, ...]:
        """The dots in their places, with their intervals as far as the axis goes."""
        placed = []
        for dot in self.dots:
            at = self.percent(dot.value)
            ends = (dot.low, dot.high)
            left, right = (at if end is None else self.percent(end) for end in ends)
            placed.append(Placed(dot, at, left, round(max(0.0, right - left), 2)))
        return tuple(placed)

    @property
    def lines(self) -> tuple[tuple[Mark, float], ...]:
        """The marks in their places."""
        return tuple((mark, self.percent(mark.value)) for mark in self.marks)

    @property
    def ticks(self) -> tuple[tuple[str, float], ...]:
        """Two to five round numbers with their places."""
        low, high = self._ends()
        if not math.isfinite(high - low):
            return ()
        values = _powers(low, high) if self.logarithmic else _steps(low, high)
        return tuple((_brief(value), self.percent(value)) for value in values)


def _steps(low: float, high: float) -> list[float]:
    rough = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * next(one for one in (1, 2, 5, 10) if one * size >= rough * 0.999)
    first = math.ceil(low / step)
    return [at * step for at in range(first, math.floor(high / step) + 1)]


def _powers(low: float, high: float) -> list[float]:
    wide = high - low > 2.5
    values = [
        digit * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for digit in ((1,) if wide else (1, 3))
    ]
    return [value for value in values if low <= math.log10(value) <= high]


def _brief(value: float) -> str:
    text = number(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def spread(dots: Sequence[Dot], most: int) -> tuple[Dot, ...]:
    """At most so many dots: the subject, what stands out, then the others in their order."""
    marked = [dot for dot in dots if dot.tone != "plain"]
    kept = [*marked, *(dot for dot in dots if dot.tone == "plain")][:most]
    places = {id(dot) for dot in kept}
    return tuple(dot for dot in dots if id(dot) in places)
