"""What the page of the glossary shows, and where each column is explained on it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from uedp_bench.leaderboard.glossary.components import attacks_of, entries, mechanisms_of
from uedp_bench.leaderboard.glossary.terms import GUARANTEES, MEASURES
from uedp_bench.leaderboard.rows import Row
from uedp_bench.registry import attacks, mechanisms


def places(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the metrics of some columns on the page; no two are the same."""
    found: list[str] = []
    for column in columns:
        slug = re.sub(r"[^a-z0-9]+", "-", str(column["key"]).lower())[:60].strip("-")
        place = f"metric-{slug}"
        while place in found:
            place += "-x"
        found.append(place)
    return found


def glossary_context(rows: Sequence[Row], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The template's values.

    Args:
        rows: of the leaderboard.
        columns: of its metrics, as the table has them, each with its `place`.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for column in columns:
        groups.setdefault(column["group"], []).append(column)
    return {
        "terms": (("Guarantees", GUARANTEES), ("Measures", MEASURES)),
        "groups": list(groups.items()),
        "mechanisms": entries(mechanisms_of(rows), mechanisms, "docs/mechanisms"),
        "attacks": entries(attacks_of(rows), attacks),
    }
