"""Trains one stage of a task: a private one by its mechanism, the others without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uedp_bench.training.plain import train_plain
from uedp_bench.training.public_stage import train_public

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.learner import Learner
    from uedp_bench.mechanism import Events, TrainingMechanism
    from uedp_bench.run_context import Run


def train_privately(
    learner: Learner, trainer: TrainingMechanism[Any], run: Run
) -> tuple[nn.Module, Events]:
    """The module as the mechanism of a private stage trained it, and what happened."""
    return trainer.train(learner, learner.corpus, run)


def train_plainly(learner: Learner, run: Run, *, keep: bool) -> nn.Module:
    """The module after a stage that no mechanism trains, in evaluation mode; it has no events.

    Args:
        learner: of a public or a downstream stage, with its schedule.
        run: the order of rows is that of its seed, the same for all mechanisms.
        keep: no private row was seen before, so that other runs may read what a public stage
            trained.
    """
    if learner.schedule is None:
        raise RuntimeError(f"a {learner.role} stage was checked to have a schedule")
    if learner.role == "public":
        return train_public(learner.schedule, learner, run, keep=keep)
    rng = run.shared(learner.role, "batches")
    return train_plain(learner.schedule, learner, run, phase=learner.role, rng=rng)
