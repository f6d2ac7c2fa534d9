"""The first rows of the table as markup: they are seen before the script has read all results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.leaderboard.boards import boards, real_first, title
from uedp_bench.leaderboard.cell_text import NONE, guarantees_text, stat_text
from uedp_bench.leaderboard.front.finding import first_page, leading, leading_metric, names
from uedp_bench.leaderboard.index_page import first_board
from uedp_bench.leaderboard.rows import Row
from uedp_bench.leaderboard.upper_end import better_than_unprotected

MOST = 12


@dataclass(frozen=True)
class FirstRows:
    """A few rows of the set that shows first.

    Attributes:
        title: of the set.
        metric: that ranks it.
        rows: name, page, what is proven, value of the metric, if it learned nothing, and if it is
            better than the unprotected row.
        left: rows of the set that are not among them.
    """

    title: str
    metric: str
    rows: tuple[tuple[str, str, str, str, bool, bool], ...]
    left: int


def _promise(row: Row) -> str:
    """Proven guarantees in words; stated ones, named so, where nothing is proven."""
    proven, stated = (guarantees_text(row, kind) for kind in ("proven", "stated"))
    return proven if proven != NONE or stated == NONE else f"not proven; stated: {stated}"


def first_rows(rows: Sequence[Row]) -> FirstRows | None:
    """The best rows of the set that readers first see; None where there is no result."""
    board = first_board(real_first(boards(rows)))
    if not board:
        return None
    known, called = leading_metric(board[0]), names(board)
    better = better_than_unprotected(board)
    scale, unit = (100.0, " %") if known.percent else (1.0, f" {known.unit}" if known.unit else "")
    told = tuple(
        (
            called[row.group],
            first_page(row),
            _promise(row),
            f"{stat_text(leading(row), scale, False, (known.low, known.high))}{unit}",
            row.learned is False,
            row.group in better,
        )
        for row in board[:MOST]
    )
    return FirstRows(title(board), known.label, told, max(0, len(board) - MOST))
