"""Choice of a mechanism: the rows that prove something, with the leakage that remains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from uedp_bench.leaderboard.boards import generated, identity
from uedp_bench.leaderboard.cell_text import guarantee_text, number, stat_text
from uedp_bench.leaderboard.front.finding import (
    Board,
    first_page,
    leading,
    leading_metric,
    names,
    where,
)
from uedp_bench.leaderboard.glossary.words import UNITS
from uedp_bench.leaderboard.rows import Row, Stat
from uedp_bench.leaderboard.table_columns import floor_text
from uedp_bench.leaderboard.upper_end import better_than_unprotected

BUDGETS = (1, 2, 4, 8, 16)
"""Epsilons that readers choose from."""


def choices(boards: Sequence[Board]) -> dict[str, Any]:
    """Choices of readers; boards and rows keep their order, the best row first.

    Returns:
        `units` and `tasks` [key, words] that some row is for, `budgets`, `start` (unit, task and
        budget of the answer that shows first), `sets` with their rows, and all `rows`. A row
        has `e`: by unit [epsilon, text]; a null epsilon compares with none.
    """
    sets: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for board in boards:
        usable = [one for one in _rows(board, len(sets)) if one["e"]]
        if usable:
            spec = board[0].spec
            sets.append({
                "id": identity(board), "name": where(board), "generated": generated(board),
                "about": f"{spec.model.name}, corpus {(board[0].corpus or 'unknown')[:8]}",
                "task": spec.task.name, "source": spec.source.name,
                "metric": leading_metric(board[0]).label,
                "better": leading_metric(board[0]).better, "rows": usable,
            })  # fmt: skip
            rows += usable
    proven_units = {unit for row in rows for unit in row["e"]}
    tasks = dict.fromkeys(one["task"] for one in sets)
    units = [unit for unit in UNITS if unit in proven_units]
    return {
        "units": [[unit, UNITS[unit]] for unit in units],
        "tasks": list(tasks),
        "budgets": list(BUDGETS),
        "start": _start(sets, rows, units, list(tasks)),
        "sets": sets,
        "rows": rows,
    }


def _start(
    sets: Sequence[dict[str, Any]],
    rows: Sequence[dict[str, Any]],
    units: Sequence[str],
    tasks: Sequence[str],
) -> list[str]:
    """Unit, task and budget of the first answer: one that holds a row which learned something.

    Persons before other units, an epsilon of 8 before others. An answer of any size is the last
    resort: there rows per unit of distance stand, too.
    """
    budgets = ["8", *(str(most) for most in BUDGETS if most != 8), "any"]
    units = sorted(units, key=lambda unit: unit != "user")
    for learned in (True, False):
        for unit, budget, task in itertools.product(units, budgets, tasks):
            for row in rows:
                epsilon = row["e"].get(unit, (math.inf,))[0]
                fits = (
                    budget == "any"
                    if epsilon is None
                    else epsilon <= float(budget.replace("any", "inf"))
                )
                able = row["learned"] is not False or not learned
                if unit in row["e"] and fits and able and sets[row["set"]]["task"] == task:
                    return [unit, task, budget]
    return ["user", *tasks[:1], "8"]


def _rows(board: Board, at: int) -> Iterator[dict[str, Any]]:
    called, metric = names(board), leading_metric(board[0])
    better = better_than_unprotected(board)
    for row in board:
        stat = leading(row)
        if stat is None:
            continue
        yield {
            "set": at,
            "id": row.group,
            "name": called[row.group],
            "page": first_page(row),
            "utility": _text(metric.percent, metric.unit, stat, (metric.low, metric.high)),
            "learned": row.learned,
            "e": _epsilons(row),
            "better": row.group in better,
            "refuted": any(one.status == "refuted" for one in row.guarantees),
            "leaks": list(leaks(row)),
        }


def _epsilons(row: Row) -> dict[str, tuple[float | None, str]]:
    """The least proven epsilon of every unit; None where it is per unit of distance."""
    least: dict[str, tuple[float | None, str]] = {}
    for one in row.guarantees:
        if one.kind != "proven" or one.status != "given" or not math.isfinite(one.epsilon):
            continue
        epsilon = None if one.notion == "metric-dp" else one.epsilon
        earlier = least.get(one.unit)
        if earlier is None or (epsilon is not None and epsilon < (earlier[0] or math.inf)):
            least[one.unit] = epsilon, guarantee_text(one)
    return least


def leaks(row: Row) -> Iterator[tuple[str, str]]:
    """Main metric of every attack, beside its value where nothing leaks."""
    for attack, values in row.leakage.items():
        metrics = [row.metrics.metric("leakage", name, attack) for name in values]
        main = [one for one in metrics if one.better and one.main]
        if main:
            one = min(main, key=lambda one: row.metrics.place("leakage", one.name, attack))
            text = _text(one.percent, one.unit, values[one.name], (one.low, one.high))
            floor = f"; {floor_text(one)} where nothing leaks" if one.no_leak is not None else ""
            yield f"{attack}: {one.label}", f"{text}{floor}"
    most = max(row.bounds, key=lambda one: one.epsilon, default=None)
    if most is not None and most.epsilon > 0:
        yield f"{most.attack}: ε at least", f"{number(most.epsilon)} ({most.unit})"


def _text(percent: bool, unit: str, stat: Stat, limits: tuple[float, float]) -> str:
    text = stat_text(stat, 100.0 if percent else 1.0, False, limits)
    return f"{text} %" if percent else f"{text} {unit}".strip()
