"""Trainings that end in the same way wherever their units are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elsewhere import adaptive_plan

from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.run_context import Run
from uedp_bench.training.federated import train_federated

ROUNDS = {"rounds": 3, "users_per_round": 9}


def _adaptive(learner: Any, run: Run) -> Any:
    trained = train_federated(adaptive_plan(), learner, run)
    return trained.module, trained.rounds


def trained_by(mechanism: Any) -> Callable[[Any, Run], Any]:
    """Trains a learner by a mechanism, on its own corpus."""
    return lambda learner, run: mechanism.train(learner, learner.corpus, run)


TRAININGS: dict[str, Callable[[Any, Run], Any]] = {
    "user-dp": trained_by(UserDP.create({**ROUNDS, "local_epochs": 2, "local_batch_size": 1})),
    "two-level": trained_by(UeDPSpread.create({**ROUNDS, "noise_multiplier": 1.0})),
    "dp-sgd": trained_by(DPSGD.create({"steps": 3, "batch_size": 6})),
    "adaptive": _adaptive,
}
