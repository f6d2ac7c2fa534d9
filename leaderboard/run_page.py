"""What the page of a run shows."""

from __future__ import annotations

from typing import Any

from uedp_bench.leaderboard.rows import Row
from uedp_bench.results import Result


def run_context(result: Result, row: Row) -> dict[str, Any]:
    """The template's values, and under `data` what its script draws."""
    return {"label": result.label, "id": result.id, "data": {}}
