"""Ranks of `torch.distributed` end where one process does, bound what it bounds, and end as one."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, learner_with_dropout, run_of
from toy import ToyLearner, cohort_of, toy_plan, toy_run

from uedp_bench.contracts.learner import Batch
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.transcript import MessageLog
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.federated_dp_sgd import FederatedDPSGD
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.training import executors
from uedp_bench.training.bounds import AdaptiveBound, Limits
from uedp_bench.training.executors import AcrossRanks, InProcess, deal
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation, RoundQuery
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import Cohort, PoissonSampler
from uedp_bench.training.unit_sums import RoundWork, Share, WorkerSetup

LOCAL = LocalTraining(epochs=2, batch_size=1, learning_rate=0.3)

ROUNDS = {"rounds": 3, "users_per_round": 9}

MECHANISMS: dict[str, Any] = {
    "user-dp": UserDP.create({**ROUNDS, "local_epochs": 2, "local_batch_size": 1}),
    "two-level": UeDPSpread.create({**ROUNDS, "noise_multiplier": 1.0}),
    "dp-sgd": DPSGD.create({"steps": 3, "batch_size": 6}),
    # Each client draws its rows and its noise for itself, on the rank that computes it.
    "federated-dp-sgd": FederatedDPSGD.create({"rounds": 2, "local_steps": 2, "batch_size": 2}),
}
TRAININGS = ("adaptive", *MECHANISMS)

FORKED = multiprocessing.get_context("fork")  # a fresh process would import torch for seconds
WAITING = "uedp-bench-rank"
"""Name of the processes that wait for rank 0."""


def _serve(settings: dict[str, Any]) -> None:
    with executors.connected(**settings):
        executors.serve()


@pytest.fixture(scope="module", params=[2, 3])
def team(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """This process is rank 0 of 2, and of 3."""
    store = tmp_path_factory.mktemp("ranks") / "store"
    size: int = request.param
    settings = {"init_method": f"file://{store}", "world_size": size}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads of torch do not survive a fork
    with pytest.MonkeyPatch.context() as patch:
        # A rank that is stuck fails the tests, where a run would wait for it for days.
        patch.setattr(executors, "_PATIENCE", timedelta(minutes=5))
        others = [
            FORKED.Process(
                target=_serve, args=({**settings, "rank": rank},), name=WAITING, daemon=True
            )
            for rank in range(1, size)
        ]
        for other in others:
            other.start()
        with executors.connected(**settings, rank=0):
            assert executors.world_size() == size
            yield size
            executors.broadcast(executors._End())
        for other in others:
            other.join(240)
            assert other.exitcode == 0
    torch.set_num_threads(threads)


def adaptive_plan(rounds: int = 4) -> Federation:
    """Six users of two rows each, a bound that moves, several local steps."""
    return toy_plan(
        np.arange(12) // 2, AdaptiveBound(0.5, 0.5, 5.0, 0.5, 2.0), rounds=rounds, local=LOCAL,
        sampler=PoissonSampler(6, 0.8), noise=IndependentGaussian(1.0), denominator=5.0,
    )  # fmt: skip


class OnAnotherRank(ToyLearner):
    """Does something wrong on every rank but 0."""

    def __init__(self, wrong: Callable[[], None]) -> None:
        super().__init__(np.ones((12, 3)), [row // 2 for row in range(12)])
        self.wrong = wrong

    def batch(self, rows: Any, seeds: Any) -> Batch:
        if multiprocessing.parent_process() is not None:
            self.wrong()
        return super().batch(rows, seeds)


def complain() -> None:
    """Refuses the input."""
    raise InputError("row 7 has no points")


def _trained(name: str) -> tuple[torch.Tensor, Any, Diary, Run]:
    learner = NetworkLearner(12)
    learner.points[7] = float("nan")
    clients = {"client": np.arange(12) % 4} if name == "federated-dp-sgd" else {}
    learner.corpus = replace(learner.corpus, groups={**learner.corpus.groups, **clients})
    diary = Diary(messages=MessageLog(keep=True, payload_rounds=1))
    run = run_of(learner)
    stats = replace(run.stats, clients=(0.25,) * 4 if clients else ())
    run = replace(run, stats=stats, injected=() if clients else (2, 5), diary=diary)
    if name == "adaptive":
        trained = train_federated(adaptive_plan(), learner, run)
        return flat(trained.module), trained.rounds, diary, run
    module, events = MECHANISMS[name].train(learner, learner.corpus, run)
    return flat(module), events, diary, run


@pytest.fixture(scope="module")
def alone() -> dict[str, tuple[torch.Tensor, Any, Diary, Run]]:
    """Trainings of one process."""
    with executors.alone():  # tests that run in another order have a team already
        assert executors.world_size() == 1
        return {name: _trained(name) for name in TRAININGS}


@pytest.mark.parametrize("name", TRAININGS)
def test_weights_events_and_counts_are_those_of_one_process(
    alone: dict[str, tuple[torch.Tensor, Any, Diary, Run]], team: int, name: str
) -> None:
    (expected, their_events, theirs, before), (weights, events, ours, run) = (
        alone[name],
        _trained(name),
    )
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)
    assert events == their_events
    assert ours.counts == theirs.counts
    # A user whose data are no numbers is dropped there as here, and canaries are put in place.
    counted = ("dropped_updates", "dropped_rows", "injected_updates", "clipped_units")
    for key in counted:
        assert run.diagnostics.get(key) == before.diagnostics.get(key)
    dropped = run.diagnostics.get("dropped_rows" if name == "two-level" else "dropped_updates", 0)
    assert dropped > 0 or name == "federated-dp-sgd"  # whose clients may leave the row out
    mine, other = ours.messages.closed(), theirs.messages.closed()
    assert (mine is None) == (other is None) == (name in ("dp-sgd", "adaptive"))
    if mine is None or other is None:
        return
    for sent, as_sent in zip(mine.sent, other.sent, strict=True):  # by the same user, the same
        assert sent._replace(payload=None) == as_sent._replace(payload=None)
        if as_sent.payload is not None:
            np.testing.assert_allclose(sent.payload, as_sent.payload, rtol=1e-5, atol=1e-6)


def _round(points: Any) -> tuple[WorkerSetup, RoundWork, Cohort]:
    """Users of two rows each, who send what they will."""
    rows = np.arange(len(points))
    learner = ToyLearner(points, (rows // 2).tolist(), vectorised=False)
    setup = WorkerSetup(learner, LOCAL, "cpu", seed=1, injected=(), most=4)
    rng = np.random.default_rng(3)
    cohort = cohort_of(rows.reshape(-1, 2)).drawn(2, 1, rng, rng)
    return setup, RoundWork(torch.zeros(points.shape[1]), Limits(total=0.5)), cohort


def test_no_user_moves_the_sum_of_all_ranks_by_more_than_the_bound(team: int) -> None:
    points = np.random.default_rng(5).normal(size=(14, 3)) * np.geomspace(1e-2, 1e18, 14)[:, None]
    setup, work, cohort = _round(points)
    users = np.arange(7)
    with AcrossRanks(setup) as executor:

        def total(kept: np.ndarray) -> torch.Tensor:
            shares = [Share(cohort.take(kept[part]), np.ones(len(part)))
                      for part in np.array_split(np.arange(len(kept)), 3)]  # fmt: skip
            return executor.unit_sum(work, shares).total.double()

        whole = total(users)
        for user in users:
            moved = float((whole - total(users[users != user])).norm())
            assert moved <= 0.5 * (1 + 1e-6)
            assert moved > 0.49 or user == 0
        nobody = executor.unit_sum(work, [])
        assert torch.equal(nobody.total, torch.zeros(3)) and nobody.units == 0


def test_noise_is_drawn_once(team: int) -> None:
    def trained() -> torch.Tensor:
        learner = ToyLearner(np.zeros((12, 4_000)), [row // 2 for row in range(12)])
        plan = adaptive_plan(rounds=1)  # nobody has anything to send: what moves is noise
        return flat(train_federated(plan, learner, toy_run()).module)

    weights = trained()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "world_size", lambda: 1)
        assert torch.equal(weights, trained())
    # The bound 0.5 and the count are hidden together: a little more than 0.5 over 5.
    plan = adaptive_plan()
    query = RoundQuery(plan.bound.limits(0, ()), plan.weight_bound, plan.noise.multiplier)
    assert float(weights.double().std()) == pytest.approx(query.sensitivity / 5.0, rel=0.05)


def test_units_are_dealt_once_each_and_all_ranks_have_some() -> None:
    _, _, cohort = _round(np.ones((22, 2)))
    shares = [Share(cohort.take(part), part + 1.0) for part in (np.arange(1), np.arange(1, 11))]
    for size in (1, 2, 3, 4, 20):
        dealt = deal(shares, size)
        assert len(dealt) == size
        parts = sorted((part for rank in dealt for part in rank), key=lambda part: part[0])
        weights = np.concatenate([share.weights for _, share in parts])
        assert weights.tolist() == list(range(1, 12))
        assert sum(bool(rank) for rank in dealt) == min(size, 11)
        first = np.concatenate([share.cohort.rows[:, 0] for _, share in parts])
        assert first.tolist() == [2 * unit for unit in range(11)]


def test_an_error_on_a_rank_is_one_error_and_the_next_training_runs(team: int) -> None:
    with pytest.raises(InputError, match="row 7"):
        train_federated(adaptive_plan(), OnAnotherRank(complain), toy_run())
    with pytest.raises(InputError, match="rank"):
        train_federated(adaptive_plan(), OnAnotherRank(lambda: None), toy_run())
    setup, work, cohort = _round(np.ones((8, 2)))
    shares = [Share(cohort, np.ones(4))]
    with AcrossRanks(setup) as executor:
        unit_sum = executor.unit_sum(work, shares)
    expected = InProcess(setup).unit_sum(work, shares)
    torch.testing.assert_close(unit_sum.total, expected.total)
    assert (unit_sum.units, unit_sum.rows, unit_sum.clipped) == (4, 8, expected.clipped)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_ranks_that_wait_take_no_processor_time(team: int) -> None:
    others = [child.pid for child in multiprocessing.active_children() if child.name == WAITING]
    assert len(others) == team - 1

    def ticks() -> int:
        stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in others)
        return sum(int(ticks) for stat in stats for ticks in stat.split()[11:13])

    most, spent = 0.1 * os.sysconf("SC_CLK_TCK") * len(others), []
    while not spent or spent[-1] > most:  # the first seconds may be of what they did before
        assert len(spent) < 30, spent
        before = ticks()
        time.sleep(1.0)  # as rank 0 attacks
        spent.append(ticks() - before)


@pytest.mark.parametrize("model", ["awd-lstm", "bilstm"])
def test_learners_of_tasks_can_be_sent(model: str) -> None:
    learner = learner_with_dropout(model)
    again = pickle.loads(pickle.dumps(learner))  # noqa: S301
    rows, seeds = np.array([0, 3]), np.array([5, 6])
    for name, value in learner.batch(rows, seeds).items():
        assert torch.equal(value, again.batch(rows, seeds)[name])
