"""Contents of the front page: findings, sets of rows, and the choice of a mechanism."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from uedp_bench.leaderboard.boards import boards, generated, identity, real_first, title
from uedp_bench.leaderboard.cell_text import guarantee_text
from uedp_bench.leaderboard.comparisons import better_than_unprotected, references, unprotected
from uedp_bench.leaderboard.finding_rules import findings
from uedp_bench.leaderboard.findings import (
    Board,
    Finding,
    first_page,
    leading,
    leading_metric,
    leaks,
    measured_text,
    names,
    where,
)
from uedp_bench.leaderboard.glossary import UNITS
from uedp_bench.leaderboard.plots import between
from uedp_bench.leaderboard.rows import Row

_BUDGETS = (1, 2, 4, 8, 16)
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
                "better": leading_metric(board[0]).better, "rows": usable, "beside": _beside(board),
            })  # fmt: skip
            rows += usable
    proven_units = {unit for row in rows for unit in row["e"]}
    counts = Counter(sets[row["set"]]["task"] for row in rows)
    tasks = [task for task, _ in counts.most_common()]
    units = [unit for unit in UNITS if unit in proven_units]
    return {
        "units": [[unit, UNITS[unit]] for unit in units],
        "tasks": tasks,
        "budgets": list(_BUDGETS),
        "start": _start(sets, rows, units, tasks),
        "sets": sets,
        "rows": rows,
    }


def _beside(board: Board) -> list[tuple[str, str]]:
    """The unprotected row, and the floor that is hardest to beat, with their utility."""
    bare, row = unprotected(board), board[0]
    stat = None if bare is None else leading(bare)
    beside = [] if stat is None else [("unprotected", measured_text(leading_metric(row), stat))]
    percent = 100.0 if leading_metric(row).percent else 1.0
    floors = [one for one in references(board) if one.kind == "floor"][:1]
    return beside + [(one.label, between(one.low, one.high, percent)) for one in floors]


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
    budgets = ["8", *(str(most) for most in _BUDGETS if most != 8), "any"]
    units = sorted(units, key=lambda unit: unit != "user")
    for learned in (True, False):
        for unit, budget, task in itertools.product(units, budgets, tasks):
            most = math.inf if budget == "any" else float(budget)
            for row in rows:
                epsilon = row["e"].get(unit, (math.inf,))[0]
                fits = budget == "any" if epsilon is None else epsilon <= most
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
            "utility": measured_text(metric, stat),
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
        least_yet = math.inf if earlier is None or earlier[0] is None else earlier[0]
        if earlier is None or (epsilon is not None and epsilon < least_yet):
            least[one.unit] = epsilon, guarantee_text(one)
    return least


_MOST_SETS = 12
"""Sets of rows that the page lists; the table has all."""


def front_context(rows: Sequence[Row]) -> dict[str, Any]:
    """The template's values, and under `choices` what readers choose from."""
    ordered = real_first(boards(rows))
    return {
        "findings": [_shown(one) for one in findings(ordered)],
        "counts": {
            "rows": len(rows),
            "runs": sum(len(row.runs) for row in rows),
            "mechanisms": len({part.name for row in rows for part in row.spec.mechanism}),
            "attacks": len({attack for row in rows for attack in row.leakage}),
            "sets": len(ordered),
        },
        "sets": [_set(board) for board in sorted(ordered, key=_size)[:_MOST_SETS]],
        "choices": choices(ordered),
    }


def _size(board: Sequence[Row]) -> tuple[bool, int, int]:
    """Real text first, then most mechanisms, then most rows."""
    return generated(board), -len({row.label for row in board}), -len(board)


def _set(board: Sequence[Row]) -> dict[str, Any]:
    spec = board[0].spec
    return {
        "title": title(board),
        "name": where(board),
        "model": spec.model.name,
        "generated": generated(board),
        "rows": len(board),
        "mechanisms": sorted({row.label for row in board}),
        "link": _table(board),
    }


def _table(board: Sequence[Row]) -> str:
    """The table with the rows of a board."""
    spec = board[0].spec
    state = {"task": spec.task.name, "source": spec.source.name, "set": identity(board)}
    return f"table.html#{urlencode(state)}"


def _shown(finding: Finding) -> dict[str, Any]:
    spec = finding.board[0].spec
    return {
        "key": finding.key,
        "title": finding.title,
        "parts": [(text, at % 2 == 1) for at, text in enumerate(finding.parts)],
        "plot": finding.plot,
        "generated": finding.generated,
        "where": f"{where(finding.board)}, {spec.model.name}",
        "table": _table(finding.board),
        "rows": len(finding.board),
    }
