"""Rows of words that are hard on characters, padding and transitions, beside ordinary ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from model_learners import ROWS, learner_of_model
from toy import cohort_of

from uedp_bench.training import device
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup, round_shares

BOUND, TIMES = 0.1, 3
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
        cohort = cohort_of([[row] for row in rows])
        cohort = cohort._replace(seeds=cohort.rows[None])  # a row has one seed in every cohort
        unit_sum = worker.unit_sum(work, Share(cohort, np.ones(len(rows))))
        assert set(unit_sum.clipping) == {ONE_PASS}, unit_sum.clipping
        return unit_sum.total.double()

    every = list(range(others))
    without = total(every)
    moved = [float((total([*every, others + at]) - without).norm()) for at in range(len(HOSTILE))]
    assert max(moved) <= BOUND
    assert max(moved) > 0.8 * BOUND


def test_rows_of_like_length_are_computed_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares then pad less, and what units add is the same."""
    learner = learner_of_model("words of bilstm", ROWS * 3)
    lengths = learner.row_lengths
    assert lengths is not None
    monkeypatch.setattr(device, "CACHED_NUMBERS", 6 * learner.row_size)
    units = np.arange(4 * len(ROWS))
    cohort = cohort_of(units[:, None])
    cohort = cohort._replace(seeds=cohort.rows[None])
    totals, padded = [], []
    for row_lengths in (lengths, None):
        learner.row_lengths = row_lengths
        setup: Any = {"device": "cpu", "seed": 1, "injected": (), "most": 64}
        worker = ShareWorker(WorkerSetup(learner, LocalTraining(), **setup))
        work = RoundWork(worker.trainer.flat.vector.clone(), Limits(BOUND))
        shares = list(round_shares(work, LocalTraining(), learner, cohort, np.ones(len(units)), 64))
        rows = [share.cohort.rows.reshape(-1) for share in shares]
        assert sorted(np.concatenate(rows).tolist()) == units.tolist()
        padded.append(sum(int(lengths[some].max()) * len(some) for some in rows))
        totals.append(sum(worker.unit_sum(work, share).total for share in shares))
    assert padded[0] < 0.6 * padded[1]
    torch.testing.assert_close(totals[0], totals[1], rtol=1e-4, atol=1e-6)
