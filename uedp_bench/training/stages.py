"""Trains one stage of a task: a private one by the mechanism, the others without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uedp_bench.errors import CapabilityError
from uedp_bench.mechanism import Events, TrainingMechanism
from uedp_bench.training.public_stage import train_public

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.learner import Learner
    from uedp_bench.run import Run


def train_stage(
    learner: Learner, trainer: TrainingMechanism[Any], run: Run
) -> tuple[nn.Module, Events]:
    """The trained module and its events; only a private stage has any.

    Raises:
        CapabilityError: if a stage that no mechanism trains has no schedule.
    """
    if learner.role == "private":
        return trainer.train(learner, learner.corpus, run)
    if learner.schedule is None:
        raise CapabilityError(f"a {learner.role} stage needs a schedule: no mechanism trains it")
    return train_public(learner.schedule, learner, run), ()
