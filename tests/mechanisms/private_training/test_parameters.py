"""Flat, per-layer and adaptive clipping by the mechanisms: sensitivity, noise, plans, refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of
from torch import Tensor
from toy import ToyLearner

from uedp_bench.accounting.ledger import check_plan
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.parameters import FederatedParams
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.training.noise import GaussianNoise, IndependentGaussian

UNITS, NOISE, CLIP = 8, 1.5, 0.4
ROUNDING = 3e-6
USERS = {"users": UNITS, "users_per_round": UNITS, "rounds": 2, "clip": CLIP}
ROWS = {"clip": CLIP, "noise_multiplier": NOISE}
# Everybody takes part in every round, so that one unit's whole influence is seen.
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "user-dp": (UserDP, {**USERS, "noise_multiplier": NOISE}),
    "user-dp fixed": (UserDP, {**USERS, "noise_multiplier": NOISE, "sampling": "fixed"}),
    "uedp-spread": (UeDPSpread, {**USERS, "noise_multiplier": NOISE, "clipping": "one-level"}),
    "uedp": (UeDP, {**USERS, "entities": 1, "sentences": UNITS, "sensitive_sentences": 0}),
    "uedp-group": (
        UeDPGroup,
        {**ROWS, "users": UNITS, "rounds": 2, "sampling_rate": 1.0, "server_optimizer": "sgd"},
    ),
    "dp-sgd": (DPSGD, {**ROWS, "records": UNITS, "batch_size": UNITS, "steps": 2}),
}
POLICIES = ["flat", "per-layer", "adaptive"]
WORST = [1e-3, 0.41, 1e6, 1e25, math.nan]


def _mechanism(kind: str, **changes: Any) -> TrainingMechanism[Any]:
    of, params = KINDS[kind]
    mechanism: TrainingMechanism[Any] = of.create({**params, **changes})
    return mechanism


def _learner(units: int = UNITS, size: float = 1.0) -> NetworkLearner:
    learner = NetworkLearner(UNITS)
    learner.goals[-1] *= size  # the last user sends what hurts most
    learner.points[-1] *= min(size, 1e10)
    learner.corpus = learner.corpus.take(np.arange(units))
    return learner


@contextmanager
def _answering() -> Iterator[list[tuple[Tensor, float]]]:
    """What rounds hand to the noise; each is answered by the same numbers, whatever it holds."""
    answers: list[tuple[Tensor, float]] = []

    def add(
        self: IndependentGaussian, vector: Tensor, sensitivity: float, step: int, rng: Any
    ) -> Tensor:
        answers.append((vector.clone().double(), sensitivity))
        real(self, vector, sensitivity, step, rng)
        return torch.full_like(vector, 0.25)

    real = IndependentGaussian.add
    with patch.object(IndependentGaussian, "add", add):
        yield answers


def _handed(mechanism: TrainingMechanism[Any], learner: Any) -> list[tuple[Tensor, float]]:
    with _answering() as answers:
        mechanism.train(learner, learner.corpus, run_of(learner))
    return answers


@cache
def _handed_by_a_neighbour(kind: str, policy: str) -> list[tuple[Tensor, float]]:
    """Without one unit; where the number of users is fixed, with it replaced."""
    fewer = _learner(size=-1.0) if "fixed" in kind else _learner(UNITS - 1)
    return _handed(_mechanism(kind, clip_policy=policy), fewer)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("size", WORST)
def test_one_unit_moves_what_the_noise_hides_by_no_more_than_the_noise_is_scaled_to(
    kind: str, policy: str, size: float
) -> None:
    whole = _handed(_mechanism(kind, clip_policy=policy), _learner(size=size))
    other, times = _handed_by_a_neighbour(kind, policy), 2.0 if "fixed" in kind else 1.0
    assert len(whole) == len(other) == 2
    for (vector, sensitivity), (less, same) in zip(whole, other, strict=True):
        assert sensitivity == same
        assert torch.isfinite(vector).all()
        change = float((vector - less).norm())
        assert change <= times * sensitivity * (1 + ROUNDING)
        if size == 1e6 and policy != "per-layer" and times == 1.0:  # attained
            assert change > 0.99 * sensitivity
    assert (whole[0][1] == whole[1][1]) == (policy != "adaptive")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", list(KINDS))
def test_what_happens_is_what_was_planned_and_half_the_noise_is_not(kind: str, policy: str) -> None:
    mechanism, learner = _mechanism(kind, clip_policy=policy), _learner()
    planned = mechanism.plan(run_of(learner).stats)
    _, events = mechanism.train(learner, learner.corpus, run_of(learner))
    check_plan(planned, events)
    real = GaussianNoise.add
    half = patch.object(
        GaussianNoise, "add", lambda self, total, std, rng: real(self, total, std / 2, rng)
    )
    with half, pytest.raises(PrivacyError, match=r"noise_multiplier|event\.count"):
        check_plan(planned, mechanism.train(learner, learner.corpus, run_of(learner))[1])


@pytest.mark.parametrize("policy", POLICIES)
def test_events_are_those_of_flat_clipping_and_the_policy_is_an_assumption(policy: str) -> None:
    stats = run_of(_learner()).stats
    for kind in KINDS:
        plain, events = (
            _mechanism(kind).plan(stats),
            _mechanism(kind, clip_policy=policy).plan(stats),
        )
        assert [each.event for each in events] == [each.event for each in plain]
        assumptions = " ".join(events[0].assumptions)
        assert ("every layer of an update" in assumptions) == (policy == "per-layer")
        assert ("follows noisy counts" in assumptions) == (policy == "adaptive")


@pytest.mark.parametrize(("policy", "of_sum"), [
    ("flat", NOISE),
    ("per-layer", NOISE),
    ("adaptive", (NOISE**-2 - (2 * 1.2) ** -2) ** -0.5),  # Andrew et al. 2021, Theorem 1
])  # fmt: skip
def test_noise_on_the_sum_is_what_the_count_leaves_of_it(policy: str, of_sum: float) -> None:
    learner = ToyLearner(np.zeros((4, 20_000)), [0, 1, 2, 3])
    params = {"users_per_round": 2, "rounds": 1, "noise_multiplier": NOISE, "clip": CLIP}
    more = {"clip_count_noise": 1.2} if policy == "adaptive" else {}
    mechanism = UserDP.create({**params, "clip_policy": policy, **more})
    module, _ = mechanism.train(learner, learner.corpus, run_of(learner))
    assert float(flat(module).std()) == pytest.approx(of_sum * CLIP / 2, rel=0.02)


def test_an_adaptive_bound_starts_at_clip_and_follows_the_quantile() -> None:
    lengths = np.linspace(0.5, 2.0, 40)
    learner = ToyLearner(np.column_stack([lengths, np.zeros(40)]), list(range(40)))
    run = run_of(learner)
    UserDP.create({
        "users_per_round": 40, "rounds": 120, "noise_multiplier": 0.3, "clip": 9.0,
        "clip_policy": "adaptive", "clip_quantile": 0.25, "server_learning_rate": 1e-9,
    }).train(learner, learner.corpus, run)  # fmt: skip
    bounds = [value for _, value in run.series["clip_bound"]]
    assert bounds[0] == 9.0
    assert np.mean(bounds[60:]) == pytest.approx(np.quantile(lengths, 0.25), abs=0.15)
    assert "series.clip_bound" not in run.diagnostics["simulation_only"]


def test_the_noise_of_the_count_is_a_20th_of_the_round_and_always_enough() -> None:
    params = UserDP.create({"clip_policy": "adaptive"}).params
    assert params.count_noise(0.9, 100) == 5.0
    assert params.count_noise(0.9, 2) == 0.9
    assert UserDP.create({"clip_policy": "adaptive", "clip_count_noise": 3.0}).params.count_noise(
        5.9, 100
    ) == pytest.approx(3.0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_count_that_leaves_nothing_to_hide_the_sum_is_refused_before_training(kind: str) -> None:
    mechanism = _mechanism(kind, clip_policy="adaptive", clip_count_noise=0.75)
    learner = _learner()
    with pytest.raises(InputError, match=r"clip_count_noise is 0\.75.*noise multiplier"):
        mechanism.plan(run_of(learner).stats)
    with pytest.raises(InputError, match=r"clip_count_noise is 0\.75.*noise multiplier"):
        mechanism.train(learner, learner.corpus, run_of(learner))


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        (UserDP, {"clip_quantile": 0.3}, "clip_quantile.*clip_policy.*'flat'"),
        (DPSGD, {"clip_policy": "per-layer", "clip_count_noise": 2.0}, "clip_count_noise.*'per-la"),
        (UserDP, {"clip_policy": "layers"}, "'flat', 'per-layer' or 'adaptive'"),
        (UeDPSpread, {"clip_policy": "adaptive"}, "clip_policy.*two-level.*'flat'"),
        (UeDPSpread, {"clip_policy": "per-layer"}, "clip_policy.*two-level.*'flat'"),
        (UeDPSpread, {"local_momentum": 0.5}, r"local_momentum.*0\.5.*two-level.*0\.0"),
        (UeDP, {"clip_policy": "adaptive", "noise": "released"}, "noise='released'"),
        (UserDP, {"server_tau": 0.1}, r"server_tau.*0\.1"),
        (UserDP, {"server_optimizer": "yogi", "server_momentum": 0.5}, r"momentum is 0\.5.*sgd"),
        (UserDP, {"local_optimizer": "adam", "local_momentum": 0.5}, r"momentum is 0\.5.*sgd"),
    ],
)
def test_what_is_not_proven_or_does_nothing_is_refused(
    kind: Any, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        kind.create(params)


LATER = {
    "clip_policy": "adaptive", "clip_quantile": 0.3, "clip_learning_rate": 0.1,
    "clip_count_noise": 9.0, "local_momentum": 0.5, "server_tau": 0.1,
}  # fmt: skip


def test_later_parameters_leave_specs_as_they_were_and_enter_where_they_are_set() -> None:
    assert not set(LATER) & set(FederatedParams().model_dump(mode="json"))
    dumped = FederatedParams(**LATER, server_optimizer="adam").model_dump(mode="json")
    assert dumped.items() >= LATER.items()
    assert FederatedParams(**dumped) == FederatedParams(**LATER, server_optimizer="adam")
    for kind in (DPSGD, UeDPGroup):
        assert not set(LATER) & set(kind.create({}).params.model_dump(mode="json"))


@pytest.mark.parametrize("optimizer", ["yogi", "adagrad"])
def test_a_mechanism_trains_with_every_server(optimizer: str) -> None:
    learner = ToyLearner(np.array([[1.0, 2.0], [3.0, 2.0]]), [0, 1])
    module, _ = UserDP.create({
        "users_per_round": 2, "rounds": 200, "noise_multiplier": 0.0, "clip": 9.0,
        "server_optimizer": optimizer, "server_tau": 0.01, "server_learning_rate": 0.3,
    }).train(learner, learner.corpus, run_of(learner))  # fmt: skip
    assert flat(module).tolist() == pytest.approx([2.0, 2.0], abs=0.1)


def test_local_momentum_is_that_of_sgd() -> None:
    learner = ToyLearner(np.array([[1.0]]), [0])
    module, _ = UserDP.create({
        "users_per_round": 1, "rounds": 1, "noise_multiplier": 0.0, "clip": 9.0,
        "local_epochs": 3, "local_learning_rate": 0.1, "local_momentum": 0.9,
    }).train(learner, learner.corpus, run_of(learner))  # fmt: skip
    weight, velocity = torch.zeros(1, requires_grad=True), torch.optim.SGD
    optimizer = velocity([weight], 0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        torch.autograd.backward(0.5 * (weight - 1.0).square().sum())
        optimizer.step()
    torch.testing.assert_close(flat(module), weight.detach(), rtol=1e-5, atol=1e-6)
