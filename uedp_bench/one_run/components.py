"""The components of a run, each built once from its spec and checked against the others.

Models that were trained before the run fit to one mechanism, and that mechanism to no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from uedp_bench.components import registry
from uedp_bench.components.component import Component
from uedp_bench.contracts.leakage import Attack
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.results import UNPROTECTED, ComponentSpec, RunSpec
from uedp_bench.contracts.source import Source, second_source
from uedp_bench.contracts.task import Task
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.publishing import check_carried
from uedp_bench.spec.grid import tried_runs

MODEL = "checkpoint"
"""The model whose weights were trained elsewhere."""


def _check_elsewhere(task: Task[Any], pipeline: Pipeline) -> None:
    """Refuse what was trained elsewhere where it would be trained here, and the reverse.

    Raises:
        InputError: for a model without the mechanism that says who trained it, the mechanism
            without such a model, or parts that would act before training.
    """
    trained_elsewhere = getattr(task.model, "trained_elsewhere", False)
    if pipeline.elsewhere is None:
        if trained_elsewhere:
            names = ", ".join(part.name for part in pipeline.parts)
            raise InputError(
                f"the model {task.model.name} was trained on these rows before: {names} would add "
                "its guarantee to weights that have seen them. Use the mechanism "
                "trained-elsewhere; to fine-tune a public model, use the model gpt2 or bert with "
                "pretrained"
            )
        return
    name = pipeline.trainers[0].name
    if not trained_elsewhere:
        model = "none" if task.model is None else task.model.name
        raise InputError(
            f"{name} releases a model as somebody trained it, and the model {model} is trained "
            f"here: --model {MODEL} --set model.pretrained=FOLDER"
        )
    before = [*pipeline.publishers, *([pipeline.vocabulary] if pipeline.vocabulary else [])]
    if before:
        raise InputError(
            f"{before[0].name} acts before training, and {name} was trained before this run: leave "
            f"out {before[0].name}"
        )
    if task.roles() != ("private",):
        raise InputError(
            f"{name} trains nothing, and the task {task.name} has {len(task.roles())} stages of "
            "training: leave out pre-training (task.pretraining_epochs), or take a task with one"
        )


class Setting(NamedTuple):
    """Task with its model, and mechanisms, of a run that this one was compared with."""

    task: Task[Any]
    pipeline: Pipeline


class Sources(NamedTuple):
    """Sources of the rows of a run.

    Attributes:
        first: source of the corpus that mechanisms protect.
        second: source of the rows of the task's last stage, where it names a second one.
    """

    first: Source[Any]
    second: Source[Any] | None = None


@dataclass(frozen=True)
class Components:
    """The live components of a run.

    Attributes:
        sources, task, attacks: components that its spec names; the task has its model.
        pipeline: pipeline of the mechanisms.
        unprotected: training without noise, where no mechanism trains and for models that attacks
            ask for.
        tried: settings of the runs compared to choose this one, itself among them; none where
            nothing was chosen.
    """

    sources: Sources
    task: Task[Any]
    pipeline: Pipeline
    attacks: tuple[Attack[Any], ...]
    unprotected: TrainingMechanism[Any]
    tried: tuple[Setting, ...] = ()

    @property
    def all(self) -> tuple[Component[Any], ...]:
        """Every component of the run."""
        sources = tuple(source for source in self.sources if source is not None)
        return (*sources, *self.after_sources)

    @property
    def after_sources(self) -> tuple[Component[Any], ...]:
        """All but the sources: what they read, they read while a run trains."""
        model = () if self.task.model is None else (self.task.model,)
        return (self.task, *model, *self.pipeline.parts, *self.attacks)


def build_sources(spec: RunSpec) -> Sources:
    """The sources of a run.

    Raises:
        InputError: if a name or a parameter is wrong.
    """
    second = second_source(spec.task)
    return Sources(
        registry.sources.create(spec.source.name, spec.source.params),
        None if second is None else registry.sources.create(second.name, second.params),
    )


def build(spec: RunSpec, sources: Sources | None = None) -> Components:
    """The components of a run.

    Args:
        spec: spec of the run.
        sources: sources of the spec, where they were built before.

    Raises:
        InputError: if names or parameters are wrong, the model is none that the task learns, an
            attack is named twice, or the run is none of those that it was chosen from.
        CapabilityError: if the task does not learn the model, a publisher would have to act on rows
            of a second source, or a mechanism cannot answer for what the task trains.
    """
    task = _task(spec)
    unprotected = registry.mechanisms.create(UNPROTECTED)
    pipeline = _pipeline(spec, task, unprotected)
    check_carried(pipeline, task)
    _check_second_source(task, pipeline)
    _check_served(task, pipeline)
    _check_elsewhere(task, pipeline)
    attacks = tuple(registry.attacks.create(ref.name, ref.params) for ref in spec.attacks)
    names = [attack.name for attack in attacks]
    if len(set(names)) < len(names):
        raise InputError(
            f"attacks {', '.join(names)}: one run cannot hold an attack twice; give its "
            "parameters as lists to compare several"
        )
    tried = [(one, _task(one)) for one in tried_runs(spec)] if spec.selection is not None else []
    return Components(
        sources or build_sources(spec),
        task,
        pipeline,
        attacks,
        unprotected,
        tuple(Setting(each, _pipeline(one, each, unprotected)) for one, each in tried),
    )


def _task(spec: RunSpec) -> Task[Any]:
    model = registry.models.create(spec.model.name, spec.model.params)
    kind = registry.tasks.get(spec.task.name)
    if kind.models is not None and not isinstance(model, kind.models):
        raise CapabilityError(
            f"the task {spec.task.name} learns a {kind.models.__name__}; the model "
            f"{spec.model.name} is not one"
        )
    task: Task[Any] = kind.create(spec.task.params, model=model)
    return task


def _pipeline(spec: RunSpec, task: Task[Any], unprotected: TrainingMechanism[Any]) -> Pipeline:
    parts = [registry.mechanisms.create(ref.name, ref.params) for ref in spec.mechanism]
    return Pipeline.build(parts, unprotected, task.private_rows())


def _check_second_source(task: Task[Any], pipeline: Pipeline) -> None:
    """Refuse publishers that would have to act on the rows of a second source, too."""
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


def _check_served(task: Task[Any], pipeline: Pipeline) -> None:
    """Refuse mechanisms that cannot answer for what the task trains, as far as that is known."""
    if pipeline.publishers:  # what they publish may be vectors, which no encoder reads
        return
    for server in pipeline.servers:
        before = pipeline.parts[: pipeline.parts.index(server)]
        if (reason := server.cannot_serve(task, before)) is not None:
            raise CapabilityError(f"{server.name}: {reason}")


def spec_of(component: Any) -> ComponentSpec:
    """The component by name, with all its parameters."""
    return ComponentSpec(name=component.name, params=component.params.model_dump(mode="json"))
