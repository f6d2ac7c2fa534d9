"""Summary of a run: guarantees as cards, the result in short, and metrics by seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from uedp_bench.accounting.events import PrivacyEvent, Protected
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Declared, Kind, Metric
from uedp_bench.contracts.results import Estimate, LowerBound, Result
from uedp_bench.leaderboard.cell_text import (
    NONE,
    PER_DISTANCE,
    at_distances,
    bound_text,
    guarantee_text,
    number,
    stat_text,
)
from uedp_bench.leaderboard.installed import result_metrics
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table, text, words
from uedp_bench.leaderboard.run_pages.in_words import Sentence, in_words
from uedp_bench.leaderboard.table_columns import flattering

_NOTIONS = {
    "dp": "differential privacy",
    "metric-dp": "metric differential privacy (metric-dp): ε is per unit of distance",
    "simulation": "simulation: who computes sees nothing that its own input and what is revealed "
    "do not tell; this ε is 0 and compares with no other",
    "none": "nothing is promised",
}
_TONES = {"given": "good", "refused": "warn", "refuted": "bad"}


@dataclass(frozen=True)
class Card:
    """A guarantee as readers see it.

    Attributes:
        kind: kind of the guarantee: claimed, stated or proven.
        epsilon: epsilon as text, "refused" where there is none.
        unit: protected unit.
        status: status in words, with `tone` as its colour.
        reason: reason of the status.
        facts: labels and values of the conditions.
    """

    kind: str
    epsilon: str
    unit: str
    status: str
    tone: str
    reason: str
    note: str
    facts: tuple[tuple[str, str], ...]
    assumptions: tuple[str, ...]


def card(guarantee: Guarantee, epsilon_at: Mapping[str, Stat] = MappingProxyType({})) -> Card:
    """Card of a guarantee.

    Args:
        guarantee: guarantee to show.
        epsilon_at: epsilon of metric DP between the words of some pairs.
    """
    status = {
        "given": "given",
        "refused": "refused: no proof for what was executed",
        "refuted": "refuted: an attack bounds ε from below above this claim",
    }[guarantee.status]
    tone = _TONES[guarantee.status]
    if (guarantee.kind, guarantee.status) == ("stated", "given"):
        status, tone = "stated by a plug-in that nobody reviewed, and not proven", "warn"
    if guarantee.notion == "none" and guarantee.status == "given":
        status, tone = "no protection", "warn"
    facts = [
        ("δ", f"{guarantee.delta:g}"),
        ("neighbours differ by", guarantee.adjacency),
        ("notion", _NOTIONS[guarantee.notion]),
        ("accountant", guarantee.accountant),
    ]
    if guarantee.pure is not None:
        facts.insert(1, ("ε at δ = 0", number(guarantee.pure)))
    if guarantee.notion == "metric-dp":
        facts += [("ε between words", text) for text in at_distances(epsilon_at)]
    if guarantee.source:
        facts.append(("source", guarantee.source))
    if guarantee.curve:
        facts.append(("for entities", protected(guarantee.protected)))
    distance = f" {PER_DISTANCE}" if guarantee.notion == "metric-dp" else ""
    epsilon = f"ε = {number(guarantee.epsilon)}{distance}"
    return Card(
        guarantee.kind, epsilon, guarantee.unit, status, tone, guarantee.reason, guarantee.note,
        tuple(facts), guarantee.assumptions,
    )  # fmt: skip


def protected(point: Protected | None) -> str:
    """The declared point of a curve: which entities a guarantee is about."""
    if point is None:
        return "that any number of other users mention"
    if point.spread == 0:
        return "that no other user mentions"
    users = f"{point.spread:,} other user{'s' * (point.spread > 1)}"
    rows = f"{point.sentences_per_user:,} sentence{'s' * (point.sentences_per_user > 1)}"
    return f"that at most {users} mention{'s' * (point.spread == 1)}, in at most {rows} each"


def bounds(lower_bounds: tuple[LowerBound, ...]) -> Table:
    """Table of the lower bounds that attacks gave."""
    head = ("attack", "unit", "neighbours differ by", "ε at least", "confidence", "strict ε", "δ",
            "spread", "sentences", "method", "must hold")  # fmt: skip
    rows = [
        (
            one.attack, one.unit, one.adjacency, one.epsilon, f"{100 * one.confidence:.6g} %",
            one.strict_epsilon, f"{one.delta:g}", one.spread, one.sentences, one.method,
            "; ".join(one.assumptions),
        )
        for one in lower_bounds
    ]  # fmt: skip
    return table("lower bounds on ε", head, rows, numbers=(4, 6))


def events(privacy_events: tuple[PrivacyEvent, ...]) -> Table:
    """Table of the events: what happened to private data."""
    rows = [
        (
            one.stage, one.unit, one.adjacency, one.event.text(one.unit),
            "; ".join(one.assumptions),
            "" if one.protected is None else f"entities {protected(one.protected)}",
        )
        for one in privacy_events
    ]  # fmt: skip
    head = ("stage", "unit", "neighbours differ by", "what happened", "assumptions", "protected")
    return table("privacy events: the accountants' only input", head, rows)


_PER_ATTACK = 3
"""Metrics of an attack in a summary; all of them stand in its section."""


@dataclass(frozen=True)
class Reading:
    """A metric as this run measured it, beside all seeds of its row.

    Attributes:
        label: label of the metric.
        about: description in one sentence, or empty.
        value, interval: value and interval of the run, as text with the unit.
        over: mean and interval over seeds, with their number.
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
        kind: kind of the metrics, "utility" or "leakage".
        values: values of one run.
        over: values over the seeds of the run's row.
        attack: attack that measured the values.
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


_COSTS = ("train_seconds", "attack_seconds", "reference_seconds", "score_seconds",
          "peak_memory_mb", "device")  # fmt: skip
_READING = ("metric", "this run", "95 % interval", "direction")


@dataclass(frozen=True)
class Short:
    """Summary of a run.

    Attributes:
        title: mechanism, task, source, model and seed.
        sentences: sentences at the top of the page.
        tables: tables of utility with floors, guarantees, leakage and cost, as far as present.
    """

    title: str
    sentences: tuple[Sentence, ...]
    tables: tuple[Table, ...]


def in_short(result: Result, row: Row) -> Short:
    """Summary of a run.

    Args:
        result: result of the run.
        row: row of the leaderboard to which the run belongs.
    """
    spec = result.spec
    title = (
        f"{result.label}: {spec.task.name} on {spec.source.name}, {spec.model.name}, "
        f"seed {spec.seed}"
    )
    if result.error is not None:
        failed = f"It failed in the phase {result.error.phase}: {result.error.message}"
        return Short(title, (Sentence(failed, "bad"),), ())
    shown = tiles(result, row)
    utility = [(one.label, one.value, one.interval, one.better) for one in shown["utility"]]
    utility += [(f"floor: {name}", value, NONE, NONE) for name, value in floor_cells(result)]
    leakage = [
        (attack, one.label, one.value, one.interval, one.better)
        for attack, readings in shown["leakage"]
        for one in readings
    ]
    leakage += [
        (bound.attack, "ε at least", bound_text(bound, result.guarantees), NONE, NONE)
        for bound in result.lower_bounds
    ]
    costs = result.cost.model_dump()
    tables = (
        table("utility", _READING, utility, numbers=(1, 2)),
        _guarantees(result, row),
        table("leakage", ("attack", *_READING), leakage, numbers=(2, 3)),
        table("cost", ("measure", "this run"),
              [(words(n), text(costs[n])) for n in _COSTS if n in costs], numbers=(1,)),
    )  # fmt: skip
    return Short(title, in_words(result), tuple(one for one in tables if one.rows))


def _guarantees(result: Result, row: Row) -> Table:
    cards = [card(guarantee, row.epsilon_at) for guarantee in result.guarantees]
    cells = [
        (one.kind, one.epsilon, one.unit, dict(one.facts)["δ"],
         f"{one.status}: {one.reason}" if one.reason else one.status)
        for one in cards
    ]  # fmt: skip
    return table("guarantee", ("", "ε", "protects a", "δ", "status"), cells, numbers=(3,))


def floor_cells(result: Result) -> Iterator[tuple[str, str]]:
    """Names and values of the floors, which need no private text, or next to none."""
    metric = result_metrics(result).metric(
        "utility", result.headline.metric if result.headline else ""
    )
    scale, unit = (100.0, " %") if metric.percent else (1.0, "")
    yield from ((name, f"{number(value * scale)}{unit}") for name, value in result.floors.items())
