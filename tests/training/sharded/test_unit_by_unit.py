"""Units that take several steps, whose own weights are in parts too, move as in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of
from model_learners import STATS, learner_of_model
from torch import nn
from toy import ToyLearner, toy_run
from trainings import trained_by

from uedp_bench import rank_group
from uedp_bench.mechanisms.fedavg import FedAvg
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.private_training.users import users_of
from uedp_bench.run_context import Run, Speed
from uedp_bench.training.bounds import FlatBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler
from uedp_bench.training.server import SgdServer

USERS = {"rounds": 1, "users_per_round": 3, "local_learning_rate": 0.05}
STEPS = {**USERS, "local_epochs": 2, "local_batch_size": 2}


class _Squared(nn.Module):
    """Uses a weight in a way that no rule for gradients by row knows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4)[:2].clone())

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        return points @ (self.weight**2).t()


def _learner(network: type[nn.Module] | None = None) -> NetworkLearner:
    """Four users of one, two, two and four rows; a row of the second is not finite."""
    learner = NetworkLearner(9)
    groups = {"user": np.repeat(np.arange(4), [1, 2, 2, 4])}
    learner.corpus = replace(learner.corpus, groups=groups)
    learner.points[2] = float("nan")
    if network is not None:
        learner.module = network()
    return learner


def _clipped_locally(learner: Any, run: Run) -> Any:
    how = _federation(learner, LocalTraining(2, 2, 0.05, gradient_clip=0.2, reduction="sum"), 9.0)
    trained = train_federated(how, learner, run)
    return trained.module, trained.rounds


def _federation(learner: Any, local: LocalTraining, clip: float) -> Federation:
    units = users_of(learner.corpus)
    return Federation(
        rounds=1, units=units, sampler=PoissonSampler(len(units.counts), 1.0), local=local,
        bound=FlatBound(clip), noise=IndependentGaussian(0.0), denominator=1.0, server=SgdServer(),
    )  # fmt: skip


Case = tuple[Callable[[Any, Run], Any], type[nn.Module] | None]
CASES: dict[str, Case] = {
    "per-layer": (trained_by(UserDP.create({**STEPS, "clip_policy": "per-layer"})), None),
    "adaptive, lamb": (
        trained_by(
            UserDP.create(
                {**STEPS, "rounds": 2, "clip_policy": "adaptive", "server_optimizer": "lamb"}
            )
        ),
        None,
    ),
    "Adam": (trained_by(UserDP.create({**USERS, "local_optimizer": "adam"})), None),
    "momentum": (trained_by(UserDP.create({**STEPS, "local_momentum": 0.5})), None),
    "gradient clip": (_clipped_locally, None),
    "fedavg": (trained_by(FedAvg.create({**STEPS, "users_per_round": 4})), None),
    "unknown use": (trained_by(UserDP.create({**USERS, "clip": 20.0})), _Squared),
    "unknown use, two levels": (
        trained_by(UeDPSpread.create({**USERS, "noise_multiplier": 1.0})),
        _Squared,
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_weights_events_and_counts_are_those_of_one_process(team: int, name: str) -> None:
    if team == 2 and name not in ("per-layer", "fedavg", "unknown use, two levels"):
        pytest.skip("computed with three ranks")
    train, network = CASES[name]
    with rank_group.by_itself():
        alone = run_of(_learner())
        expected, their_events = train(_learner(network), alone)
    run = replace(run_of(_learner()), speed=Speed(shard_weights=True))
    found, events = train(_learner(network), run)
    start = flat(_learner(network).module)
    assert float((flat(expected) - start).norm()) > 1e-2
    torch.testing.assert_close(flat(found), flat(expected), rtol=1e-5, atol=1e-6)
    assert events == their_events
    assert run.diagnostics["dropped_updates"] == alone.diagnostics["dropped_updates"]
    for key in ("clipped_fraction", "dropped_rows", "clipping"):
        assert run.diagnostics.get(key) == alone.diagnostics.get(key)
    assert run.series.keys() == alone.series.keys()
    for key, values in alone.series.items():
        np.testing.assert_allclose(run.series[key], values, rtol=1e-4)


def test_a_network_with_dropout_takes_the_same_steps(team: int) -> None:
    learner = learner_of_model("awd-lstm")
    params = {"rounds": 1, "users_per_round": 2, "clip": 1.0, "local_epochs": 2}
    train = trained_by(UserDP.create({**params, "local_batch_size": 2}))
    with rank_group.by_itself():
        expected, _ = train(learner, Run(2, STATS))
    run = Run(2, STATS, speed=Speed(shard_weights=True))
    found, _ = train(learner, run)
    assert float((flat(expected) - flat(learner.module)).norm()) > 0.1
    torch.testing.assert_close(flat(found), flat(expected), rtol=1e-5, atol=2e-6)
    sizes = [4 * weight.numel() for weight in learner.module.parameters()]
    assert run.counts["shard_bytes"] <= sum(sizes) / team + 4 * len(sizes)
    assert 0 < run.counts["gathered_bytes"] < sum(sizes)


def _sum(points: Any, users: np.ndarray, kept: np.ndarray) -> torch.Tensor:
    """What some users add up to, each clipped to 0.5: the weights after one round without noise."""
    learner = ToyLearner(points[kept], users[kept].tolist(), vectorised=False)
    how = _federation(learner, LocalTraining(2, None, 0.5, momentum=0.5), 0.5)
    run = replace(toy_run(), speed=Speed(shard_weights=True))
    return flat(train_federated(how, learner, run).module).double()


def test_a_user_adds_the_bound_at_most_and_the_same_whoever_is_beside_it(team: int) -> None:
    points = np.random.default_rng(5).normal(size=(11, 5)) * np.geomspace(1e-2, 1e18, 11)[:, None]
    points[5] = np.inf
    users, every = np.arange(11) // 2, np.arange(11)
    together = _sum(points, users, every)
    added = [_sum(points, users, every[users == user]) for user in range(6)]
    lengths = [float(one.norm()) for one in added]
    assert max(lengths) <= 0.5 * (1 + 1e-6)
    assert lengths[3:] == pytest.approx([0.5] * 3, rel=1e-5)  # so long: clipped, not dropped
    assert 0 < lengths[0] < 0.5
    assert lengths[2] == 0.0  # not finite
    # So whoever leaves takes with it what it adds alone, and no more.
    torch.testing.assert_close(sum(added), together, rtol=1e-6, atol=1e-6)
