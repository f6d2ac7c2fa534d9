"""Algorithm 1 of UeDP against arithmetic by hand, its claims, and what refuses a proof."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learners import EntityLearner, first_round, flat, run_of, sizes

from uedp_bench.accounting.events import NonPrivate, Repeated, UserEntityGaussian
from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import SPLITS
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms.private_training.uedp import UeDP

MENTIONS = ["ab", "", "c", "a", "", "b", "bcd", ""]
USERS = [0, 0, 0, 1, 1, 2, 2, 3]
QUIET: dict[str, Any] = {"rounds": 1, "noise_multiplier": 0.0, "users_per_round": 4, "clip": 1e6}


def learner_of(dimension: int = 5, scale: float = 1.0) -> EntityLearner:
    points = scale * np.random.default_rng(1).normal(size=(len(MENTIONS), dimension))
    return EntityLearner(points, USERS, MENTIONS)


def trained(learner: EntityLearner, run: Run | None = None, **params: Any) -> torch.Tensor:
    module, _ = UeDP.create(params).train(learner, learner.corpus, run or run_of(learner))
    return flat(module)


def by_hand(learner: EntityLearner, run: Run, **params: Any) -> np.ndarray:
    """One round of Algorithm 1 from zero weights, one sentence and one entity at a time."""
    p = UeDP.create(params).params
    streams = first_round(run)
    coins = streams.rng("sample").random(4) < p.users_per_round / 4
    rng = streams.rng("rows")
    entity_coins = rng.random(4) < p.entity_rate
    sentence_coins = rng.random(len(MENTIONS)) < p.sentence_rate
    letters = "abcd"
    total_e = {e: min(sum(e in m for m in MENTIONS) / p.entity_cap, 1) for e in letters}
    w_s = min(1 / p.sentence_cap, 1)
    total, user_weights = np.zeros(learner.points.shape[1]), []
    for user in range(4):
        rows = [row for row, owner in enumerate(USERS) if owner == user]
        user_weights.append(min(len(rows) / p.user_cap, 1))
        if not coins[user]:
            continue
        move = np.zeros_like(total)
        for row in rows:  # minus the gradient at zero is the row's point
            x = learner.points[row].double().numpy()
            for entity in MENTIONS[row]:
                if entity_coins[letters.index(entity)]:
                    move += p.local_learning_rate * total_e[entity] * x
            if not MENTIONS[row] and p.estimator == "f_E+" and sentence_coins[row]:
                move += p.local_learning_rate * w_s * x
        total += user_weights[-1] * move * min(1, p.clip / max(np.linalg.norm(move), 1e-12))
    if p.denominators == "data":
        w_u, w_e, plain = sum(user_weights), sum(total_e.values()), 3 * w_s
    else:
        w_u, w_e, plain = 4, 4, 3 * w_s
    inner = p.entity_rate * w_e + (p.sentence_rate * plain if p.estimator == "f_E+" else 0)
    return p.server_learning_rate * total / (p.users_per_round / 4 * w_u * inner)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("denominators", ["public", "data"])
@pytest.mark.parametrize("estimator", ["f_E", "f_E+"])
def test_one_round_is_algorithm_1(seed: int, denominators: str, estimator: str) -> None:
    params = {
        **QUIET, "users_per_round": 3, "entity_rate": 0.6, "sentence_rate": 0.7, "clip": 0.9,
        "user_cap": 3, "entity_cap": 3, "sentence_cap": 2, "local_learning_rate": 0.5,
        "server_learning_rate": 7.0, "denominators": denominators, "estimator": estimator,
    }  # fmt: skip
    learner = learner_of()
    expected = by_hand(learner, run_of(learner, seed), **params)
    weights = trained(learner, run_of(learner, seed), **params)
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-4, atol=1e-6)


def test_coins_differ_between_the_seeds_above() -> None:
    learner = learner_of()
    params = {**QUIET, "users_per_round": 3, "entity_rate": 0.6}
    moves = {tuple(by_hand(learner, run_of(learner, seed), **params)) for seed in range(4)}
    assert len(moves) == 4


def test_a_sentence_counts_once_for_each_of_its_sampled_entities() -> None:
    points = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    learner = EntityLearner(points, [0, 0, 0], ["ab", "a", "b"])
    params = {**QUIET, "users_per_round": 1, "entity_rate": 1.0, "estimator": "f_E"}
    # W_e = 2; row 0 is in two sentences' sums, row 1 in one.
    assert trained(learner, **params).tolist() == pytest.approx([2 / 2, 1 / 2], rel=1e-5)
    capped = trained(learner, **params, entity_cap=4, denominators="data")
    w_a = w_b = 2 / 4
    assert capped.tolist() == pytest.approx([(w_a + w_b) / 1.0, w_a / 1.0], rel=1e-5)


def test_entities_of_other_splits_weigh_nothing() -> None:
    points = np.eye(3)
    learner = EntityLearner(points, [0, 0, 1], ["a", "a", "ab"])
    split = np.array([0, 0, SPLITS.index("test")])
    learner.corpus = replace(learner.corpus, split=split)
    weights = trained(
        learner, **QUIET | {"users_per_round": 1}, entity_rate=1.0, estimator="f_E",
        denominators="data", entity_cap=3,
    )  # fmt: skip
    # n_a = 2 and n_b = 0 in training: W_e = w_a = 2/3, which cancels.
    assert weights.tolist() == pytest.approx([1.0, 1.0, 0.0], abs=1e-5)


@pytest.mark.parametrize("params", [{"estimator": "f_E"}, {"sentence_rate": 0.0}])
def test_plain_sentences_are_left_out(params: dict[str, Any]) -> None:
    points = np.array([[1.0, 0.0], [0.0, 1.0]])
    learner = EntityLearner(points, [0, 0], ["a", ""])
    everything = {**QUIET, "users_per_round": 1, "entity_rate": 1.0}
    assert trained(learner, **everything | params).tolist() == pytest.approx([1.0, 0.0], abs=1e-5)
    both = trained(learner, **everything)  # W_e + W_s = 2
    assert both.tolist() == pytest.approx([0.5, 0.5], rel=1e-5)


def test_entities_are_sampled_at_their_rate_for_all_users_at_once() -> None:
    learner = EntityLearner(np.zeros((2, 2)), [0, 1], ["a", "a"])
    run = run_of(learner)
    trained(learner, run, **QUIET | {"rounds": 600, "users_per_round": 2}, entity_rate=0.3)
    units = np.array([value for _, value in run.series["units"]])
    assert set(units.tolist()) == {0.0, 2.0}  # one coin an entity, whoever mentions it
    assert abs((units > 0).mean() - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 600)


def equation_6(z: float, per_round: int, clip: float, denominator: float) -> float:
    return z * (per_round + 1) * clip / denominator


@pytest.mark.parametrize("noise", ["published", "released"])
def test_noise_on_the_weights_is_equation_6_times_the_server_learning_rate(noise: str) -> None:
    learner = learner_of(dimension=20_000, scale=0.0)
    params = {"rounds": 1, "users_per_round": 2, "noise_multiplier": 2.5, "clip": 0.1,
              "entity_rate": 0.5, "server_learning_rate": 30.0, "noise": noise}  # fmt: skip
    sigma = equation_6(2.5, 2, 0.1, 2 / 4 * 4 * (0.5 * 4 + 1.0 * 3))
    deviation = sigma if noise == "published" else sigma**2
    weights = trained(learner, **params)
    assert float(weights.std()) == pytest.approx(30.0 * deviation, rel=0.03)
    assert abs(float(weights.mean())) < 5 * 30.0 * deviation / math.sqrt(len(weights))


def test_published_weights_scale_the_noise_and_public_ones_do_not() -> None:
    learner = learner_of(dimension=20_000, scale=0.0)
    params = {"rounds": 1, "users_per_round": 2, "noise_multiplier": 1.0, "clip": 1.0,
              "entity_rate": 0.5, "user_cap": 6}  # fmt: skip
    weights = np.array([3, 2, 2, 1]) / 6
    inner = 0.5 * 4 + 3
    data = trained(learner, **params, denominators="data")
    expected = equation_6(1.0, 2, weights.max(), 2 / 4 * weights.sum() * inner)
    assert float(data.std()) == pytest.approx(expected, rel=0.03)
    public = trained(learner, **params)
    assert float(public.std()) == pytest.approx(equation_6(1.0, 2, 1.0, 2 * inner), rel=0.03)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e20, float("inf"), float("nan")])
def test_an_adversarial_user_adds_at_most_beta(size: float) -> None:
    mentions = ["a", "", "abcdefgh", "abcdefgh"]  # user 1 counts each sentence eightfold
    points = np.ones((4, 6))
    points[2:] *= size
    learner = EntityLearner(points, [0, 0, 1, 1], mentions)
    params = {**QUIET, "users_per_round": 2, "users": 2, "entity_rate": 1.0, "clip": 0.7,
              "local_epochs": 3, "local_batch_size": 1}  # fmt: skip
    denominator = 1.0 * 2 * (8 + 1)
    alone = EntityLearner(points[:2], [0, 0], mentions[:2])
    fixed = {"entities": 8, "sentences": 4, "sensitive_sentences": 3}
    without = trained(alone, run_of(alone), **params, **fixed)
    with_user = trained(learner, run_of(learner), **params, **fixed)
    assert torch.isfinite(with_user).all()
    assert float((without * denominator).norm()) <= 0.7 * (1 + 1e-5)
    # Local batches are shuffled, so the honest part may differ too: both are bounded.
    assert float((with_user * denominator).norm()) <= 2 * 0.7 * (1 + 1e-5)


def test_the_released_variant_clips_gradients_and_not_updates() -> None:
    learner = EntityLearner(np.array([[30.0, 40.0]]), [0], ["a"])
    params = {**QUIET, "users_per_round": 1, "entity_rate": 1.0, "clip": 0.1,
              "local_learning_rate": 5.0, "noise": "released"}  # fmt: skip
    update = trained(learner, **params)
    assert update.tolist() == pytest.approx([5 * 0.1 * 0.6, 5 * 0.1 * 0.8], rel=1e-4)
    adam = trained(learner, **params, local_optimizer="adam")
    assert adam.tolist() == pytest.approx([5.0, 5.0], rel=1e-3)  # Adam undoes the clipping
    published = trained(learner, **params | {"noise": "published"})
    assert float(published.norm()) == pytest.approx(0.1, rel=1e-4)


def test_the_released_variant_proves_nothing() -> None:
    learner = learner_of()
    mechanism = UeDP.create({"noise": "released", "users_per_round": 2, "rounds": 2})
    run = run_of(learner)
    _, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)
    assert isinstance(events[0].event, NonPrivate)
    (guarantee,) = proven(events, delta=1e-5)
    assert (guarantee.epsilon, guarantee.notion) == (math.inf, "none")
    (claim,) = mechanism.claims(run.stats)
    assert "released" in claim.note


DATA_SETS = {
    "conll2003": (946, 14_040, 11_176, 50, {"f_E+": 0.519, "f_E": 0.613}),
    "ag-news": (7_536, 112_000, 67_157, 500, {"f_E+": 0.501, "f_E": 0.746}),
    "sec": (1_592, 5_188, 2_166, 100, {"f_E+": 0.399, "f_E": 0.709}),
}


@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("estimator", ["f_E", "f_E+"])
def test_claims_are_the_published_ones(name: str, estimator: str) -> None:
    users, rows, sensitive, per_round, epsilon = DATA_SETS[name]
    mechanism = UeDP.create({"users_per_round": per_round, "rounds": 50, "noise_multiplier": 2.0,
                             "estimator": estimator})  # fmt: skip
    (guarantee,) = claimed(mechanism.claims(sizes(users, rows, sensitive)), 1e-5)
    assert guarantee.epsilon == pytest.approx(epsilon[estimator], abs=5e-4)
    assert (guarantee.unit, guarantee.accountant) == ("user-entity", "moments")
    assert guarantee.note


@pytest.mark.parametrize(
    ("per_round", "sensitive", "rounds"), [(25, 4_406, 197), (20, 5_187, 223), (10, 11_176, 191)]
)
def test_claims_of_the_gpt2_runs_reach_0_20_where_the_paper_has_it(
    per_round: int, sensitive: int, rounds: int
) -> None:
    def claim(count: int) -> float:
        mechanism = UeDP.create({"users_per_round": per_round, "rounds": count})
        (guarantee,) = claimed(mechanism.claims(sizes(946, 14_040, sensitive)), 1e-5)
        return float(guarantee.epsilon)

    assert claim(rounds - 1) < claim(rounds) == pytest.approx(0.20, abs=1e-4)


PRIVATE = sizes(public=False)


@pytest.mark.parametrize(
    ("params", "stats", "words"),
    [
        ({"denominators": "data"}, sizes(), "denominators"),
        ({"entity_cap": 2}, sizes(), "over all users"),
        ({"entities": 8, "sentences": 30, "sensitive_sentences": 20}, PRIVATE, "number of users"),
        ({"users": 10, "sentences": 30, "sensitive_sentences": 20}, PRIVATE, "uedp.entities"),
        ({"users": 10, "entities": 8, "sensitive_sentences": 20}, PRIVATE, "uedp.sentences"),
        ({"users": 10, "entities": 8, "sentences": 30}, PRIVATE, "uedp.sensitive_sentences"),
    ],
)
def test_each_broken_condition_refuses(params: dict[str, Any], stats: Any, words: str) -> None:
    mechanism = UeDP.create({"users_per_round": 2, "rounds": 1, **params})
    (reason,) = mechanism.refusals(stats)
    assert words in reason
    for guarantee in proven(mechanism.plan(stats), delta=1e-5, refusals=[reason]):
        assert (guarantee.status, guarantee.epsilon) == ("refused", math.inf)


@pytest.mark.parametrize(
    ("params", "stats"),
    [
        ({}, sizes()),
        ({"user_cap": 4, "sentence_cap": 3, "rows_per_user": 2}, sizes()),
        ({"users": 10, "entities": 8, "sentences": 30, "sensitive_sentences": 20}, PRIVATE),
        ({"users": 10, "entities": 8, "estimator": "f_E"}, PRIVATE),  # needs no sentences
    ],
)
def test_nothing_refuses_where_the_conditions_hold(params: dict[str, Any], stats: Any) -> None:
    mechanism = UeDP.create({"users_per_round": 2, "rounds": 1, **params})
    assert mechanism.refusals(stats) == ()
    unit, user = proven(mechanism.plan(stats), delta=1e-5)
    assert (unit.status, unit.unit, user.unit) == ("given", "user-entity", "user")
    assert user.epsilon <= unit.epsilon < math.inf


@settings(max_examples=25, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "users_per_round": st.integers(1, 4),
            "rounds": st.integers(1, 2),
            "noise_multiplier": st.floats(0, 9),
            "clip": st.floats(1e-3, 1e3),
            "estimator": st.sampled_from(["f_E", "f_E+"]),
            "denominators": st.sampled_from(["public", "data"]),
            "noise": st.sampled_from(["published", "released"]),
            "entity_rate": st.floats(0.01, 1),
            "user_cap": st.integers(1, 7),
            "entity_cap": st.integers(1, 3),
            "users": st.none() | st.integers(4, 9),
            "local_epochs": st.integers(1, 2),
            "local_batch_size": st.none() | st.integers(1, 2),
            "local_learning_rate": st.just(1e-3),
            "rows_per_user": st.none() | st.integers(1, 2),
            "server_optimizer": st.sampled_from(["sgd", "adam"]),
        }
    )
)
def test_what_happens_is_what_was_planned(params: dict[str, Any]) -> None:
    learner = learner_of(dimension=2)
    run, mechanism = run_of(learner), UeDP.create(params)
    _, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)
    if params["noise"] == "published":
        event = events[0].event
        assert isinstance(event, Repeated)
        assert isinstance(event.event, UserEntityGaussian)
        expected = params["noise_multiplier"] * (params["users_per_round"] + 1)
        assert event.event.noise_multiplier == pytest.approx(expected)


def test_more_users_than_declared_are_not_what_was_planned() -> None:
    """The curve ends at the declared number of users: more of them could share an entity."""
    learner = learner_of()
    mechanism = UeDP.create({"users": 3, "users_per_round": 2, "rounds": 1})
    run = run_of(learner)
    _, events = mechanism.train(learner, learner.corpus, run)
    with pytest.raises(PrivacyError, match=r"event\.event\.users.*3.*4"):
        check_plan(mechanism.plan(run.stats), events)


def test_rates_that_sample_nothing_are_bad_input() -> None:
    learner = EntityLearner(np.ones((2, 2)), [0, 1], ["", ""])
    with pytest.raises(InputError, match=r"uedp\.estimator.*'f_E'"):
        trained(learner, **QUIET | {"users_per_round": 1}, estimator="f_E")
    with pytest.raises(InputError, match=r"uedp\.estimator.*'f_E\+'.*sentence_rate=0\.0"):
        trained(learner, **QUIET | {"users_per_round": 1}, sentence_rate=0.0)


def test_published_noise_drowns_the_signal_and_the_diagnostics_say_so() -> None:
    learner = learner_of(dimension=400)
    run = run_of(learner)
    trained(learner, run, rounds=3, users_per_round=4, noise_multiplier=2.0)
    # At most 4 beta of signal against z (4 + 1) beta sqrt(400) of noise.
    assert 0 < run.diagnostics["signal_to_noise"] <= 4 / (2 * 5 * 20)
    assert "signal_to_noise" in run.diagnostics["simulation_only"]
