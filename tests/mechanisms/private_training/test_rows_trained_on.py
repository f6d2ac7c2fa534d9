"""Mechanisms train on the rows of the split `train`: no guarantee speaks of any others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of

from uedp_bench.contracts.clients import users_of
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.private_training.dp_ftrl import DPFTRL
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP

ROWS, HELD_OUT = 12, 3
EVERYBODY = {"users": 9, "users_per_round": 9, "rounds": 2}
KINDS: dict[Any, dict[str, Any]] = {
    UserDP: EVERYBODY,
    UeDP: {**EVERYBODY, "sentences": 9, "sensitive_sentences": 0, "entities": 1},
    UeDPSpread: {**EVERYBODY, "noise_multiplier": 1.0},
    UeDPGroup: {"users": 9, "sampling_rate": 1.0, "rounds": 2, "noise_multiplier": 1.0},
    DPSGD: {"records": 9, "batch_size": 9, "steps": 2},
    DPFTRL: EVERYBODY,
    Noiseless: {"epochs": 2, "keep": "last"},
}


@pytest.mark.parametrize("kind", list(KINDS), ids=lambda kind: kind.name)
def test_rows_of_valid_are_not_trained_on(kind: Any) -> None:
    learner = NetworkLearner(ROWS, held_out=HELD_OUT)
    kind.create(KINDS[kind]).train(learner, learner.corpus, run_of(learner))
    assert sorted(set(learner.seen)) == list(range(ROWS - HELD_OUT))


def test_rows_of_valid_choose_among_epochs_and_teach_nothing() -> None:
    def trained(goal: float, **params: Any) -> torch.Tensor:
        learner = NetworkLearner(ROWS, held_out=HELD_OUT)
        learner.goals[ROWS - HELD_OUT :] = goal
        mechanism = Noiseless.create({"learning_rate": 0.1, **params})
        return flat(mechanism.train(learner, learner.corpus, run_of(learner))[0])

    epochs = [trained(0.0, epochs=count, keep="last") for count in (1, 2, 3)]
    chosen = set()
    for goal in (-1000.0, -10.0, 0.0, 10.0, 1000.0):
        kept = trained(goal, epochs=3)
        (epoch,) = (i for i, weights in enumerate(epochs) if torch.equal(kept, weights))
        chosen.add(epoch)
    assert len(chosen) > 1


def test_units_are_the_users_of_training_rows() -> None:
    learner = NetworkLearner(ROWS, held_out=HELD_OUT)
    units = users_of(learner.corpus)
    assert len(units) == ROWS - HELD_OUT
    assert sorted(units.rows.tolist()) == list(range(ROWS - HELD_OUT))
    assert np.all(units.counts == 1)
