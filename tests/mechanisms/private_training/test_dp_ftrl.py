"""DP-FTRL: how far neighbours really move the matrix times the sums; cohorts, claims, refusals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from learners import NetworkLearner, flat, run_of, sizes
from scipy.special import ndtr
from sums import Sentence, learner_of, neighbour
from tiny import runs
from toy import ToyLearner

from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import Neighbours
from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms.private_training.dp_ftrl import (
    DPFTRL,
    least_error,
    square_root,
    squared_errors,
)
from uedp_bench.one_run.planning.calibration import Target, solve
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.randomness import shared_stream
from uedp_bench.training.noise import BandedNoise
from uedp_bench.training.sampling import CyclicCohorts, Guarded, TakingPart

CLIP, ROUNDS, USERS = 0.7, 7, 6
PARAMS: dict[str, Any] = {
    "users": USERS, "users_per_round": 2, "rounds": ROUNDS, "clip": CLIP, "noise_multiplier": 1.0,
}  # fmt: skip
DELTA = 1e-5


def summed(sentences: Sequence[Sentence], **params: Any) -> tuple[np.ndarray, BandedFactorization]:
    """(rounds, d) sums that the noise is added to, where every outcome is one that was fixed."""
    seen: list[np.ndarray] = []
    real = BandedNoise.add

    def add(self: BandedNoise, vector: torch.Tensor, *rest: Any) -> torch.Tensor:
        real(self, vector, *rest)
        seen.append(vector.double().numpy().copy())
        fixed = np.random.default_rng(len(seen)).normal(size=len(vector))
        return torch.from_numpy(fixed).to(vector)

    learner = learner_of(sentences)
    with patch.object(BandedNoise, "add", add):
        _, (event, _) = DPFTRL.create({**PARAMS, **params}).train(
            learner, learner.corpus, run_of(learner)
        )
    assert isinstance(event.event, BandedFactorization)
    return np.stack(seen), event.event


def through(event: BandedFactorization, sums: np.ndarray) -> float:
    """Frobenius norm of C times sums, over the clip bound."""
    moved = np.zeros_like(sums)
    for j, value in enumerate(event.coefficients):
        moved[j:] += value * sums[: len(sums) - j]
    return float(np.linalg.norm(moved)) / CLIP


# Lengths that clip, that do not, and that are no numbers.
SENTENCES = st.builds(
    Sentence,
    st.integers(0, USERS - 1),
    st.sampled_from(["", "a", "ab"]),
    st.tuples(*[st.sampled_from([0.0, 1e-3, 1.0, -1e6, 3e38, math.nan])] * 2),
)
WORST = [
    Sentence(user, mentions, (size, 0.0))
    for user in range(USERS)
    for mentions, size in (("a", 1e6), ("", -1e3))
]


@given(data=st.lists(SENTENCES, min_size=2, max_size=10), user=st.integers(0, USERS - 1))
@example(data=WORST, user=0)
@settings(max_examples=25, deadline=None)
def test_no_neighbour_moves_the_matrix_times_the_sums_further_than_is_stated(
    data: list[Sentence], user: int
) -> None:
    before, event = summed(data)
    for rest, point in (
        ([s for s in data if s.user != user], Protected(spread=0)),
        (neighbour(data, user, "a"), Protected(spread=len(_others(data, user)))),
    ):
        if rest:
            after, same = summed(rest)
            assert same == event
            allowed = event.reach(Neighbours("add-or-remove", point))
            assert through(event, before - after) <= allowed * (1 + 1e-5)


def _others(data: Sequence[Sentence], user: int) -> set[int]:
    return {s.user for s in data if "a" in s.mentions and s.user != user}


def test_the_bound_is_attained_where_all_of_a_group_share_a_cohort() -> None:
    def one(self: DPFTRL, corpus: Any, units: Any, schedule: Any, run: Any) -> Any:
        return Guarded(CyclicCohorts(np.zeros(len(units), int), schedule.separation), schedule, 6)

    # With the entity everybody pulls one way, without it the other way; the user has it alone.
    data = [s for s in WORST if s.user > 0 or s.mentions]
    with patch.object(DPFTRL, "_sampler", one):
        before, event = summed(data)
        after, _ = summed([*neighbour(data, 0, "a"), Sentence(0, "", (math.nan, 0.0))])
    assert event.participations == 3
    point = Protected(spread=USERS - 1)
    allowed = event.reach(Neighbours("add-or-remove", point))
    assert through(event, before - after) == pytest.approx(allowed, rel=1e-4)


def test_nobody_moves_to_another_cohort_when_somebody_comes_or_goes() -> None:
    def cohorts(users: Sequence[int]) -> dict[int, list[int]]:
        cohorts_of: dict[int, list[int]] = {}
        real = CyclicCohorts.draw

        def draw(self: CyclicCohorts, rng: Any) -> TakingPart:
            taken = real(self, rng)
            for position in taken.units:
                cohorts_of.setdefault(users[position], []).append(self._turn - 1)
            return taken

        with patch.object(CyclicCohorts, "draw", draw):
            summed([Sentence(user, "", (1.0, 0.0)) for user in users])
        return cohorts_of

    everybody = cohorts(range(USERS))
    assert len({tuple(rounds) for rounds in everybody.values()}) > 1
    for gone in range(USERS):
        rest = [user for user in range(USERS) if user != gone]
        assert cohorts(rest) == {user: everybody[user] for user in rest}
    for rounds in everybody.values():
        assert np.diff(rounds).tolist() == [3] * (len(rounds) - 1)


def test_cohorts_are_as_large_as_planned_and_drawn_for_each_user_alone() -> None:
    drawn = np.random.Generator(np.random.PCG64(shared_stream(0, "dp-ftrl", "cohorts")))
    counts = np.bincount(drawn.integers(40, size=40_000), minlength=40)
    assert ((counts - 1000) ** 2 / 1000).sum() < 80  # chi-squared, 39 degrees of freedom


def test_a_sampler_that_comes_back_too_soon_is_refused_before_it_trains() -> None:
    real = CyclicCohorts.draw

    def again(self: CyclicCohorts, rng: Any) -> TakingPart:
        taken = real(self, rng)
        self._turn -= 1
        return taken

    learner = NetworkLearner(6)
    mechanism = DPFTRL.create(PARAMS)
    with patch.object(CyclicCohorts, "draw", again), pytest.raises(PrivacyError, match="round 1"):
        mechanism.train(learner, learner.corpus, run_of(learner))


def test_what_happened_is_what_was_planned_and_claimed_is_what_is_proven() -> None:
    learner = NetworkLearner(6)
    mechanism = DPFTRL.create({**PARAMS, "noise_multiplier": 4.0})
    stats = run_of(learner).stats
    _, happened = mechanism.train(learner, learner.corpus, run_of(learner))
    check_plan(mechanism.plan(stats), happened)
    (paper,) = claimed(mechanism.claims(stats), DELTA)
    ours = {g.unit: g for g in proven(happened, delta=DELTA)}
    assert ours["user"].epsilon == pytest.approx(paper.epsilon, rel=1e-3)
    assert ours["user"].adjacency == "add-or-remove"
    assert ours["user-entity"].protected == Protected(spread=3)
    curve = [point.epsilon for point in ours["user-entity"].curve]
    assert curve[0] == ours["user"].epsilon
    assert curve == sorted(curve)


def test_fewer_users_than_declared_train_as_planned_and_more_are_told() -> None:
    for users, same in ((20, True), (4, False)):
        learner = NetworkLearner(6)
        mechanism = DPFTRL.create({**PARAMS, "users": users})
        stats = run_of(learner).stats
        _, happened = mechanism.train(learner, learner.corpus, run_of(learner))
        assert (happened == mechanism.plan(stats)) == same


@pytest.mark.parametrize(
    ("epsilon", "spread", "moves"), [(8.0, None, 1), (2.0, None, 1), (8.0, 2, 5)]
)
def test_calibration_finds_the_noise(epsilon: float, spread: int | None, moves: int) -> None:
    planned = PlannedMechanism.from_settings("dp-ftrl", {"users": "4000"})
    solution = solve(planned, Target(epsilon, DELTA, spread))
    assert (solution.parameter, solution.guarantee.unit) == (
        "noise_multiplier", "user" if spread is None else "user-entity"
    )  # fmt: skip
    # Balle and Wang 2018, Theorem 8: two rounds of a user in sixty.
    shift = moves * math.sqrt(2) / solution.value
    above, below = ndtr([shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift])
    assert above - math.exp(epsilon) * below == pytest.approx(DELTA, rel=2e-3)


def test_bands_are_at_most_the_cohorts_and_by_default_sixteen() -> None:
    stats = sizes(4000, 8000, 0, 0, public=True)

    def bands(**params: Any) -> int:
        event: Any = DPFTRL.create(params).plan(stats)[0].event
        return len(event.coefficients)

    assert (bands(), bands(bands=40), bands(users_per_round=800), bands(rounds=3)) == (16, 40, 5, 3)
    with pytest.raises(InputError, match=r"dp-ftrl\.bands.*41.*40"):
        bands(bands=41)


def test_a_clip_bound_that_moves_is_refused_and_layers_are_not() -> None:
    with pytest.raises(InputError, match=r"clip_policy.*'adaptive'.*'flat'.*'per-layer'"):
        DPFTRL.create({"clip_policy": "adaptive"})
    learner = NetworkLearner(6)
    mechanism = DPFTRL.create({**PARAMS, "clip_policy": "per-layer"})
    _, (event, _) = mechanism.train(learner, learner.corpus, run_of(learner))
    assert any("every layer" in text for text in event.assumptions)


def test_a_number_of_users_that_was_counted_proves_nothing() -> None:
    stats = sizes(100, 100, 0, 0, public=False)
    (reason,) = DPFTRL.create({"users_per_round": 10}).refusals(stats)
    assert "private data" in reason


def test_a_result_proves_both_units(tmp_path: Path) -> None:
    params = {"rounds": 6, "users": 60, "users_per_round": 20, "noise_multiplier": 3.0}
    (run,) = runs({"name": "dp-ftrl", "params": params})
    result = execute(run, Execution(out=tmp_path, device="cpu", keep_release=False))
    ours = {g.unit: g for g in result.guarantees if g.kind == "proven"}
    assert {unit: g.status for unit, g in ours.items()} == {"user": "given", "user-entity": "given"}
    assert ours["user"].epsilon < ours["user-entity"].epsilon
    assert all(math.isfinite(value) for value in (u.value for u in result.utility.values()))


def test_independent_and_correlated_noise_end_where_their_errors_say() -> None:
    """The last weights, where nobody says anything: the noise of all rounds added up."""
    learner = ToyLearner(np.full((6, 20_000), math.nan), list(range(6)))
    for bands in (1, 3):
        mechanism = DPFTRL.create({**PARAMS, "bands": bands})
        module, (event, _) = mechanism.train(learner, learner.corpus, run_of(learner))
        stated: Any = event.event
        error = squared_errors(stated.coefficients, ROUNDS)[-1] / np.dot(
            stated.coefficients, stated.coefficients
        )
        deviation = math.sqrt(error) * CLIP / (USERS / 3)
        assert float(flat(module).std()) == pytest.approx(deviation, rel=0.03)


def _dense(coefficients: tuple[float, ...], rounds: int) -> np.ndarray:
    toeplitz = np.zeros((rounds, rounds))
    for j, value in enumerate(coefficients):
        toeplitz += np.diag(np.full(rounds - j, value), -j)
    sums = np.tril(np.ones((rounds, rounds)))
    norm = np.linalg.norm(toeplitz, axis=0).max()
    return np.asarray(((sums @ np.linalg.inv(toeplitz)) ** 2).sum(axis=1) * norm**2)


@pytest.mark.parametrize("coefficients", [(1.0,), (0.8, 0.6), (0.7, 0.3, -0.1, 0.2)])
def test_errors_are_those_of_dense_matrices(coefficients: tuple[float, ...]) -> None:
    np.testing.assert_allclose(squared_errors(coefficients, 9), _dense(coefficients, 9), rtol=1e-10)


def test_independent_noise_adds_up() -> None:
    np.testing.assert_allclose(squared_errors((1.0,), 50), np.arange(1, 51))
    assert least_error(50, 1) == (1.0,)


@pytest.mark.parametrize("rounds", [10, 100, 1000])
def test_the_whole_square_root_has_the_published_largest_error(rounds: int) -> None:
    # Largest squared error G_n^2, G_n the Landau constant: (ln n + gamma + ln 16) / pi + O(1 / n).
    largest = squared_errors(square_root(rounds).tolist(), rounds).max()
    landau = (math.log(rounds) + np.euler_gamma + 4 * math.log(2)) / math.pi
    assert math.sqrt(largest) == pytest.approx(landau, rel=0.1 / rounds)
    squared = np.tril(np.ones((10, 10)))
    root = np.zeros((10, 10))
    for j, value in enumerate(square_root(10)):
        root += np.diag(np.full(10 - j, value), -j)
    np.testing.assert_allclose(root @ root, squared, atol=1e-12)


# jax-privacy 2.0.0: toeplitz.optimize_banded_toeplitz and toeplitz.loss, in float64.
PUBLISHED = {(60, 10): 6.1905557731, (100, 10): 8.6818738986, (400, 16): 18.5275725779}


@pytest.mark.parametrize(("rounds", "bands"), PUBLISHED)
def test_the_optimum_is_that_of_jax_privacy(rounds: int, bands: int) -> None:
    coefficients = least_error(rounds, bands)
    assert squared_errors(coefficients, rounds).mean() == pytest.approx(
        PUBLISHED[rounds, bands], rel=1e-8
    )
    cut = squared_errors(square_root(bands).tolist(), rounds).mean()
    assert squared_errors(coefficients, rounds).mean() < cut < squared_errors((1.0,), rounds).mean()
    assert np.linalg.norm(coefficients) == pytest.approx(1.0, abs=1e-5)


def test_many_rounds_do_not_overflow_on_the_way() -> None:
    # As rounds outnumber bands, the best coefficients become equal: errors of n rounds add up in
    # blocks of b.
    coefficients = least_error(30_000, 4)
    assert coefficients[0] > coefficients[3] > 0.47
    mean = squared_errors(coefficients, 30_000).mean()
    assert mean < squared_errors((0.5,) * 4, 30_000).mean()
    assert mean == pytest.approx(15_000 / 4, rel=0.02)


def test_more_bands_leave_less_noise() -> None:
    errors = [squared_errors(least_error(60, bands), 60).mean() for bands in (1, 2, 4, 8, 16, 30)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 5
