"""Findings, words for the rows that they speak of, and plots of a few values that show them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from uedp_bench.components.metric import Metric
from uedp_bench.leaderboard.boards import data_title, generated, labels
from uedp_bench.leaderboard.cell_text import counted_text, number, stat_text
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.table_columns import floor_text, value_text

LONG_LABEL = 44
"""Characters of a label from which on it is cut: the page of the run has all parameters."""


@dataclass(frozen=True)
class Dot:
    """A value with its interval.

    Attributes:
        label: name of the row.
        value: finite value.
        text: the value as tables write it.
        low, high: ends of the interval; None where there is none.
        page: page of the run behind the dot; empty for none.
        tone: emphasis: "subject", "bad" or "plain".
        aside: remark beside the value, such as "learned nothing".
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
class _Placed:
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
        marks: lines across the plot.
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
    def placed(self) -> tuple[_Placed, ...]:
        """The dots in their places, with their intervals as far as the axis goes."""
        placed = []
        for dot in self.dots:
            at = self.percent(dot.value)
            ends = (dot.low, dot.high)
            left, right = (at if end is None else self.percent(end) for end in ends)
            placed.append(_Placed(dot, at, left, round(max(0.0, right - left), 2)))
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


Board = Sequence[Row]
"""Rows whose utility compares."""


@dataclass(frozen=True)
class Finding:
    """A sentence that results bear out, with the rows that it is drawn from.

    Attributes:
        key: key of the rule that found it.
        title: subject of the finding.
        parts: parts of the sentence; those at odd places are its numbers.
        plot: plot of the values that the sentence compares.
        board: rows that the rule compared.
        rows: rows that the sentence speaks of, the one that matters first.
        strength: rank among findings of one rule; larger is more striking.
    """

    key: str
    title: str
    parts: tuple[str, ...]
    plot: DotPlot
    board: Board
    rows: tuple[Row, ...]
    strength: float

    @property
    def sentence(self) -> str:
        """The sentence as plain text."""
        return "".join(self.parts)

    @property
    def generated(self) -> bool:
        """True if its text is invented."""
        return generated(self.board)


Rule = Callable[[Board], Iterable[Finding]]
"""Search for findings among the rows of one board."""


def strongest(findings: Sequence[Finding]) -> Finding | None:
    """The most striking one, of real text before generated; the first of several."""
    return max(findings, key=lambda one: (not one.generated, one.strength), default=None)


def leading(row: Row) -> Stat | None:
    """The value that ranks a row."""
    return row.utility.get(headline(row)[0] or "")


def leading_metric(row: Row) -> Metric:
    """Metric that ranks a row."""
    return row.metrics.metric("utility", headline(row)[0] or "")


def leading_text(row: Row) -> str:
    """The value that ranks a row, with its unit and without its interval."""
    stat = leading(row)
    return "" if stat is None else value_text(leading_metric(row), stat.value)


def names(board: Board) -> dict[str, str]:
    """Names of the rows of a board, by group."""
    return {row.group: label for row, label in zip(board, labels(board), strict=True)}


def where(board: Board) -> str:
    """The task of a board, and the title of its data."""
    return f"{board[0].spec.task.name} on {data_title(board[0])}"


def axis(metric: Metric) -> str:
    """Title of an axis of a metric."""
    unit = " %" if metric.percent else f" ({metric.unit})" if metric.unit else ""
    better = f", {metric.better} is better" if metric.better else ""
    return f"{metric.label}{unit}{better}"


def dot(row: Row, label: str, stat: Stat, metric: Metric, tone: str = "plain") -> Dot:
    """A row's value of a metric."""
    scale = 100.0 if metric.percent else 1.0
    ends = (None if end is None else end * scale for end in (stat.low, stat.high))
    low, high = ends
    return Dot(
        label,
        stat.value * scale,
        stat_text(stat, scale, False, (metric.low, metric.high)),
        low,
        high,
        first_page(row),
        tone,
        "learned nothing" if row.learned is False else "",
    )


def first_page(row: Row) -> str:
    """The page of the first finished run of a row, from the site's root."""
    from uedp_bench.leaderboard.index_page import run_page

    done = [run for run in row.runs if run.status == "finished"]
    return run_page((done or row.runs)[0].id)


def leaks(row: Row) -> Iterator[tuple[str, str]]:
    """Main metric of every attack, beside its value where nothing leaks."""
    for attack, values in row.leakage.items():
        metrics = [row.metrics.metric("leakage", name, attack) for name in values]
        main = [one for one in metrics if one.better and one.main]
        if main:
            one = min(main, key=lambda one: row.metrics.place("leakage", one.name, attack))
            stat = values[one.name]
            text = counted_text(measured_text(one, stat), stat, len(row.seeds))
            floor = f"; {floor_text(one)} where nothing leaks" if one.no_leak is not None else ""
            yield f"{attack}: {one.label}", f"{text}{floor}"
    most = max(row.bounds, key=lambda one: one.epsilon, default=None)
    if most is not None and most.epsilon > 0:
        yield f"{most.attack}: ε at least", f"{number(most.epsilon)} ({most.unit})"


def measured_text(metric: Metric, stat: Stat) -> str:
    """A value of a metric with its interval and unit."""
    text = stat_text(stat, 100.0 if metric.percent else 1.0, False, (metric.low, metric.high))
    return f"{text} %" if metric.percent else f"{text} {metric.unit}".strip()
