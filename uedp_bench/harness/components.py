"""The components of a run, built from its spec and checked against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uedp_bench import registry
from uedp_bench.attack import Attack
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.harness.pipeline import Pipeline
from uedp_bench.harness.publishing import check_carried
from uedp_bench.results import RunSpec
from uedp_bench.task import Task


@dataclass(frozen=True)
class Parts:
    """The live components of a run."""

    task: Task[Any]
    pipeline: Pipeline
    attacks: tuple[Attack[Any], ...]


def build(spec: RunSpec) -> Parts:
    """The components of a run.

    Raises:
        InputError: if names or parameters are wrong, the model is none that the task learns, or
            an attack is named twice.
    """
    model = registry.models.create(spec.model.name, spec.model.params)
    task_class = registry.tasks.get(spec.task.name)
    if task_class.models is not None and not isinstance(model, task_class.models):
        raise CapabilityError(
            f"the task {spec.task.name} learns a {task_class.models.__name__}, and the model "
            f"{spec.model.name} is none"
        )
    task = task_class.create(spec.task.params)
    task.model = model
    pipeline = build_pipeline(spec, task)
    check_carried(pipeline, task)
    _check_second_source(task, pipeline)
    attacks = tuple(registry.attacks.create(ref.name, ref.params) for ref in spec.attacks)
    names = [attack.name for attack in attacks]
    if len(set(names)) < len(names):
        raise InputError(
            f"attacks {', '.join(names)}: one run cannot hold an attack twice; give its "
            "parameters as lists to compare several"
        )
    return Parts(task, pipeline, attacks)


def build_pipeline(spec: RunSpec, task: Task[Any]) -> Pipeline:
    """The mechanisms of a run, training without noise where none of them trains."""
    mechanisms = [registry.mechanisms.create(ref.name, ref.params) for ref in spec.mechanism]
    return Pipeline.build(mechanisms, registry.mechanisms.create("noiseless"), task.private_rows())


def _check_second_source(task: Task[Any], pipeline: Pipeline) -> None:
    """Refuses publishers that would have to act on the rows of a second source, too."""
    second = task.second_source()
    if second is None:
        return
    for publisher in pipeline.publishers:
        if "downstream" in task.private_rows():
            why = f"its private rows of {second.name} would be trained on as they are"
        elif publisher.at_inference:
            why = f"test rows of {second.name} would have to pass through it"
        else:
            continue
        raise CapabilityError(
            f"the task {task.name} has a second source, and {publisher.name} publishes rows of the "
            f"first alone: {why}; leave {publisher.name} out"
        )
