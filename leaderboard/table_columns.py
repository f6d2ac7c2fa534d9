"""Columns of the table: those of metrics, those beside them, and which show unless readers pick.

Columns of metrics have keys KIND.METRIC: `utility.perplexity`, `membership.auc` (an attack),
`cost.train_seconds`. What no column shows stands on the pages of runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.glossary.page import places
from uedp_bench.leaderboard.metrics import Metric, column_prefix, metric, order, ranking
from uedp_bench.leaderboard.rows import Row, Stat, headline


def metric_columns(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Facts of every metric of any row, in the order in which tables show them.

    `place` is where the glossary explains it.
    """
    kinds = ("utility", "leakage", "cost", "diagnostics")
    turned = _directions(rows)
    found: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    for row in rows:
        for kind, attack, values in metrics_of(row):
            # An attack whose metrics nobody knows still shows its first one.
            known = any(metric(kind, name).main for name in values)
            for at, name in enumerate(values):
                key = column_key(kind, attack, name)
                if key in found or (kind in _COUNTS and not metric(kind, name).about):
                    continue
                told = asdict(metric(kind, name))
                if kind == "utility" and name in turned:
                    told |= {"better": turned[name], "main": True}
                told |= {end: short(told[end]) for end in ("low", "high")}
                told["main"] |= kind == "leakage" and not known and at == 0
                place = (kinds.index(kind), attack, order(kind, name), _natural(name))
                group = f"leakage: {attack}" if kind == "leakage" else kind
                named = {"key": key, "kind": kind, "attack": attack, "group": group,
                         "heading": _heading(metric(kind, name)),
                         "floor": _floor(metric(kind, name))}  # fmt: skip
                found[key] = place, named | told
    shown = [column for _, column in sorted(found.values(), key=lambda one: one[0])]
    return [column | {"place": place} for column, place in zip(shown, places(shown), strict=True)]


def _heading(known: Metric) -> str:
    """A metric's label with its unit, unless the label ends with it."""
    if known.percent:
        return f"{known.label} %"
    plain = not known.unit or known.label.rpartition(" ")[2] == known.unit
    return known.label if plain else f"{known.label} ({known.unit})"


def _floor(known: Metric) -> str:
    """Value of a metric where nothing leaks, as text; empty where that is not known."""
    if known.nothing is None:
        return ""
    return f"{number(100.0 * known.nothing)} %" if known.percent else number(known.nothing)


def _directions(rows: Sequence[Row]) -> dict[str, str | None]:
    """Which way is better, for each metric that ranks some rows; None where rows disagree."""
    said: dict[str, set[str | None]] = {}
    for row in rows:
        if row.headline is not None:
            name = row.headline.metric
            said.setdefault(name, set()).add(ranking(metric("utility", name), row.headline).better)
    return {name: found.pop() if len(found) == 1 else None for name, found in said.items()}


_COUNTS = {"cost", "diagnostics"}
"""Kinds of which only what `metrics` knows is a column; there are many, and few compare."""


def _natural(name: str) -> tuple[str | int, ...]:
    """A key that sorts numbers in names as numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if part.isdigit() else part for part in parts)


FIELDS = tuple(
    {"key": key, "label": label, "place": place, "about": about, "group": group}
    for group, key, label, place, about in (
        ("run", "task", "task", "task", "what the protected text is used for"),
        ("run", "source", "source", "source", "the text"),
        ("run", "model", "model", "model", "what is trained"),
        ("guarantee", "proven", "proven ε", "proven",
         "by an accountant whose assumptions this code meets"),
        ("guarantee", "stated", "stated ε", "stated", "by a component that nobody reviewed"),
        ("guarantee", "claimed", "claimed ε", "claimed", "as the paper computes it"),
        ("guarantee", "bound", "ε at least", "at-least",
         "what attacks refuted from below, with their confidence"),
        ("run", "seeds", "seeds", "seeds", "runs that finished"),
        ("run", "delta", "δ", "delta", "of the guarantees"),
        ("run", "learned", "learned", "learned-nothing",
         "whether the utility that ranks is surely better than the best floor"),
        ("run", "device", "device", "device", "where the runs trained"),
    )
)  # fmt: skip
"""Columns beside those of metrics; `place` is where the glossary explains them."""


def presets(board: Sequence[Row], columns: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Columns that tell of a board what a reader wants to know, by what that is.

    Columns that rows do not have are left out by the page's script.
    """
    name, _ = headline(board[0])
    measured = (group for row in board for group in metrics_of(row))
    keys = {column_key(kind, attack, one) for kind, attack, values in measured for one in values}
    mine = [one for one in columns if one["key"] in keys]
    leaks = [one for one in mine if one["kind"] == "leakage" and one["main"]]
    attacks: dict[str, list[Mapping[str, Any]]] = {}
    for one in leaks:
        attacks.setdefault(one["attack"], []).append(one)
    # Of every attack, the metric that says most.
    foremost = [next((one for one in each if one["better"]), each[0])["key"]
                for each in attacks.values()]  # fmt: skip
    # Unknown words flatter other metrics: always beside them.
    ranked = [one["key"] for one in mine if one["key"] in (f"utility.{name}", "utility.oov_rate")]
    # What was refuted stands beside what is proven; other claims can wait.
    refuted = any(one.status == "refuted" for row in board for one in row.guarantees)
    promises = ["proven", "stated", *(["claimed", "bound"] if refuted else [])]
    costs = [one["key"] for one in mine if one["kind"] == "cost"
             or (one["kind"] == "diagnostics" and one["main"])]  # fmt: skip
    return {
        "decide": [*promises, *ranked, *foremost],
        "guarantee": ["proven", "stated", "claimed", "bound", "delta", "learned", "seeds",
                      *ranked[:1]],
        "leakage": ["proven", *(one["key"] for one in leaks)],
        "cost": [*ranked[:1], *costs, "seeds", "device"],
    }  # fmt: skip


def metrics_of(row: Row) -> Iterator[tuple[str, str, Mapping[str, Stat]]]:
    """Kind of metric, the attack that measured it or "", and the values."""
    yield "utility", "", row.utility
    for attack, values in row.leakage.items():
        yield "leakage", attack, values
    yield "cost", "", row.cost
    yield "diagnostics", "", row.diagnostics


def column_key(kind: str, attack: str, name: str) -> str:
    """A column's key: no two metrics share one, whatever they are called."""
    return f"{column_prefix(attack) if kind == 'leakage' else kind}.{name}"


def short(value: float) -> float | str:
    """The number with six significant digits, as pages show it."""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.6g}")
