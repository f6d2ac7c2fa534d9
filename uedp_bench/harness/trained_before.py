"""Models that were trained before the run fit to one mechanism, and that mechanism to no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.harness.pipeline import Pipeline
    from uedp_bench.task import Task

MODEL = "checkpoint"
"""The model whose weights were trained elsewhere."""


def check_elsewhere(task: Task[Any], pipeline: Pipeline) -> None:
    """Refuses what was trained elsewhere where it would be trained here, and the reverse.

    Raises:
        InputError: for a model without the mechanism that says who trained it, the mechanism
            without such a model, or parts that would act before training.
    """
    given = getattr(task.model, "trained_elsewhere", False)
    if pipeline.elsewhere is None:
        if given:
            names = ", ".join(part.name for part in pipeline.parts)
            raise InputError(
                f"the model {task.model.name} was trained on these rows before: {names} would add "
                "its guarantee to weights that have seen them. Use the mechanism "
                "trained-elsewhere; to fine-tune a public model, use the model gpt2 or bert with "
                "pretrained"
            )
        return
    name = pipeline.trainers[0].name
    if not given:
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
