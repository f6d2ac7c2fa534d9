"""Trainings whose weights are spread over ranks end where one process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from elsewhere import InAnotherProcess, complain
from learners import NetworkLearner, flat, run_of
from model_learners import STATS, learner_of_model
from torch import nn
from toy import ToyLearner, toy_run
from trainings import trained_by

from uedp_bench import rank_group
from uedp_bench.checkpoints import Checkpoints, Pace
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.cyclic import Cyclic
from uedp_bench.mechanisms.private_training.dp_ftrl import DPFTRL
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
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

USERS = {"rounds": 3, "users_per_round": 9}
TRAININGS: dict[str, Callable[[Any, Run], Any]] = {
    "dp-sgd": trained_by(DPSGD.create({"steps": 3, "batch_size": 6})),
    "adaptive": trained_by(DPSGD.create({"steps": 3, "batch_size": 6, "clip_policy": "adaptive"})),
    "per-layer": trained_by(UserDP.create({**USERS, "clip_policy": "per-layer"})),
    "user-dp": trained_by(UserDP.create({**USERS, "server_optimizer": "yogi"})),
    "uedp-group": trained_by(UeDPGroup.create({"rounds": 3, "noise_multiplier": 1.0})),
    "lamb": trained_by(DPSGD.create({"steps": 3, "batch_size": 6, "optimizer": "lamb"})),
}


def _run(learner: Any, *, sharded: bool) -> Run:
    return replace(run_of(learner), speed=Speed(shard_weights=sharded))


def _learner() -> NetworkLearner:
    learner = NetworkLearner(12)
    learner.points[7] = float("nan")
    return learner


@pytest.mark.parametrize("name", list(TRAININGS))
def test_weights_events_and_counts_are_those_of_one_process(team: int, name: str) -> None:
    with rank_group.by_itself():
        alone = _run(_learner(), sharded=False)
        expected, their_events = TRAININGS[name](_learner(), alone)
    run = _run(_learner(), sharded=True)
    found, events = TRAININGS[name](_learner(), run)
    torch.testing.assert_close(flat(found), flat(expected), rtol=1e-5, atol=1e-6)
    assert events == their_events
    for key in ("dropped_updates", "clipped_fraction"):
        assert run.diagnostics.get(key) == alone.diagnostics.get(key)
    for key in ("signal_to_noise", "sum_norm", "noise_norm"):
        assert run.diagnostics[key] == pytest.approx(alone.diagnostics[key], rel=1e-5)
    assert run.series.keys() == alone.series.keys()


MODELS = ("cifg-lstm", "gpt2, adapters", "words of bilstm, crf")


@pytest.mark.parametrize("name", MODELS)
def test_networks_are_trained_as_in_one_process_and_no_rank_holds_one(team: int, name: str) -> None:
    if name == "gpt2, adapters" and team > 2:
        pytest.skip("computed with two ranks: it takes seconds")
    train = trained_by(UserDP.create({"rounds": 1, "users_per_round": 4, "clip": 1.0}))
    learner = learner_of_model(name)
    with rank_group.by_itself():
        expected, _ = train(learner, Run(2, STATS))
    run = Run(2, STATS, speed=Speed(shard_weights=True))
    found, _ = train(learner, run)
    start = flat(learner.module)
    assert float((flat(expected) - start).norm()) > 0.1
    torch.testing.assert_close(flat(found), flat(expected), rtol=1e-5, atol=2e-6)
    # Each rank holds its part, and gathers a layer at a time.
    sizes = [4 * weight.numel() for weight in learner.module.parameters()]
    assert run.counts["shard_bytes"] <= sum(sizes) / team + 4 * len(sizes)
    layers: dict[str, int] = {}
    for place, weight in learner.module.named_parameters():
        owner = place.rpartition(".")[0]
        layers[owner] = layers.get(owner, 0) + 4 * (weight.numel() + team)
    assert (
        0
        < run.counts["gathered_bytes"]
        <= max(layers.values())
        + 4 * max(weight.shape[0] + team for weight in learner.module.parameters())
    )
    assert run.counts["gathered_bytes"] < sum(sizes)


def _sum(points: Any, users: np.ndarray, kept: np.ndarray, clip: float) -> torch.Tensor:
    """What some users add up to: the weights after one round without noise."""
    learner = ToyLearner(points[kept], users[kept].tolist(), vectorised=False)
    everybody = PoissonSampler(len(set(users[kept])), 1.0)
    how = Federation(
        rounds=1, units=users_of(learner.corpus), sampler=everybody,
        local=LocalTraining(), bound=FlatBound(clip), noise=IndependentGaussian(0.0),
        denominator=1.0, server=SgdServer(),
    )  # fmt: skip
    run = replace(toy_run(), speed=Speed(shard_weights=True))
    return flat(train_federated(how, learner, run).module).double()


def test_no_user_moves_the_sum_of_all_parts_by_more_than_the_bound(team: int) -> None:
    points = np.random.default_rng(5).normal(size=(12, 5)) * np.geomspace(1e-2, 1e18, 12)[:, None]
    users = np.arange(12) // 2
    every = np.arange(12)
    whole = _sum(points, users, every, 0.5)
    assert float(whole.norm()) > 0.5
    # Who is alone keeps all ranks busy, and counts once.
    assert float(_sum(points, users, every[users == 4], 0.5).norm()) == pytest.approx(0.5, rel=1e-5)
    for user in range(6):
        moved = float((whole - _sum(points, users, every[users != user], 0.5)).norm())
        assert moved <= 0.5 * (1 + 1e-6)
        assert user < 3 or moved > 0.4  # who is that long is clipped, not dropped


def test_noise_is_that_of_one_process_to_its_last_number(team: int) -> None:
    points = np.zeros((6, 3001))
    points[:, 0] = np.arange(1, 7)
    how = Federation(
        rounds=1, units=users_of(ToyLearner(points, range(6)).corpus),
        sampler=PoissonSampler(6, 1.0), local=LocalTraining(), bound=FlatBound(0.5),
        noise=IndependentGaussian(3.0), denominator=2.0, server=SgdServer(),
    )  # fmt: skip

    def moved(*, sharded: bool) -> torch.Tensor:
        run = replace(toy_run(), speed=Speed(shard_weights=sharded))
        return flat(train_federated(how, ToyLearner(points, range(6)), run).module)

    found = moved(sharded=True)
    with rank_group.by_itself():
        expected = moved(sharded=False)
    # All numbers but the first are noise alone: of deviation 3 * 0.5 / 2.
    assert torch.equal(found[1:], expected[1:])
    assert float(found[1:].std()) == pytest.approx(0.75, rel=0.05)
    assert len(set(found[1:].tolist())) > 2990  # no part has the noise of another


class _ByLength:
    """A server of somebody else's, whose steps are as long as all weights."""

    def step(self, theta: torch.Tensor, estimate: torch.Tensor, *_: int) -> torch.Tensor:
        return theta + theta.norm() * estimate


class _ByLengthAndSgd(_ByLength, SgdServer):
    """The same, of a kind whose steps are weight by weight."""

    weightwise = False


class _OfBefore(SgdServer):
    """A server whose `lay_out` takes whole weights alone: it fails on every rank."""

    def lay_out(self, sizes: Sequence[int]) -> None:
        raise AssertionError("called with parts")


def test_what_cannot_be_sharded_is_refused_with_what_can(team: int) -> None:
    learner = _learner()
    correlated = DPFTRL.create({"rounds": 4, "users_per_round": 2})
    with pytest.raises(InputError, match=r"--shard-weights: .*earlier rounds.*possible are local"):
        trained_by(correlated)(learner, _run(learner, sharded=True))
    how = Federation(
        rounds=1, units=users_of(learner.corpus), sampler=PoissonSampler(12, 1.0),
        local=LocalTraining(), bound=FlatBound(0.5), noise=IndependentGaussian(0.0),
        denominator=1.0, server=_ByLength(),
    )  # fmt: skip
    for server in (_ByLength(), _ByLengthAndSgd()):
        said = f"{type(server).__name__} does not say that parts .* may step alone"
        with pytest.raises(InputError, match=said):
            train_federated(replace(how, server=server), learner, _run(learner, sharded=True))
    for _ in range(2):  # the ranks are there for the next training
        with pytest.raises(TypeError, match="lay_out"):
            train_federated(replace(how, server=_OfBefore()), learner, _run(learner, sharded=True))
    with pytest.raises(InputError, match="Whole, which makes whole updates"):
        train_federated(replace(how, local=_Whole()), learner, _run(learner, sharded=True))


class _Whole:
    """Local work of somebody else's."""

    epochs, batch_size = 1, None

    def trainer(self, learner: Any, device: str) -> Any:
        raise AssertionError("refused before training")


def _clients() -> tuple[NetworkLearner, Run]:
    learner = _learner()
    groups = {**learner.corpus.groups, "client": np.arange(12) % 4}
    learner.corpus = replace(learner.corpus, groups=groups)
    run = _run(learner, sharded=True)
    return learner, replace(run, stats=replace(run.stats, clients=(0.25,) * 4))


def test_audits_are_refused_and_so_is_a_single_rank(team: int) -> None:
    train = TRAININGS["user-dp"]
    run = replace(_run(_learner(), sharded=True), injected=(2,))
    with pytest.raises(InputError, match="an audit replaces whole updates"):
        train(_learner(), run)
    travels = trained_by(Cyclic.create({}))
    with pytest.raises(InputError, match="--shard-weights: the whole network travels"):
        travels(*_clients())
    with rank_group.by_itself(), pytest.raises(InputError, match="start the run with torchrun"):
        train(_learner(), _run(_learner(), sharded=True))


MARK = 77.0


class _ByContent(nn.Module):
    """Uses one weight twice where it meets a certain row."""

    def __init__(self) -> None:
        super().__init__()
        self.onward, self.out = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        for _ in range(1 + int((points[:, 0] == MARK).any())):
            points = torch.tanh(self.onward(points))
        return self.out(points)


def test_networks_that_cannot_be_sharded_are_refused_and_ranks_stay(team: int) -> None:
    learner = NetworkLearner(12)
    learner.module = _ByContent()
    learner.points[11, 0] = MARK
    train = trained_by(DPSGD.create({"steps": 3, "batch_size": 12}))
    with pytest.raises(InputError, match="order in which the network uses its weights"):
        train(learner, _run(learner, sharded=True))
    TRAININGS["dp-sgd"](_learner(), _run(_learner(), sharded=True))  # the ranks go on


def test_what_goes_wrong_on_another_rank_is_raised_here(team: int) -> None:
    learner = InAnotherProcess(complain)
    how = Federation(
        rounds=2, units=users_of(learner.corpus), sampler=PoissonSampler(6, 1.0),
        local=LocalTraining(), bound=FlatBound(0.5), noise=IndependentGaussian(1.0),
        denominator=2.0, server=SgdServer(),
    )  # fmt: skip
    run = replace(toy_run(), speed=Speed(shard_weights=True))
    with pytest.raises(InputError, match="row 7 has no points"):
        train_federated(how, learner, run)
    TRAININGS["dp-sgd"](_learner(), _run(_learner(), sharded=True))


def test_a_training_goes_on_from_its_checkpoint(team: int, tmp_path: Path) -> None:
    train = TRAININGS["dp-sgd"]

    def run(folder: str) -> Run:
        kept = Checkpoints(tmp_path / folder, lambda: {"what": "this"}, Pace(seconds=0, steps=1))
        return replace(_run(_learner(), sharded=True), checkpoints=kept)

    expected, _ = train(_learner(), run("whole"))

    class KilledError(Exception):
        pass

    def kill(phase: str, done: int, total: int) -> None:
        if done == 3:
            raise KilledError

    with pytest.raises(KilledError):
        train(_learner(), replace(run("again"), progress=kill))
    found, _ = train(_learner(), run("again"))
    assert torch.equal(flat(found), flat(expected))
