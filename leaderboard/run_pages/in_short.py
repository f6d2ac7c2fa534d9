"""The top of a run's page for other places than pages: its sentences, and its tables in short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.cell_text import NONE, bound_text, number
from uedp_bench.leaderboard.result_metrics import result_metrics
from uedp_bench.leaderboard.rows import Row
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table, text, words
from uedp_bench.leaderboard.run_pages.guarantee_cards import card
from uedp_bench.leaderboard.run_pages.in_words import Sentence, in_words
from uedp_bench.leaderboard.run_pages.metrics_by_seed import tiles

_COSTS = ("train_seconds", "attack_seconds", "reference_seconds", "score_seconds",
          "peak_memory_mb", "device")  # fmt: skip
_READING = ("metric", "this run", "95 % interval", "direction")


@dataclass(frozen=True)
class Short:
    """Summary of a run.

    Attributes:
        title: mechanism, task, source, model and seed.
        sentences: sentences at the top of its page.
        tables: utility with its floors, guarantees, leakage and cost, as far as there are any.
    """

    title: str
    sentences: tuple[Sentence, ...]
    tables: tuple[Table, ...]


def in_short(result: Result, row: Row) -> Short:
    """Summary of a run.

    Args:
        result: the run.
        row: row of the leaderboard, to which it belongs.
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
