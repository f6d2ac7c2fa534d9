"""Mechanisms train on the rows of the split `train`: no guarantee speaks of any others."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from learners import NetworkLearner, flat, run_of

from uedp_bench.contracts.clients import users_of
from uedp_bench.mechanisms.noiseless import Noiseless

ROWS, HELD_OUT = 12, 3


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
