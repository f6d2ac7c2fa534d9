"""Metrics of a run beside all seeds of its row, and the few of them that a summary shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.components.metric import Declared, Kind, Metric
from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.leaderboard.cell_text import bound_text, guarantee_text, number, stat_text
from uedp_bench.leaderboard.result_metrics import result_metrics
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.table_columns import flattering

_PER_ATTACK = 3
"""Metrics of an attack in a summary; all of them stand in its section."""


@dataclass(frozen=True)
class Reading:
    """A metric as this run measured it, beside all seeds of its row.

    Attributes:
        label: label of the metric.
        about: one sentence, or nothing.
        value, interval: of this run, as text with the unit.
        over: mean and interval over seeds, and how many.
        better: better direction, in words.
    """

    label: str
    about: str
    value: str
    interval: str
    over: str
    better: str


def readings(
    metrics: Declared,
    kind: Kind,
    values: Mapping[str, Estimate],
    over: Mapping[str, Stat],
    attack: str = "",
) -> tuple[Reading, ...]:
    """Metrics in the order in which they are declared, each beside all seeds.

    Args:
        metrics: declarations of the run.
        kind: "utility" or "leakage".
        values: values of one run.
        over: over the seeds of its row.
        attack: attack that measured them.
    """
    names = sorted(values, key=lambda name: metrics.place(kind, name, attack))
    return tuple(
        _reading(metrics.metric(kind, name, attack), values[name], over.get(name)) for name in names
    )


def _reading(metric: Metric, estimate: Estimate, over: Stat | None) -> Reading:
    scale = 100.0 if metric.percent else 1.0
    unit = " %" if metric.percent else f" {metric.unit}" if metric.unit else ""
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f"{number(estimate.low * scale)} to {number(estimate.high * scale)}{unit}"
    limits = metric.low, metric.high
    return Reading(
        metric.label,
        metric.about,
        number(estimate.value * scale) + unit,
        interval,
        "" if over is None else f"{stat_text(over, scale, False, limits)}{unit} (n = {over.n})",
        {"lower": "lower is better", "higher": "higher is better", None: "for reference"}[
            metric.better
        ],
    )


def tiles(result: Result, row: Row) -> dict[str, Any]:
    """Utility, epsilons and the main leakage, each beside all seeds of the row."""
    metrics = result_metrics(result)
    utilities = [metrics.metric("utility", name) for name in result.utility]
    main = [one.name for one in utilities if one.better]
    first = headline(row)[0]
    names = list(dict.fromkeys([*([first] if first in result.utility else []), *main]))[:2]
    names += [one.name for one in flattering(utilities)]
    leakage = [
        (
            attack,
            readings(
                metrics,
                "leakage",
                _main(metrics, attack, values),
                row.leakage.get(attack, {}),
                attack,
            ),
        )
        for attack, values in result.leakage.items()
    ]
    epsilons = []
    stated = any(one.kind == "stated" for one in result.guarantees)
    for kind in ("claimed", "proven", *(["stated"] if stated else [])):
        mine, over = (
            [guarantee_text(one) for one in promising.guarantees if one.kind == kind]
            for promising in (result, row)
        )
        epsilons.append(_epsilons(f"{kind} ε", "guarantee", mine, over))
    if result.lower_bounds or row.lower_bounds:
        mine, over = ([*map(bound_text, promising.lower_bounds)] for promising in (result, row))
        epsilons.append(_epsilons("ε at least", "attacks", mine, over))
    return {
        "utility": [
            _reading(metrics.metric("utility", name), result.utility[name], row.utility.get(name))
            for name in names
        ],
        "epsilons": epsilons,
        "leakage": leakage,
    }


def _epsilons(
    label: str, kind: str, mine: Sequence[str], all_seeds: Sequence[str]
) -> dict[str, Any]:
    """Epsilons of this run; those of its row where seeds differ."""
    values, over = list(dict.fromkeys(mine)), list(dict.fromkeys(all_seeds))
    return {"label": label, "kind": kind, "values": values, "over": over if over != values else []}


def _main(metrics: Declared, attack: str, values: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """The metrics of an attack that say most; of one without a main metric, its first one."""
    metric_of = {name: metrics.metric("leakage", name, attack) for name in values}
    main = [name for name in values if metric_of[name].main and metric_of[name].better]
    main.sort(key=lambda name: metrics.place("leakage", name, attack))
    return {name: values[name] for name in (main or list(values)[:1])[:_PER_ATTACK]}
