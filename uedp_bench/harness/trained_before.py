"""Models that were trained before the run fit to one mechanism, and that mechanism to no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uedp_bench import registry
from uedp_bench.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from uedp_bench.corpus import Corpus
    from uedp_bench.harness.pipeline import Pipeline
    from uedp_bench.results import ComponentSpec
    from uedp_bench.task import Task

MODEL = "checkpoint"
"""The model whose weights were trained elsewhere."""


CUT = ("valid", "test")
"""Shares that a source of a user's own file cuts off the split train where the file has no such
split."""


def with_whole_train(
    source: ComponentSpec, mechanisms: Sequence[ComponentSpec], values: Mapping[str, Any]
) -> ComponentSpec:
    """The source, with shares of 0 where a model was trained on all of its split train before.

    Where attacks planted before that training (`trained-elsewhere.coins`), rows of valid and test
    were cut off then, and are as they were.

    Args:
        source: with its defaults filled in.
        mechanisms: of the run.
        values: parameters of the source that the user gave.

    Raises:
        InputError: if the user gives a share above 0.
    """
    parts = (registry.mechanisms.create(ref.name, ref.params) for ref in mechanisms)
    elsewhere = [(part.name, getattr(part, "elsewhere", None)) for part in parts]
    by_splits = [name for name, each in elsewhere if each is not None and each.coins is None]
    names = [name for name in CUT if "split_column" in source.params and name in source.params]
    if not by_splits or not names:
        return source
    for name in names:
        if values.get(name):
            raise InputError(
                f"source.{name} is {shown(values[name])}: {by_splits[0]} takes every row of the "
                "split train for one that the model was trained on, and none may be cut off them. "
                f"Leave source.{name} out, and mark rows of other people as test or held_out in "
                "the split_column"
            )
    return source.model_copy(update={"params": {**source.params, **dict.fromkeys(names, 0.0)}})


def scored_rows(corpus: Corpus) -> Corpus:
    """The corpus of a model that was trained before, with test rows that it was not trained on.

    Rows of the split held_out stand in for a split test that is empty.
    """
    if corpus.where("test").any():
        return corpus
    return corpus.with_split(corpus.where("held_out"), "test")


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
