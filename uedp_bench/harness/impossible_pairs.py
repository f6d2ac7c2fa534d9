"""Attacks that cannot apply to a run, known before anything is trained.

A task says what it releases (`Task.releases`), and the pipeline says whether anything is published.
What is left out for other reasons shows when the release is there (`attacking`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from uedp_bench import registry
from uedp_bench.errors import InputError
from uedp_bench.harness.components import build_pipeline
from uedp_bench.release import Channel, Published, RowScorer, Updates

if TYPE_CHECKING:
    from uedp_bench.attack import Attack
    from uedp_bench.harness.pipeline import Pipeline
    from uedp_bench.results import RunSpec
    from uedp_bench.task import Task


def expected(task: Task[Any]) -> tuple[type, ...]:
    """Capabilities of the model that a task trains, as far as it says; none where it trains none.

    Every trained release is taken for a `RowScorer`, and one of which nothing is said for what the
    task itself asks of it.
    """
    if not task.roles():
        return ()
    return tuple(dict.fromkeys((*(task.releases or task.needs), RowScorer)))


def cannot_apply(attack: Attack[Any], task: Task[Any], pipeline: Pipeline) -> str | None:
    """Why an attack cannot apply to a run; None where it can, or nobody knows yet."""
    said = not task.roles() or bool(task.releases)
    if not said or pipeline.servers:  # what is served may offer other capabilities
        return None
    offered = [*expected(task)]
    if task.roles():
        offered.append(Updates)
    if pipeline.shows_published:
        offered += [Published, Channel]
    if any(need in offered for need in attack.needs):
        return None
    named = " or ".join(need.__name__ for need in attack.needs)
    return f"{attack.name} needs a release that is a {named}"


def impossible_pairs(specs: Iterable[RunSpec]) -> tuple[str, ...]:
    """One line for each attack that some runs leave out, with the mechanisms of these runs.

    Args:
        specs: runs to be started; those that cannot be built say so themselves.
    """
    known: dict[str, list[str]] = {}
    found: dict[str, dict[str, None]] = {}
    for spec in specs:
        parts = spec.model_copy(update={"seed": 0}).model_dump_json(exclude={"source", "model"})
        if parts not in known:
            known[parts] = _left_out(spec)
        mechanisms = "+".join(ref.name for ref in spec.mechanism)
        for reason in known[parts]:
            found.setdefault(reason, {})[mechanisms] = None
    return tuple(
        f"{reason}: left out of runs of {', '.join(mechanisms)}"
        for reason, mechanisms in found.items()
    )


def _left_out(spec: RunSpec) -> list[str]:
    try:
        task = registry.tasks.create(spec.task.name, spec.task.params)
        pipeline = build_pipeline(spec, task)
        attacks = [registry.attacks.create(ref.name, ref.params) for ref in spec.attacks]
    except InputError:
        return []
    reasons = (cannot_apply(attack, task, pipeline) for attack in attacks)
    return [reason for reason in reasons if reason is not None]
