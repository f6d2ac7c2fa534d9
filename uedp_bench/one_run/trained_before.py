"""Models that were trained before the run fit to one mechanism, and that mechanism to no other."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.contracts.learner import Learner
    from uedp_bench.contracts.model import Vocabulary
    from uedp_bench.contracts.release import Release
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.contracts.task import Task
    from uedp_bench.corpus import Corpus
    from uedp_bench.one_run.pipeline import Pipeline

MODEL = "checkpoint"
"""The model whose weights were trained elsewhere."""

_COMPARED = 100
"""Texts that two models must split into the same tokens."""


def base_release(
    task: Task[Any], trained: Learner, corpus: Corpus, vocabulary: Vocabulary | None, run: Run
) -> Release | None:
    """The model that somebody trained on, as it was before; None where nobody says which it was.

    Args:
        task: task with the trained model.
        trained: its learner.
        corpus: corpus that the task sees.
        vocabulary: vocabulary of the model that was trained.
        run: run whose diagnostics get `weights_of_base`, the share of weights that training did not
            move: 1 where nothing was trained, near 0 where another model is named.

    Raises:
        InputError: if the two models do not read texts alike.
    """
    model = task.model.before_training()
    if model is None:
        return None
    before = copy.copy(task)
    before.model = model
    read = before.vocabulary(corpus)
    texts = corpus.take(np.arange(min(len(corpus), _COMPARED))).texts
    if vocabulary is None or read is None or read.encode(texts) != vocabulary.encode(texts):
        raise InputError(
            f"{model.name}.base {model.params.pretrained!r} does not split texts into tokens as "
            f"{task.model.params.pretrained!r} does: it is another model, or its tokenizer changed"
        )
    (learner,) = before.stages(corpus, read, run)
    run.note(weights_of_base=_equal_share(trained.module, learner.module))
    release: Release = learner.release(learner.module.to(run.device).eval())
    return release


def _equal_share(one: nn.Module, other: nn.Module) -> float:
    """Share of the weights of a network that another one has too, at the same places."""
    other_weights = dict(other.named_parameters())
    # peft moves a weight that it adapts into `base_layer`; its own have no twin.
    names = [(name.replace(".base_layer", ""), each) for name, each in one.named_parameters()]
    weights = [(each, other_weights.get(name)) for name, each in names]
    same = sum(
        int((each == twin).sum()) for each, twin in weights
        if twin is not None and each.shape == twin.shape
    )  # fmt: skip
    return same / max(sum(each.numel() for each, _ in weights), 1)


def scored_rows(corpus: Corpus) -> Corpus:
    """The corpus of a model that was trained before, with test rows that it was not trained on.

    Rows of the split held_out stand in for a split test that is empty.
    """
    if corpus.where("test").any():
        return corpus
    return corpus.with_split(corpus.where("held_out"), "test")


def check_elsewhere(task: Task[Any], pipeline: Pipeline) -> None:
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
