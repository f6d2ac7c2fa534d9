"""Trains one stage of a task: the private one by the mechanism, public ones without noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uedp_bench.mechanism import Events, TrainingMechanism
from uedp_bench.training.plain import PlainTraining
from uedp_bench.training.public_stage import train_public

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.learner import Learner
    from uedp_bench.run import Run


def train_stage(
    learner: Learner, trainer: TrainingMechanism[Any], run: Run
) -> tuple[nn.Module, Events]:
    """The trained module and its events; a stage on public data has none."""
    if learner.private:
        return trainer.train(learner, learner.corpus, run)
    plan = learner.plan
    if plan is None:
        raise RuntimeError("a public stage needs a training plan")
    return train_public(PlainTraining(**plan), learner, run), ()
