"""Federated averaging without noise: against hand and torch, dealt anew, clipped, no promise."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of
from toy import ToyLearner

from uedp_bench.accounting.ledger import check_plan
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms.fedavg import FedAvg
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.private_training.users import with_rows_dealt
from uedp_bench.training import federated
from uedp_bench.training.noise import IndependentGaussian

USERS = [0, 0, 0, 1, 1, 2, 3, 3, 4]
ALL = {"users_per_round": 5, "rounds": 1}


def learner_of() -> ToyLearner:
    return ToyLearner(np.random.default_rng(2).normal(size=(len(USERS), 4)), USERS)


def trained(learner: ToyLearner, seed: int = 0, **params: Any) -> torch.Tensor:
    module, events = FedAvg.create(params).train(learner, learner.corpus, run_of(learner, seed))
    check_plan(FedAvg.create(params).plan(run_of(learner).stats), events)
    return flat(module)


def test_fedsgd_with_everybody_is_gradient_descent_on_all_rows() -> None:
    learner = NetworkLearner(6)
    learner.corpus.groups["user"][:] = [0, 0, 0, 1, 1, 2]
    weights = trained(learner, users_per_round=3, rounds=4, algorithm="fedsgd",
                      server_learning_rate=0.05, server_momentum=0.9)  # fmt: skip
    by_hand = copy.deepcopy(learner.module)
    optimizer = torch.optim.SGD(by_hand.parameters(), 0.05, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        torch.autograd.backward(((by_hand(learner.points) - learner.goals) ** 2).mean())
        optimizer.step()
    torch.testing.assert_close(weights, flat(by_hand), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weighting", ["rows", "users"])
@pytest.mark.parametrize("sampling", ["fixed", "poisson"])
def test_a_round_is_the_weighted_mean_of_those_who_came(weighting: str, sampling: str) -> None:
    learner, steps = learner_of(), 3
    theta = trained(learner, users_per_round=3, rounds=1, weighting=weighting, sampling=sampling,
                    local_epochs=steps, local_learning_rate=0.1)  # fmt: skip
    rng = run_of(learner).fresh("federated").child("round", 0).rng("sample")
    if sampling == "fixed":
        users = rng.choice(5, size=3, replace=False)
    else:
        users = np.flatnonzero(rng.random(5) < 3 / 5)
    means = [learner.points[np.array(USERS) == user].mean(dim=0) for user in users]
    counts = [USERS.count(user) if weighting == "rows" else 1.0 for user in users]
    # From zero, s steps on |w - x|^2 / 2 lead a part 1 - 0.9^s of the way to the user's mean.
    moves = (1 - 0.9**steps) * torch.stack(means)
    weights = torch.tensor(counts, dtype=torch.float32)
    by_hand = (weights[:, None] * moves).sum(dim=0) / weights.sum()
    torch.testing.assert_close(theta, by_hand, rtol=1e-4, atol=1e-6)


def test_one_local_step_is_fedsgd() -> None:
    learner = learner_of()
    common = {**ALL, "rounds": 3, "users_per_round": 2}
    one_step = trained(learner, **common, local_learning_rate=0.3)
    gradient = trained(learner, **common, algorithm="fedsgd", server_learning_rate=0.3)
    torch.testing.assert_close(one_step, gradient)


def test_clipping_alone_is_user_dp_without_noise_where_everybody_comes_and_counts_alike() -> None:
    learner = learner_of()
    common = {**ALL, "rounds": 3, "clip": 0.4, "local_epochs": 2, "local_learning_rate": 0.3}
    alone = trained(learner, **common, weighting="users")
    mechanism = UserDP.create({**common, "noise_multiplier": 0.0, "sampling": "fixed"})
    module, _ = mechanism.train(learner, learner.corpus, run_of(learner))
    torch.testing.assert_close(alone, flat(module))
    free = trained(learner, **{**common, "clip": None}, weighting="users")
    assert float((free - alone).norm()) > 0.1


@pytest.mark.parametrize("policy", ["flat", "per-layer", "adaptive"])
def test_no_update_is_longer_than_the_bound_that_it_is_clipped_to(policy: str) -> None:
    learner = NetworkLearner(4)
    learner.goals *= 1e5
    run = run_of(learner)
    mechanism = FedAvg.create(
        {"users_per_round": 4, "rounds": 1, "clip": 0.2, "clip_policy": policy}
    )
    module, _ = mechanism.train(learner, learner.corpus, run)
    assert 0.05 < float((flat(module) - flat(learner.module)).norm()) <= 0.2
    assert run.diagnostics["clipped_fraction"] == 1.0


def test_rows_are_dealt_anew_among_the_same_users_with_as_many_as_before() -> None:
    learner = NetworkLearner(60, held_out=10)
    users = np.repeat(np.arange(12), 5)
    learner.corpus.groups["user"][:] = users
    before = learner.corpus.users.copy()
    dealt = with_rows_dealt(learner, np.random.default_rng(1))
    assert np.array_equal(learner.corpus.users, before)
    assert np.array_equal(np.bincount(dealt.corpus.users), np.bincount(before))
    assert np.array_equal(dealt.corpus.users[50:], before[50:])  # only training rows
    assert np.mean(dealt.corpus.users[:50] == before[:50]) < 0.4
    again, other = (with_rows_dealt(learner, np.random.default_rng(seed)) for seed in (1, 2))
    assert np.array_equal(again.corpus.users, dealt.corpus.users)
    assert not np.array_equal(other.corpus.users, dealt.corpus.users)


def test_iid_makes_users_alike() -> None:
    points = np.repeat(np.linspace(-5, 5, 20), 20)[:, None]  # a user's rows are all the same
    learner = ToyLearner(points, np.repeat(np.arange(20), 20).tolist())
    params = {"users_per_round": 1, "rounds": 1}
    far = [float(trained(learner, seed, **params).abs()) for seed in range(8)]
    near = [float(trained(learner, seed, **params, iid=True).abs()) for seed in range(8)]
    assert np.mean(near) < 0.5 * np.mean(far)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"algorithm": "fedsgd", "local_epochs": 2}, "local_epochs is 2.*fedsgd"),
        ({"algorithm": "fedsgd", "local_optimizer": "adam"}, "local_optimizer.*fedsgd"),
        ({"clip_policy": "adaptive"}, "clip_policy.*'adaptive'.*clip$"),
        ({"clip": 1.0, "clip_policy": "adaptive", "clip_count_noise": 1.0}, "clip_count_noise"),
    ],
)
def test_what_would_do_nothing_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FedAvg.create(params)


def test_a_round_of_more_users_than_there_are_is_refused() -> None:
    for sampling in ("fixed", "poisson"):
        with pytest.raises(InputError, match=r"fedavg\.users_per_round.*6"):
            trained(learner_of(), users_per_round=6, rounds=1, sampling=sampling)


def test_noise_does_not_pretend_to_hide_a_sum_over_private_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = federated.train_federated
    plans: list[federated.Federation] = []

    def keep(federation: federated.Federation, *rest: Any) -> federated.Trained:
        plans.append(federation)
        return real(federation, *rest)

    monkeypatch.setattr("uedp_bench.api.training.train_federated", keep)
    learner = learner_of()
    trained(learner, **ALL, clip=1.0)
    (plan,) = plans
    events = real(plan, learner, run_of(learner)).rounds
    assert [event.kind for event in events] == ["non-private"]
    noisy = replace(plan, noise=IndependentGaussian(1.0))
    with pytest.raises(PrivacyError, match=r"denominator.*None"):
        real(noisy, learner, run_of(learner))


def test_an_update_that_is_no_number_counts_as_zero_whoever_else_is_there() -> None:
    learner, run = learner_of(), run_of(learner_of())
    learner.points[5] = float("nan")  # the only row of user 2
    module, _ = FedAvg.create({**ALL, "weighting": "users"}).train(learner, learner.corpus, run)
    means = [learner.points[np.array(USERS) == user].mean(dim=0) for user in (0, 1, 3, 4)]
    torch.testing.assert_close(flat(module), torch.stack(means).sum(dim=0) / 5)
    assert run.diagnostics["dropped_updates"] == 1
