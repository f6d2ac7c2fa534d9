"""Declarations of the metrics of one result."""

from __future__ import annotations

from typing import Any

from uedp_bench.components.metric import Declared, Metric
from uedp_bench.components.registry import Registry, attacks, mechanisms, tasks
from uedp_bench.contracts.results import Result
from uedp_bench.errors import UedpBenchError


def result_metrics(result: Result, *, installed: bool = False) -> Declared:
    """Declarations of a result's metrics: its own, else those of the components of its spec.

    The headline has the direction by which the result is ranked, whatever else is known of it.

    Args:
        result: result of a run.
        installed: trust the components that are installed before the result.
    """
    own, spec = result.metrics or Declared(), result.spec
    cost = [one for part in spec.mechanism for one in _registered(mechanisms, part.name)]

    def first(mine: tuple[Metric, ...], theirs: tuple[Metric, ...]) -> tuple[Metric, ...]:
        return theirs or mine if installed else mine or theirs

    utility = first(own.utility, _registered(tasks, spec.task.name))
    if result.headline is not None:
        task = Declared.model_construct(utility=utility)
        place = task.place("utility", result.headline.metric)
        metric = task.metric("utility", result.headline.metric)
        ranked = metric.ranked(result.headline.larger_is_better)
        utility = (*utility[:place], ranked, *utility[place + 1 :])
    return Declared.model_construct(
        utility=utility,
        leakage={
            name: first(own.leakage.get(name, ()), _registered(attacks, name))
            for name in result.leakage
        },
        cost=first(own.cost, tuple(cost)),
    )


def _registered(kind: Registry[Any], name: str) -> tuple[Metric, ...]:
    try:
        return kind.get(name).metrics if name in kind else ()
    except UedpBenchError:
        return ()
