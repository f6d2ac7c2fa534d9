"""How many units a guarantee is about, how many trained, and how many a round drew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from uedp_bench.harness.public_sizes import NOTE
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table
from uedp_bench.results import Result

_ROWS = (
    ("declared", "declared: what the guarantee is about, and the noise is planned for"),
    ("training", "training, once other splits and held-out users have left (simulation only)"),
    ("planned_per_round", "a round, as planned"),
    ("expected_per_round", "a round, as expected of those that train (simulation only)"),
)


def taking_part(result: Result) -> Table | None:
    """What the run noted of its units; None where it noted nothing that can be read."""
    found: Any = result.diagnostics.get(NOTE)
    if not isinstance(found, Mapping):
        return None
    rows = [
        (what, f"{found[name]:,.6g}")
        for name, what in _ROWS
        if isinstance(found.get(name), int | float)
    ]
    unit = found.get("unit")
    named = unit if isinstance(unit, str) else "units"
    return table(f"{named} that take part", (named, "number"), rows, numbers=(1,)) if rows else None
