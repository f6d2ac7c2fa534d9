"""Which mechanism for what: the rows that prove something, with what attacks still find of them."""

from __future__ import annotations

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
from uedp_bench.leaderboard.metrics import metric, order
from uedp_bench.leaderboard.rows import Row, Stat

BUDGETS = (1, 2, 4, 8, 16)
"""Epsilons that readers choose from."""


def choices(boards: Sequence[Board]) -> dict[str, Any]:
    """What the page's script chooses from; boards and rows keep their order, the best row first.

    Returns:
        `units` and `tasks` [key, words] that some row is for, `budgets`, `sets` and `rows`. A row
        has `e`: by unit [epsilon, text]; a null epsilon compares with none.
    """
    sets: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    for board in boards:
        told = [one for one in _rows(board, len(sets)) if one["e"]]
        if told:
            spec = board[0].spec
            sets.append({
                "id": identity(board), "name": where(board), "generated": generated(board),
                "about": f"{spec.model.name}, corpus {(board[0].corpus or 'unknown')[:8]}",
                "task": spec.task.name, "source": spec.source.name,
                "metric": leading_metric(board[0]).label,
                "better": leading_metric(board[0]).better,
            })  # fmt: skip
            rows += told
    found = {unit for row in rows for unit in row["e"]}
    tasks = dict.fromkeys(one["task"] for one in sets)
    units = [unit for unit in UNITS if unit in found]
    return {
        "units": [[unit, UNITS[unit]] for unit in units],
        "tasks": list(tasks),
        "budgets": list(BUDGETS),
        "sets": sets,
        "rows": rows,
    }


def _rows(board: Board, at: int) -> Iterator[dict[str, Any]]:
    called, known = names(board), leading_metric(board[0])
    for row in board:
        stat = leading(row)
        if stat is None:
            continue
        yield {
            "set": at,
            "id": row.group,
            "name": called[row.group],
            "page": first_page(row),
            "utility": _text(known.percent, known.unit, stat, (known.low, known.high)),
            "learned": row.learned,
            "e": _epsilons(row),
            "refuted": any(one.status == "refuted" for one in row.guarantees),
            "leaks": list(_leaks(row)),
        }


def _epsilons(row: Row) -> dict[str, tuple[float | None, str]]:
    """The least proven epsilon of every unit; None where it is per unit of distance."""
    found: dict[str, tuple[float | None, str]] = {}
    for one in row.guarantees:
        if one.kind != "proven" or one.status != "given" or not math.isfinite(one.epsilon):
            continue
        epsilon = None if one.notion == "metric-dp" else one.epsilon
        known = found.get(one.unit)
        if known is None or (epsilon is not None and epsilon < (known[0] or math.inf)):
            found[one.unit] = epsilon, guarantee_text(one)
    return found


def _leaks(row: Row) -> Iterator[tuple[str, str]]:
    """What every attack found, by its main metric, beside what is found where nothing leaks."""
    for attack, values in row.leakage.items():
        known = [metric("leakage", name) for name in values]
        main = [one for one in known if one.better and one.main]
        main.sort(key=lambda one: order("leakage", one.name))
        for one in main[:1]:
            text = _text(one.percent, one.unit, values[one.name], (one.low, one.high))
            floor = "" if one.nothing is None else _floor(one.nothing, one.percent)
            yield f"{attack}: {one.label}", f"{text}{floor}"
    most = max(row.bounds, key=lambda one: one.epsilon, default=None)
    if most is not None and most.epsilon > 0:
        yield f"{most.attack}: ε at least", f"{number(most.epsilon)} ({most.unit})"


def _floor(nothing: float, percent: bool) -> str:
    shown = f"{number(100.0 * nothing)} %" if percent else number(nothing)
    return f"; {shown} where nothing leaks"


def _text(percent: bool, unit: str, stat: Stat, limits: tuple[float, float]) -> str:
    text = stat_text(stat, 100.0 if percent else 1.0, False, limits)
    return f"{text} %" if percent else f"{text} {unit}".strip()
