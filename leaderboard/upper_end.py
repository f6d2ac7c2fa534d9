"""The upper end of a table: the row without protection, and cheap baselines that it must beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.rows import Row, Stat, headline

BETTER = "better than the unprotected row"
"""Marks a private row that beats the unprotected one."""

WHY = "the unprotected row is under-trained"


@dataclass(frozen=True)
class Reference:
    """A line below the rows of a table.

    Attributes:
        kind: "floor": needs no private text, or next to none; "baseline": a cheap model of the
            private training text, without privacy.
        name: name of the baseline or floor.
        low, high: least and largest value among the rows of the table.
    """

    kind: str
    name: str
    low: float
    high: float

    @property
    def label(self) -> str:
        """Kind and name, as tables show them."""
        return f"{self.kind}: {self.name}"


def references(board: Sequence[Row]) -> list[Reference]:
    """Baselines, then floors, of the metric that ranks a board; the hardest to beat first."""
    larger = headline(board[0])[1]
    values: dict[tuple[str, str], list[float]] = {}
    for row in board:
        for column, stat in row.utility.items():
            if name := row.metrics.metric("utility", column).baseline:
                values.setdefault(("baseline", name), []).append(stat.value)
        for name, stat in row.floors.items():
            values.setdefault(("floor", name), []).append(stat.value)
    ends = [Reference(*key, min(each), max(each)) for key, each in values.items()]
    sign = -1.0 if larger else 1.0
    return sorted(ends, key=lambda one: (one.kind, sign * (one.high if larger else one.low)))


def is_unprotected(row: Row) -> bool:
    """True if nothing but ordinary training on private text made the row."""
    return [part.name for part in row.spec.mechanism] == ["noiseless"]


def unprotected(board: Sequence[Row]) -> Row | None:
    """The best unprotected row of a board; the rows are in order."""
    return next(filter(is_unprotected, board), None)


def better_than_unprotected(board: Sequence[Row]) -> frozenset[str]:
    """Groups of the private rows of a board that are better than its unprotected row.

    Their mean is better, and lies outside of the interval over seeds of the unprotected row where
    there is one: no cost of privacy can be read off such a board.
    """
    bare = unprotected(board)
    reached = None if bare is None else _leading(bare)
    if reached is None:
        return frozenset()
    sign = -1.0 if headline(board[0])[1] else 1.0
    end = reached.high if sign < 0 else reached.low
    least = sign * (reached.value if end is None else end)
    return frozenset(
        row.group
        for row in board
        if _is_private(row) and (stat := _leading(row)) is not None and sign * stat.value < least
    )


def warnings(rows: Sequence[Row]) -> dict[str, str]:
    """A sentence for each row that is on the wrong side of its unprotected row, by group."""
    sentences: dict[str, str] = {}
    for board in boards(rows):
        better, bare = better_than_unprotected(board), unprotected(board)
        sentences |= dict.fromkeys(
            better,
            f"It is {BETTER} of its table: {WHY}, and nothing there says what privacy costs.",
        )
        if better and bare is not None:
            sentences[bare.group] = (
                f"{len(better)} private row{'s' * (len(better) > 1)} of its table "
                f"{'are' if len(better) > 1 else 'is'} better: it is under-trained, and no upper "
                "end of utility."
            )
    return sentences


def choice_note(board: Sequence[Row]) -> str:
    """Rule by which rows of a board chose the network that they keep; empty where none chose."""
    chosen = list(dict.fromkeys(row.label for row in board if "best_epoch" in row.diagnostics))
    if not chosen:
        return ""
    rates = any("best_learning_rate" in row.diagnostics and _factors(row) > 1 for row in board)
    others = {row.label for row in board} - set(chosen)
    least = f"epoch{' and learning rate' * rates} that does best on rows of the split valid"
    rest = "; other rows: the last step, with settings fixed in advance" if others else ""
    return f"network that is kept: {', '.join(chosen)}: {least}{rest}"


def _factors(row: Row) -> int:
    """Number of learning rates that a row tried."""
    tried = (part.params.get("learning_rate_factors") for part in row.spec.mechanism)
    return max((len(one) for one in tried if isinstance(one, list | tuple)), default=1)


def _leading(row: Row) -> Stat | None:
    """The value that ranks a row, if it is a number."""
    stat = row.utility.get(headline(row)[0] or "")
    return stat if stat is not None and math.isfinite(stat.value) else None


def _is_private(row: Row) -> bool:
    """True if something finite is promised of the data."""
    return any(
        one.status != "refused" and one.unit != "computation" and math.isfinite(one.epsilon)
        for one in row.guarantees
    )
