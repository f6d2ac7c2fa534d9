"""Contents of the front page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from uedp_bench.leaderboard.boards import boards, generated, identity, real_first, title
from uedp_bench.leaderboard.front.choosing import choices
from uedp_bench.leaderboard.front.finding import Finding, where
from uedp_bench.leaderboard.front.rules import findings
from uedp_bench.leaderboard.rows import Row

MOST_SETS = 12
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
        "sets": [_set(board) for board in sorted(ordered, key=_size)[:MOST_SETS]],
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
