"""A module with two names in a network: each way of training gives what torch's SGD gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners import NetworkLearner, by_torch
from torch import Tensor, nn
from toy import cohort_of

from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTrainer, LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup
from uedp_bench.training.vector import FlatModule

USERS = [[0], [1, 2, 3], [4, 5], [6, 7, 8], [9]]
BOUND = 0.3
STEPS = {
    "one step": LocalTraining(learning_rate=0.05),
    "several steps": LocalTraining(learning_rate=0.05, epochs=2, batch_size=2),
}


class Shared(nn.Module):
    """One linear layer below two parents, and its weight, turned, in a third module."""

    def __init__(self) -> None:
        super().__init__()
        layer, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.encoder, self.decoder = nn.Sequential(layer, nn.Tanh()), nn.Sequential(layer)
        self.tied = nn.Linear(4, 4)
        self.tied.weight = layer.weight

    def forward(self, values: Tensor) -> Tensor:
        out: Tensor = self.last(torch.tanh(self.tied(self.decoder(self.encoder(values)))))
        return out


def _learner(*, vectorised: bool) -> NetworkLearner:
    learner = NetworkLearner(10, vectorised)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        learner.module = Shared()
    return learner


def _cohort(units: list[list[int]], local: LocalTraining) -> Cohort:
    rng = np.random.default_rng(4)
    return cohort_of(units).drawn(local.epochs, local.batch_size, rng, rng)


def _by_torch(
    learner: NetworkLearner, theta: Tensor, cohort: Cohort, local: LocalTraining
) -> Tensor:
    """(units, d) what torch's SGD moves a copy of the network by, from weights (d,)."""
    alone = (cohort.take(np.array([unit])) for unit in range(len(cohort.rows)))
    return torch.stack([by_torch(learner, unit, local, theta) for unit in alone])


def _clipped(updates: Tensor) -> Tensor:
    norms = updates.norm(dim=1, keepdim=True)
    assert (norms > BOUND).any()
    return (updates * (BOUND / norms).clamp(max=1.0)).sum(dim=0)


@pytest.mark.parametrize("vectorised", [True, False], ids=["side by side", "one by one"])
@pytest.mark.parametrize("steps", list(STEPS))
def test_users_send_what_torch_trains_round_after_round(steps: str, vectorised: bool) -> None:
    learner, local = _learner(vectorised=vectorised), STEPS[steps]
    trainer, cohort = LocalTrainer(learner, local, "cpu"), _cohort(USERS, local)
    theta = trainer.flat.vector.clone()
    for _ in range(2):  # what a round leaves in the network would show in the next
        expected = _by_torch(learner, theta, cohort, local)
        updates = trainer.updates(theta, cohort)
        torch.testing.assert_close(updates, expected, rtol=1e-4, atol=1e-5)
        theta = theta + updates.mean(dim=0)


@pytest.mark.parametrize("units", [USERS, [[row] for row in range(10)]], ids=["users", "records"])
@pytest.mark.parametrize("fast", [True, False], ids=[ONE_PASS, "update by update"])
@pytest.mark.parametrize("vectorised", [True, False], ids=["side by side", "one by one"])
def test_sums_are_those_of_torch(units: list[list[int]], fast: bool, vectorised: bool) -> None:
    learner, local = _learner(vectorised=vectorised), STEPS["one step"]
    refusal = None if fast else "a test asks for it"
    worker = ShareWorker(WorkerSetup(learner, local, "cpu", 1, (), most=4, refusal=refusal))
    cohort, theta = _cohort(units, local), worker.trainer.flat.vector.clone()
    share = Share(cohort, np.ones(len(units)))
    for _ in range(2):
        unit_sum = worker.unit_sum(RoundWork(theta, Limits(BOUND)), share)
        assert (ONE_PASS in unit_sum.clipping) is fast
        expected = _clipped(_by_torch(learner, theta, cohort, local))
        torch.testing.assert_close(unit_sum.total, expected, rtol=1e-4, atol=1e-5)
        theta = theta + unit_sum.total / len(units)


def test_a_call_with_other_weights_leaves_the_network_its_own() -> None:
    learner = _learner(vectorised=True)
    flat = FlatModule(learner.module, "cpu")
    weights = flat.named(flat.vector + 1.0)
    places = flat.at_all_places(weights)
    assert set(places) == {*weights, "tied.weight"}  # and not the layer's second name
    before = list(flat.module.parameters())
    torch.func.functional_call(flat.module, places, (torch.ones(1, 4),), tie_weights=False)
    after = list(flat.module.parameters())
    assert all(new is old for new, old in zip(after, before, strict=True))
