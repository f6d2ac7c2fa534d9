"""Judgement of a result's utility: its headline metric, its floors, and if anything was learnt.

A floor is a value of the headline metric that needs no training on private rows, or next to none:
word counts, the most frequent class, a model that saw public text alone. A model that is no better
has learnt nothing from the text that its mechanism protects, however small its epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from uedp_bench.contracts.results import Estimate, Headline

if TYPE_CHECKING:
    from uedp_bench.contracts.task import Task

PUBLIC_ONLY = "public-only"
"""The floor of a model that saw public text: the same model before any private row."""


def judged(
    task: Task[Any], utility: Mapping[str, Estimate], public_only: float | None
) -> dict[str, Any]:
    """Fill the fields `headline`, `floors` and `learned` of a result.

    Args:
        task: task that declares which of its metrics are floors.
        utility: metrics of the task.
        public_only: headline metric of the model before any private row; None where the model
            saw no public text either.
    """
    headline = headline_of(type(task))
    floors = {name: utility[at].value for name, at in task.floors.items() if at in utility}
    if public_only is not None:
        floors[PUBLIC_ONLY] = public_only
    estimate = utility.get(headline.metric)
    return {
        "headline": headline,
        "floors": floors,
        "learned": has_learned(estimate, floors.values(), headline.larger_is_better),
    }


def headline_of(task: type[Task[Any]]) -> Headline:
    """The headline that ranks the runs of a task."""
    return Headline(
        metric=task.metrics[0].name,
        larger_is_better=task.metrics[0].better == "higher",
        by_vocabulary=task.by_vocabulary,
    )


def has_learned(
    estimate: Estimate | None, floors: Iterable[float], larger_is_better: bool
) -> bool | None:
    """True if a metric's interval lies strictly on the better side of the best of its floors.

    Returns:
        None where that is not known: without floors, without the metric, or where it is better
        and has no interval.
    """
    sign = 1.0 if larger_is_better else -1.0
    best = max((sign * floor for floor in floors), default=None)
    if estimate is None or best is None:
        return None
    if sign * estimate.value <= best:
        return False
    worst = estimate.low if larger_is_better else estimate.high
    return None if worst is None else sign * worst > best


def predicts_untrained(model: Any) -> bool:
    """True if a model is a language model that was trained on public text before it came here.

    A pretrained encoder is none: the head on top of it is drawn at random.
    """
    from uedp_bench.contracts.model import LanguageModel

    return isinstance(model, LanguageModel) and model.brings_vocabulary()
