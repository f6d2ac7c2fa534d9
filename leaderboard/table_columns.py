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

from uedp_bench.components.metric import Kind, Metric
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.glossary import places
from uedp_bench.leaderboard.rows import Row, Stat, headline

RESERVED = ("utility", "cost", "diagnostics", "claimed", "stated", "proven", "at_least", "params",
            "floor", "epsilon_at", "headline", "learned")  # fmt: skip
"""Beginnings of other columns than those of attacks."""


def column_prefix(attack: str) -> str:
    """Beginning of the columns of an attack, whatever it is called.

    No two attacks have one prefix, and no attack that of a kind.
    """
    name = quoted(attack)
    return f"%{name}" if name in RESERVED else name


def quoted(name: str) -> str:
    """A name as a part of a column's name, where a dot divides: no two names become one.

    A dot between a figure and another stays, for names of rates have it: tpr_at_0.1pct_fpr.
    """
    return _DIVIDES.sub("%2E", name.replace("%", "%25"))


_DIVIDES = re.compile(r"(?<!\d)\.|\.(?!\d)")


def metric_columns(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Facts of every metric of any row, in the order in which tables show them.

    A metric has no direction where rows disagree on it. `place` is where the glossary explains it.
    """
    kinds = ("utility", "leakage", "cost", "diagnostics")
    columns: dict[str, dict[str, Any]] = {}
    orders: dict[tuple[str, str], list[str]] = {}
    sources: dict[str, str] = {}
    seen: set[Any] = set()
    for row in rows:
        for kind, attack, values in metrics_of(row):
            listed = row.metrics.declarations(kind, attack)
            if (alike := (kind, attack, listed, tuple(values))) in seen:
                continue
            seen.add(alike)
            _merge(orders.setdefault((kind, attack), []), [one.name for one in listed])
            metrics = {name: row.metrics.metric(kind, name, attack) for name in values}
            # An attack without a main metric still shows its first one.
            alone = kind == "leakage" and not any(one.main for one in metrics.values())
            for at, (name, one) in enumerate(metrics.items()):
                key, rank = column_key(kind, attack, name), row.metrics.place(kind, name, attack)
                source = listed[rank].name if rank < len(listed) else ""
                if source and sources.get(key) and columns[key]["better"] != one.better:
                    columns[key]["better"] = None
                # What one row does not declare, another may.
                if sources.get(key) or (key in columns and not source):
                    continue
                if kind in _COUNTS and not one.about:
                    continue
                sources[key] = source
                columns[key] = asdict(one) | {
                    "key": key, "kind": kind, "attack": attack,
                    "group": f"leakage: {attack}" if kind == "leakage" else kind,
                    "heading": heading(one), "floor": floor_text(one),
                    "low": short(one.low), "high": short(one.high),
                    "main": one.main or (alone and at == 0),
                }  # fmt: skip

    def place(column: Mapping[str, Any]) -> tuple[Any, ...]:
        kind, attack, source = column["kind"], column["attack"], sources[column["key"]]
        order = orders[kind, attack]
        at = order.index(source) if source in order else len(order)
        return kinds.index(kind), attack, at, natural(column["name"])

    shown = sorted(columns.values(), key=place)
    return [column | {"place": at} for column, at in zip(shown, places(shown), strict=True)]


def _merge(order: list[str], names: Sequence[str]) -> None:
    """Puts new names behind those that they follow."""
    at = 0
    for name in names:
        if name not in order:
            order.insert(at, name)
        at = order.index(name) + 1


def heading(metric: Metric) -> str:
    """A metric's label with its unit, unless the label has it."""
    if metric.percent:
        return f"{metric.label} %"
    plain = not metric.unit or metric.unit in metric.label.split()
    return metric.label if plain else f"{metric.label} ({metric.unit})"


def flattering(metrics: Sequence[Metric]) -> list[Metric]:
    """Main metrics that are neither better nor worse: they say how to read those beside them."""
    return [one for one in metrics if one.main and not one.better]


def value_text(metric: Metric, value: float) -> str:
    """A value of a metric with its unit."""
    scale, unit = (
        (100.0, " %") if metric.percent else (1.0, f" {metric.unit}" if metric.unit else "")
    )
    return f"{number(value * scale)}{unit}"


def floor_text(metric: Metric) -> str:
    """Value of a metric where nothing leaks, as text; empty where that is not known."""
    if metric.no_leak is None:
        return ""
    return f"{number(100.0 * metric.no_leak)} %" if metric.percent else number(metric.no_leak)


_COUNTS = {"cost", "diagnostics"}
"""Kinds of which only what is explained is a column; there are many, and few compare."""


def natural(name: str) -> tuple[str | int, ...]:
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
    ranked = [one["key"] for one in mine if one["key"] == f"utility.{name}"
              or (one["kind"] == "utility" and one["main"] and not one["better"])]  # fmt: skip
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


def metrics_of(row: Row) -> Iterator[tuple[Kind, str, Mapping[str, Stat]]]:
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
