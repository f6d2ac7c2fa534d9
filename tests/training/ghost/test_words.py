"""Rows of words that are hard on characters, padding and transitions, beside ordinary ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from model_learners import ROWS, learner_of_model

from uedp_bench.training.bounds import Limits
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.unit_sums import ONE_PASS, RoundWork, Share, ShareWorker, WorkerSetup

BOUND, TIMES = 0.1, 8
HOSTILE = [
    " ".join(["w2"] * 60),  # the same word, each time an entity
    " ".join(["a" * 400] * 60),
    " ".join(f"\u4e2d{i}" for i in range(60)),  # words that nobody knows, of unknown characters
    " ".join(f"w{i % 9}" for i in range(120)),
    "w3",
]


@pytest.mark.parametrize("name", ["words of bilstm", "words of bilstm, crf"])
@pytest.mark.parametrize("limits", [Limits(BOUND), Limits(BOUND, rows=BOUND)])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_hostile_row_moves_the_sum_by_its_bound_at_most(
    name: str, limits: Limits, scale: float
) -> None:
    """It changes how far all others are padded too, and the way to their norms."""
    others = TIMES * len(ROWS)
    learner = learner_of_model(name, [*ROWS * (TIMES - 1), *HOSTILE])
    with torch.no_grad():
        for weight in learner.module.parameters():
            weight.mul_(scale)
    learner.module.train()
    setup: Any = {"device": "cpu", "seed": 1, "injected": (), "most": 64}
    worker = ShareWorker(WorkerSetup(learner, LocalTraining(), **setup))
    work = RoundWork(worker.trainer.flat.vector.clone(), limits)

    def total(rows: list[int]) -> Any:
        units = np.arange(len(rows))
        cohort = Cohort.build(units, np.array(rows), np.ones(len(rows)), len(rows))
        cohort = cohort._replace(seeds=cohort.rows[None])  # a row has one seed in every cohort
        found = worker.unit_sum(work, Share(cohort, np.ones(len(rows))))
        assert set(found.clipping) == {ONE_PASS}, found.clipping
        return found.total.double()

    every = list(range(others))
    without = total(every)
    moved = [float((total([*every, others + at]) - without).norm()) for at in range(len(HOSTILE))]
    assert max(moved) <= BOUND
    assert max(moved) > 0.8 * BOUND
