"""DP-FedAvg against arithmetic by hand; its events, claims and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners import first_round, flat, run_of, sizes
from toy import ToyLearner

from uedp_bench.accounting.events import NonPrivate
from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.contracts.run_context import Run
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms.private_training.user_dp import UserDP

USERS = [0, 0, 0, 1, 1, 2, 3, 3, 4]


def learner_of(dimension: int = 4, scale: float = 1.0) -> ToyLearner:
    points = scale * np.random.default_rng(2).normal(size=(len(USERS), dimension))
    return ToyLearner(points, USERS)


def trained(learner: ToyLearner, run: Run | None = None, **params: Any) -> torch.Tensor:
    module, _ = UserDP.create(params).train(learner, learner.corpus, run or run_of(learner))
    return flat(module)


def estimate(learner: ToyLearner, users: np.ndarray, clip: float, cap: int, rate: float) -> Any:
    """Sum of weighted clipped updates of these users after one full-batch local step."""
    total = np.zeros(learner.points.shape[1])
    for user in users:
        rows = [row for row, owner in enumerate(USERS) if owner == user]
        move = rate * learner.points[rows].double().numpy().mean(axis=0)
        total += min(len(rows) / cap, 1) * move * min(1, clip / np.linalg.norm(move))
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_one_round_is_estimator_f_f_with_flat_clipping(seed: int, sampling: str) -> None:
    learner = learner_of()
    rng = first_round(run_of(learner, seed)).rng("sample")
    if sampling == "poisson":
        users = np.flatnonzero(rng.random(5) < 3 / 5)
    else:
        users = rng.choice(5, size=3, replace=False)
    weights = trained(
        learner, run_of(learner, seed), rounds=1, users_per_round=3, noise_multiplier=0.0,
        clip=0.4, user_cap=2, local_learning_rate=0.5, server_learning_rate=2.0, sampling=sampling,
    )  # fmt: skip
    # The denominator q W is 3 however many users came.
    expected = 2.0 * estimate(learner, users, clip=0.4, cap=2, rate=0.5) / 3
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_noise_on_the_mean_is_z_clip_over_the_denominator(sampling: str) -> None:
    learner = learner_of(dimension=20_000, scale=0.0)
    weights = trained(learner, rounds=1, users_per_round=2, noise_multiplier=1.5, clip=0.3,
                      server_learning_rate=4.0, sampling=sampling, user_cap=50)  # fmt: skip
    assert float(weights.std()) == pytest.approx(4.0 * 1.5 * 0.3 / 2, rel=0.03)


def test_the_released_noise_on_the_mean_is_the_square_of_the_one_described() -> None:
    learner = learner_of(dimension=20_000, scale=0.0)
    weights = trained(learner, rounds=1, users_per_round=2, noise_multiplier=1.5, clip=0.3,
                      server_learning_rate=4.0, noise="released")  # fmt: skip
    assert float(weights.std()) == pytest.approx(4.0 * (1.5 * 0.3 / 2) ** 2, rel=0.03)
    assert abs(float(weights.mean())) < 5 * float(weights.std()) / math.sqrt(len(weights))


def test_the_released_variant_clips_gradients_and_not_updates() -> None:
    learner = ToyLearner(np.array([[30.0, 40.0]]), [0])
    params = {"rounds": 1, "users_per_round": 1, "noise_multiplier": 0.0, "clip": 0.1,
              "local_learning_rate": 5.0}  # fmt: skip
    released = trained(learner, **params, noise="released")
    assert released.tolist() == pytest.approx([5 * 0.1 * 0.6, 5 * 0.1 * 0.8], rel=1e-4)
    assert float(trained(learner, **params).norm()) == pytest.approx(0.1, rel=1e-4)


def test_the_released_variant_claims_as_described_and_proves_nothing() -> None:
    learner = learner_of()
    params = {"users_per_round": 2, "rounds": 2}
    mechanism = UserDP.create({**params, "noise": "released"})
    run = run_of(learner)
    _, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)
    assert isinstance(events[0].event, NonPrivate)
    (guarantee,) = proven(events, delta=1e-5)
    assert (guarantee.unit, guarantee.epsilon, guarantee.notion) == ("user", math.inf, "none")
    (claim,) = mechanism.claims(run.stats)
    (described,) = UserDP.create(params).claims(run.stats)
    assert "released" in claim.note
    assert claimed((claim,), 1e-5)[0].epsilon == claimed((described,), 1e-5)[0].epsilon


@pytest.mark.parametrize("other", [{"sampling": "fixed"}, {"clip_policy": "per-layer"}])
def test_the_released_variant_takes_coins_and_one_clip_bound(other: dict[str, str]) -> None:
    with pytest.raises(InputError, match="noise='released'"):
        UserDP.create({"noise": "released", **other})


def test_without_noise_it_learns_the_mean_of_the_users_means() -> None:
    learner = learner_of(scale=0.1)
    weights = trained(learner, rounds=30, users_per_round=5, noise_multiplier=0.0, clip=9.0,
                      local_learning_rate=0.5)  # fmt: skip
    means = [learner.points[np.flatnonzero(np.array(USERS) == u)].mean(dim=0) for u in range(5)]
    torch.testing.assert_close(weights, torch.stack(means).mean(dim=0), rtol=1e-3, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "sampling": st.sampled_from(["poisson", "fixed"]),
            "users_per_round": st.integers(1, 5),
            "rounds": st.integers(1, 2),
            "noise_multiplier": st.floats(0, 9),
            "clip": st.floats(1e-3, 1e3),
            "user_cap": st.integers(1, 4),
            "rows_per_user": st.none() | st.integers(1, 3),
            "local_epochs": st.integers(1, 2),
            "local_batch_size": st.none() | st.integers(1, 3),
            "local_optimizer": st.sampled_from(["sgd", "adam"]),
            "server_optimizer": st.sampled_from(["sgd", "adam"]),
            "server_learning_rate": st.just(1e-3),
        }
    ),
    st.integers(0, 3),
)
def test_what_happens_is_what_was_planned(params: dict[str, Any], seed: int) -> None:
    learner = learner_of(dimension=2)
    run, mechanism = run_of(learner, seed), UserDP.create(params)
    _, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)
    assert events[0].adjacency == (
        "add-or-remove" if params["sampling"] == "poisson" else "replace-one"
    )


def test_a_public_number_of_users_that_differs_is_planned_for_poisson_only() -> None:
    learner = learner_of()
    for sampling in ("poisson", "fixed"):
        mechanism = UserDP.create(
            {"users": 8, "users_per_round": 2, "rounds": 1, "sampling": sampling}
        )
        _, events = mechanism.train(learner, learner.corpus, run_of(learner))
        if sampling == "poisson":  # independent coins at rate 2/8 whoever is there
            check_plan(mechanism.plan(sizes(5)), events)
            continue
        with pytest.raises(PrivacyError, match=r"event\.event\.population.*8.*5"):
            check_plan(mechanism.plan(sizes(5)), events)


def test_fixed_rounds_under_a_poisson_plan_are_refused() -> None:
    learner = learner_of()
    common = {"users_per_round": 2, "rounds": 1}
    poisson, fixed = UserDP.create(common), UserDP.create({**common, "sampling": "fixed"})
    _, events = fixed.train(learner, learner.corpus, run_of(learner))
    with pytest.raises(PrivacyError):
        check_plan(poisson.plan(sizes(5)), events)
    disguised = [event.model_copy(update={"adjacency": "add-or-remove"}) for event in events]
    (guarantee,) = proven(disguised, delta=1e-5)
    (coins,) = proven(poisson.plan(sizes(5)), delta=1e-5)
    assert guarantee.epsilon > 1.5 * coins.epsilon  # a user who is added takes another's place


@pytest.mark.parametrize(
    ("users", "per_round", "epsilon"),
    [(946, 50, 1.176), (7_536, 500, 1.473), (1_592, 100, 1.394)],
)
def test_poisson_claims_are_the_published_user_level_epsilons(
    users: int, per_round: int, epsilon: float
) -> None:
    mechanism = UserDP.create({"users_per_round": per_round, "rounds": 50, "noise_multiplier": 2})
    (guarantee,) = claimed(mechanism.claims(sizes(users)), 1e-5)
    assert guarantee.epsilon == pytest.approx(epsilon, abs=5e-4)
    assert (guarantee.accountant, guarantee.unit) == ("moments", "user")


@pytest.mark.parametrize(("half", "epsilon"), [(1.0, 6.4666), (2.0, 2.4925)])
def test_fixed_rounds_are_proven_at_half_the_noise_that_is_claimed(
    half: float, epsilon: float
) -> None:
    common = {"users_per_round": 50, "rounds": 100, "sampling": "fixed"}
    claims = UserDP.create({**common, "noise_multiplier": half}).claims(sizes(1000))
    (claim,) = claimed(claims, 1e-5)
    (proof,) = proven(
        UserDP.create({**common, "noise_multiplier": 2 * half}).plan(sizes(1000)), delta=1e-5
    )
    assert claim.epsilon == pytest.approx(epsilon, abs=5e-5)
    # At half the noise the Renyi accountant gives the same, and the pair less than that.
    assert 0.4 * epsilon < proof.epsilon < epsilon
    assert (claim.adjacency, proof.adjacency) == ("add-or-remove", "replace-one")
    assert "does not follow" in claim.note
    assert "twice" in claim.note


def test_only_a_private_number_of_users_refuses() -> None:
    assert UserDP.create({}).refusals(sizes(public=True)) == ()
    assert UserDP.create({"users": 500}).refusals(sizes(public=False)) == ()
    (reason,) = UserDP.create({}).refusals(sizes(users=321, public=False))
    assert "mechanism.user-dp.users=N" in reason


def test_bad_input_is_named() -> None:
    learner = learner_of()
    with pytest.raises(InputError, match=r"user-dp\.users_per_round.*6.*5"):
        trained(learner, users_per_round=6)
    learner.corpus.groups["user"][4] = -1
    with pytest.raises(InputError, match=r"row.*user"):
        trained(learner, users_per_round=2)
