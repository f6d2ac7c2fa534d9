"""Theorem B and sentence groups: published noise, dp-accounting, and integration from densities."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, norm

from uedp_bench.accounting.accountants.privacy_loss_grid import (
    Round,
    compose,
    discretise,
    epsilon_of,
)
from uedp_bench.accounting.accountants.user_entity import (
    AnyRound,
    dominating_pairs,
    revealed_pairs,
    user_entity_epsilon,
)
from uedp_bench.accounting.events import (
    Gaussian,
    PoissonSampled,
    Protected,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)

Array = NDArray[np.float64]
DELTA = 1e-5
TOY = {"rate": 0.1, "users": 4_000}
ROUNDS = 60


def _epsilon(event: AnyRound, spread: int, rounds: int = ROUNDS, each: int = 1) -> float:
    point = Protected(spread=spread, sentences_per_user=each)
    return user_entity_epsilon(((event, rounds),), point, DELTA)


def one_level(noise: float) -> UserEntityGaussian:
    return UserEntityGaussian(noise_multiplier=noise, **TOY)


def two_level(noise: float, bound: float = 1 / 6) -> TwoLevelUserEntityGaussian:
    return TwoLevelUserEntityGaussian(noise_multiplier=noise, sentence_bound=bound, **TOY)


def sentences(noise: float, n: int = 6) -> SentenceSampledGaussian:
    return SentenceSampledGaussian(noise_multiplier=noise, sentences_per_user=n, **TOY)


@pytest.mark.parametrize(
    ("spread", "sampled", "one", "two"),
    [(0, 0.52, 0.84, 0.84), (1, 0.59, 1.52, 0.90), (3, 0.75, 3.27, 1.05), (10, 1.29, 9.74, 1.61)],
)
def test_noise_for_epsilon_8(spread: int, sampled: float, one: float, two: float) -> None:
    """Noise on the sum in units of what one user may contribute, rounded up to two decimals."""
    for make, noise in ((lambda s: sentences(6 * s), sampled), (one_level, one), (two_level, two)):
        assert _epsilon(make(noise), spread) <= 8.0 < _epsilon(make(noise - 0.01), spread)


def test_two_level_is_never_worse_than_one_level() -> None:
    for spread, each, noise in ((1, 1, 0.9), (3, 2, 2.0), (10, 20, 5.0)):
        two, one = (_epsilon(make(noise), spread, each=each) for make in (two_level, one_level))
        assert two <= one * (1 + 1e-12)
    # Twelve sentences of a sixth are all of an update turned round: one level says as much.
    assert _epsilon(two_level(5.0), 3, each=12) <= _epsilon(one_level(5.0), 3)
    assert _epsilon(two_level(5.0), 3, each=12) == _epsilon(two_level(5.0), 3, each=50)


@pytest.mark.parametrize(("rate", "noise", "rounds"), [(0.1, 0.9, 30), (0.01, 1.0, 500)])
def test_without_others_all_are_the_sampled_gaussian(
    rate: float, noise: float, rounds: int
) -> None:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), rounds)
    expected = pytest.approx(accountant.get_epsilon(DELTA), rel=2e-4)
    common = {"rate": rate, "noise_multiplier": noise}
    for event in (
        UserEntityGaussian(users=9, **common),
        TwoLevelUserEntityGaussian(users=9, sentence_bound=0.3, **common),
        SentenceSampledGaussian(users=9, sentences_per_user=1, **common),
        PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)),
    ):
        assert _epsilon(event, 0, rounds) == expected


@pytest.mark.parametrize(
    ("n", "others", "rate", "noise", "rounds"),
    [(6, 0, 0.1, 3.12, 60), (6, 3, 0.1, 4.5, 60), (2, 1, 0.4, 2.0, 5), (1, 30, 0.02, 3.0, 100)],
)
def test_sentence_groups_are_mixture_of_gaussians_events(
    n: int, others: int, rate: float, noise: float, rounds: int
) -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    group = np.arange(n + others + 1)
    published = pld.from_mixture_gaussian_mechanism(
        noise,
        group.tolist(),
        binom.pmf(group, n + others, rate).tolist(),
        value_discretization_interval=5e-3,
    ).self_compose(rounds)
    event = SentenceSampledGaussian(
        rate=rate, noise_multiplier=noise, sentences_per_user=n, users=100
    )
    expected = published.get_epsilon_for_delta(DELTA)
    assert _epsilon(event, others, rounds) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("event", [one_level(1.5), two_level(1.5), sentences(3.0)])
def test_everybody_sampled_is_one_gaussian(event: AnyRound) -> None:
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    moves = {"user-entity-gaussian": 7.0, "two-level-user-entity-gaussian": 1.5}
    sum_moves = moves.get(event.kind, 9.0)
    always = event.model_copy(update={"rate": 1.0})
    noise = always.noise_multiplier / sum_moves / math.sqrt(5)
    assert _epsilon(always, 3, 5) == pytest.approx(get_epsilon_gaussian(noise, DELTA), rel=1e-6)
    almost = event.model_copy(update={"rate": 1.0 - 1e-9})
    assert _epsilon(almost, 3, 5) == pytest.approx(_epsilon(always, 3, 5), rel=1e-3)


# Integration from the densities: the laws of one round as masses of small cells of the line (with
# the coins that theorem B reveals), composed by taking products of cells. A partition into cells is
# post-processing, so the values converge from below.


def _cells(noise: float, reach: float, cells: int) -> Array:
    return np.r_[-np.inf, np.linspace(-reach - 6 * noise, reach + 6 * noise, cells), np.inf]


def _law(weights: Array, centres: Array, noise: float, edges: Array) -> Array:
    return np.asarray(weights @ np.diff(norm.cdf((edges - centres[:, None]) / noise), axis=1))


def _masses(event: AnyRound, spread: int, cells: int) -> tuple[Array, Array]:
    """Masses of the sum with the user and the entity, and without; written out by hand."""
    q, s = event.rate, event.noise_multiplier
    if isinstance(event, SentenceSampledGaussian):
        size = event.sentences_per_user + spread
        edges, centres = _cells(s, size, cells), np.arange(size + 1.0)
        present = _law(binom.pmf(centres, size, q), centres, s, edges)
        return present, _law(np.ones(1), np.zeros(1), s, edges)
    if isinstance(event, UserEntityGaussian):
        edges = _cells(s, spread + 1, cells)
        up, down = np.arange(spread + 2.0), np.arange(spread + 1.0)
        present = _law(binom.pmf(up, spread + 1, q), up, s, edges)
        return present, _law(binom.pmf(down, spread, q), -down, s, edges)
    edges = _cells(s, 1 + spread * event.sentence_bound, cells)
    present, absent = [], []
    for coins in range(spread + 1):
        weight, shift = binom.pmf(coins, spread, q), coins * event.sentence_bound
        both = np.array([shift, shift + 1.0])
        present.append(weight * _law(np.array([1 - q, q]), both, s, edges))
        absent.append(weight * _law(np.ones(1), np.zeros(1), s, edges))
    return np.concatenate(present), np.concatenate(absent)


def _brute_force(upper: Array, lower: Array, rounds: int, epsilon: float) -> float:
    """Sum over all products of cells of (P - e^epsilon Q)+."""
    many, other = upper, lower
    for _ in range(rounds - 1):
        many, other = np.outer(many, upper).ravel(), np.outer(other, lower).ravel()
    return float(np.maximum(many - math.exp(epsilon) * other, 0.0).sum())


def _accounted(event: AnyRound, spread: int, rounds: int, epsilon: float) -> list[float]:
    """Delta of our accountant, removing and adding; theorem B for two levels."""
    point = Protected(spread=spread)
    if isinstance(event, TwoLevelUserEntityGaussian):
        sides = revealed_pairs(event, point, rounds)
    else:
        remove, add = dominating_pairs(event, point)
        sides = Round(((1.0, remove),), rounds), Round(((1.0, add),), rounds)
    values = []
    for side in sides:
        windows = [pair.window() for _, pair in side.pairs]
        part = discretise(side, windows, 0.01)
        values.append(compose([part], [rounds]).delta(epsilon))
    return values


SMALL = [
    UserEntityGaussian(rate=0.3, noise_multiplier=1.2, users=9),
    TwoLevelUserEntityGaussian(rate=0.3, noise_multiplier=0.8, users=9, sentence_bound=0.4),
    SentenceSampledGaussian(rate=0.3, noise_multiplier=1.5, users=9, sentences_per_user=2),
]


@pytest.mark.parametrize("event", SMALL, ids=lambda event: event.kind)
@pytest.mark.parametrize(("rounds", "cells"), [(1, 20_000), (2, 700), (3, 90)])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_integration_from_the_densities(
    event: AnyRound, rounds: int, cells: int, epsilon: float
) -> None:
    spread = 2 if rounds < 3 or not isinstance(event, TwoLevelUserEntityGaussian) else 1
    present, absent = _masses(event, spread, cells)
    remove, add = _accounted(event, spread, rounds, epsilon)
    coarse = {1: 1e-4, 2: 1e-3, 3: 2e-2}[rounds]
    for accounted, upper, lower in ((remove, present, absent), (add, absent, present)):
        expected = _brute_force(upper, lower, rounds, epsilon)
        assert expected <= accounted <= expected * (1 + coarse) + 1e-6


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.9), st.floats(0.4, 2.0), st.floats(0.05, 2.0))
def test_no_pair_of_data_sets_beats_theorem_b(
    seed: int, rate: float, noise: float, rho: float
) -> None:
    """Two others move by rho at most inside [-1, 1]; the protected user comes or goes."""
    rng = np.random.default_rng(seed)
    before = rng.uniform(-1, 1, 2)
    after = np.clip(before + rng.uniform(-rho, rho, 2), -1, 1)
    own = rng.uniform(-1, 1)
    edges = _cells(noise, 3, 4_000)
    laws = []
    for updates in (np.r_[after, own], before):
        coins = np.array(list(product([0.0, 1.0], repeat=updates.size)))
        weights = np.prod(np.where(coins == 1, rate, 1 - rate), axis=1)
        laws.append(_law(weights, coins @ updates, noise, edges))
    event = TwoLevelUserEntityGaussian(
        rate=rate, noise_multiplier=noise, users=9, sentence_bound=rho
    )
    for epsilon in (0.0, 0.4, 1.5):
        remove, add = _accounted(event, 2, 1, epsilon)
        assert _brute_force(laws[0], laws[1], 1, epsilon) <= remove
        assert _brute_force(laws[1], laws[0], 1, epsilon) <= add


def test_coins_that_share_a_value_err_on_the_safe_side(monkeypatch: pytest.MonkeyPatch) -> None:
    from uedp_bench.accounting.accountants import user_entity

    event, point = two_level(4.0), Protected(spread=400)
    apart = max(epsilon_of(side, DELTA) for side in user_entity._sides([(event, 20)], point, True))
    monkeypatch.setattr(user_entity, "_COINS", 12)
    shared = max(epsilon_of(side, DELTA) for side in user_entity._sides([(event, 20)], point, True))
    assert apart < shared < 1.3 * apart


@settings(deadline=None, max_examples=8)
@given(st.floats(0.01, 0.5), st.floats(0.8, 20.0), st.integers(1, 40), st.integers(0, 12))
def test_invariants(rate: float, noise: float, rounds: int, spread: int) -> None:
    slack = 1 + 1e-6
    for make in (one_level, two_level, sentences):
        event = make(noise).model_copy(update={"rate": rate})
        base = _epsilon(event, spread, rounds)
        assert base >= 0.0
        quieter = event.model_copy(update={"noise_multiplier": noise * 1.2})
        oftener = event.model_copy(update={"rate": rate * 1.2})
        assert _epsilon(quieter, spread, rounds) <= base * slack
        assert _epsilon(oftener, spread, rounds) * slack >= base
        assert _epsilon(event, spread, rounds + 3) * slack >= base
        assert _epsilon(event, spread + 1, rounds) * slack >= base
        assert _epsilon(event, spread, rounds, each=2) * slack >= base
