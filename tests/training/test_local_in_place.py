"""Users that train alone, whose weights move in place: what each sends is its own, and bounded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners import by_torch
from model_learners import MODELS, USERS, learner_of_model
from torch import Tensor
from toy import cohort_of

from uedp_bench.contracts.learner import Batch, Learner
from uedp_bench.training.bounds import Limits
from uedp_bench.training.local import LocalTrainer, LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

LOCAL = LocalTraining(epochs=2, batch_size=2, learning_rate=0.5)
TRAINED = ("gpt2", "gpt2, adapters", "cifg-lstm", "awd-lstm", "transformer-small", "words of bert")
BOUND = 0.05


def _learner(name: str) -> Learner:
    learner = learner_of_model(name)
    learner.vectorised = False
    return learner


def _cohort(seed: int = 3) -> Cohort:
    rng = np.random.default_rng(seed)
    return cohort_of(USERS).drawn(LOCAL.epochs, LOCAL.batch_size, rng, rng)


@pytest.mark.parametrize("name", [name for name in TRAINED if name in MODELS])
def test_each_user_sends_what_torch_trains_whoever_was_before(name: str) -> None:
    learner, cohort = _learner(name), _cohort()
    trainer = LocalTrainer(learner, LOCAL, "cpu")
    theta = trainer.flat.vector.clone()
    updates = trainer.updates(theta, cohort)
    for unit in range(len(USERS)):
        alone = cohort.take(np.array([unit]))
        expected = by_torch(learner, alone, LOCAL)
        torch.testing.assert_close(updates[unit], expected, rtol=1e-3, atol=1e-5)
        assert float(expected.norm()) > 0.001
    again = trainer.updates(theta, cohort.take(np.array([3, 0])))
    assert torch.equal(again, updates[[3, 0]])  # to the last bit, in another order, with others


def _sum(learner: Learner, units: list[int]) -> Tensor:
    """What units add to a round, the users' numbers kept."""
    setup = WorkerSetup(learner, LOCAL, "cpu", seed=1, injected=(), most=4)
    worker = ShareWorker(setup)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(total=BOUND))
    cohort = _cohort().take(np.array(units))
    return worker.unit_sum(work, Share(cohort, np.ones(len(units)))).total.double()


def test_no_user_moves_the_sum_by_more_than_the_bound() -> None:
    learner = _learner("gpt2")
    everybody = list(range(len(USERS)))
    whole = _sum(learner, everybody)
    for user in everybody:
        change = whole - _sum(learner, [other for other in everybody if other != user])
        assert 0.99 * BOUND <= float(change.norm()) <= BOUND * (1 + 1e-5)


def test_a_user_that_is_not_finite_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = _learner("gpt2")
    expected = _sum(learner, [1, 2])
    right = learner.losses

    def spoilt(module: torch.nn.Module, batch: Batch):  # type: ignore[no-untyped-def]
        losses = right(module, batch)
        longest = losses.targets > 60  # row 6, of the user 3
        return losses._replace(nats=losses.nats * torch.where(longest, torch.inf, 1.0))

    monkeypatch.setattr(learner, "losses", spoilt)
    torch.testing.assert_close(_sum(learner, [3, 1, 2]), expected)
