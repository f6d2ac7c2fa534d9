"""Findings, and words for the subjects of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Metric
from uedp_bench.leaderboard.boards import data_name, generated, labels
from uedp_bench.leaderboard.cell_text import stat_text
from uedp_bench.leaderboard.front.dot_plot import Dot, DotPlot
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.table_columns import value_text

Board = Sequence[Row]
"""Rows whose utility compares."""


@dataclass(frozen=True)
class Finding:
    """A sentence that results bear out, with the rows that it is drawn from.

    Attributes:
        key: key of the rule that found it.
        title: subject of the finding.
        parts: parts of the sentence; those at odd places are its numbers.
        plot: the values that it compares.
        board: the rows among which it was found.
        rows: those that it speaks of, the one that matters first.
        strength: larger is more striking, among findings of its rule.
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


Rule = Callable[[Board], Sequence[Finding]]
"""Search for findings among the rows of one board."""


def strongest(findings: Sequence[Finding]) -> Finding | None:
    """The most striking one, of real text before generated; the first of several."""
    return max(findings, key=lambda one: (not one.generated, one.strength), default=None)


def guarantees(row: Row, kind: str, unit: str | None = None) -> list[Guarantee]:
    """The finite guarantees of differential privacy of a row that stand, the least first."""
    standing = [
        one
        for one in row.guarantees
        if one.kind == kind
        and one.notion == "dp"
        and one.status != "refused"
        and math.isfinite(one.epsilon)
        and unit in (None, one.unit)
    ]
    return sorted(standing, key=lambda one: one.epsilon)


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
    """The task of a board, and what its text is called."""
    return f"{board[0].spec.task.name} on {data_name(board[0])}"


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
