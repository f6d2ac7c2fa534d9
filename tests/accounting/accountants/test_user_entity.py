"""Theorem of one-level clipping: against quadrature, dp-accounting and explicit data sets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, norm

from uedp_bench.accounting.accountants import privacy_loss_grid, user_entity
from uedp_bench.accounting.accountants.dominating_pairs import Pair, binomial_mixture
from uedp_bench.accounting.accountants.privacy_loss_grid import (
    STEPS,
    Round,
    compose,
    discretise,
    epsilon_of,
    gaussian_epsilon,
)
from uedp_bench.accounting.accountants.user_entity import (
    COARSE,
    dominating_pairs,
    revealed_pairs,
    user_entity_epsilon,
)
from uedp_bench.accounting.events import Protected, TwoLevelUserEntityGaussian, UserEntityGaussian

DELTA = 1e-5
PAPER = UserEntityGaussian(rate=50 / 946, noise_multiplier=102.0, users=946)


def _epsilon(event: UserEntityGaussian, rounds: int, spread: int) -> float:
    return user_entity_epsilon(((event, rounds),), Protected(spread=spread), DELTA)


@pytest.mark.parametrize(
    ("spread", "expected", "digits"),
    [(0, 0.00881, 5), (1, 0.0303, 4), (3, 0.0771, 4), (10, 0.256, 3), (30, 0.819, 3),
     (100, 3.08, 2), (945, 52.6, 1)],
)  # fmt: skip
def test_curve_at_the_published_noise(spread: int, expected: float, digits: int) -> None:
    assert round(_epsilon(PAPER, 50, spread), digits) == expected


@pytest.mark.parametrize(
    ("spread", "expected"), [(0, 0.0116), (1, 0.0314), (3, 0.0776), (10, 0.256)]
)
def test_a_coarse_grid_is_larger_and_known(spread: int, expected: float) -> None:
    """On a grid of 1e-3 nats the small values are larger: the discretisation errs upward."""
    values = []
    for pair in dominating_pairs(PAPER, Protected(spread=spread)):
        coarse = discretise(Round(((1.0, pair),), 50), [pair.window()], 1e-3)
        values.append(compose([coarse], [50]).epsilon(DELTA))
    assert float(f"{max(values):.3g}") == expected
    assert max(values) >= _epsilon(PAPER, 50, spread)


@pytest.mark.parametrize("spread", [0, 3, 100])
@pytest.mark.parametrize("noise", [1.0, 30.0])
def test_a_finer_grid_never_gives_more(spread: int, noise: float) -> None:
    event = UserEntityGaussian(rate=0.05, noise_multiplier=noise, users=200)
    for pair in dominating_pairs(event, Protected(spread=spread)):
        part = [Round(((1.0, pair),), 30)]
        values = [epsilon_of(part, DELTA, steps=steps) for steps in (5, 10, 20, 40, 100, 400)]
        assert all(fine <= coarse * (1 + 1e-9) for coarse, fine in pairwise(values))
        assert values[-2] <= values[-1] * 1.001  # and the grid in use is fine enough


@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "interval"),
    [
        (50 / 946, 102.0, 50, 2e-6),
        (0.01, 1.0, 1000, 1e-4),
        (0.01, 0.7, 500, 1e-4),
        (0.3, 2.0, 3, 1e-4),
        (1.0, 4.0, 5, 1e-4),
    ],
)
def test_spread_0_is_user_level(rate: float, noise: float, rounds: int, interval: float) -> None:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=interval)
    event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    accountant.compose(event, rounds)
    ours = _epsilon(UserEntityGaussian(rate=rate, noise_multiplier=noise, users=10), rounds, 0)
    assert ours == pytest.approx(accountant.get_epsilon(DELTA), rel=2e-4)


@pytest.mark.parametrize(("rounds", "delta"), [(100, 1e-9), (5_000, 1e-10), (14_062, 1e-8)])
def test_small_deltas_are_not_lost_in_rounding(rounds: int, delta: float) -> None:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=5e-4)
    accountant.compose(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1)), rounds)
    event = UserEntityGaussian(rate=0.01, noise_multiplier=1.1, users=100)
    ours = user_entity_epsilon(((event, rounds),), Protected(spread=0), delta)
    assert ours == pytest.approx(accountant.get_epsilon(delta), rel=1e-3)


def _quadrature(spread: int, rate: float, noise: float, epsilon: float, adding: bool) -> float:
    """One round's hockey-stick divergence, from the densities alone."""
    above, below = (spread, spread + 1) if adding else (spread + 1, spread)

    def difference(x: float) -> float:
        i, j = np.arange(above + 1), np.arange(below + 1)
        upper = binom.pmf(i, above, rate) @ norm.pdf(x, i, noise)
        lower = binom.pmf(j, below, rate) @ norm.pdf(x, -j, noise)
        return max(0.0, float(upper - math.exp(epsilon) * lower))

    edges = np.linspace(-below - 9 * noise, above + 9 * noise, 9)
    return sum(quad(difference, a, b, limit=200)[0] for a, b in pairwise(edges))


@pytest.mark.parametrize("adding", [False, True])
@pytest.mark.parametrize(
    ("spread", "rate", "noise"), [(0, 0.3, 0.7), (1, 0.3, 0.7), (2, 0.1, 1.5), (4, 0.5, 3.0)]
)
def test_one_round_by_quadrature(spread: int, rate: float, noise: float, adding: bool) -> None:
    event = UserEntityGaussian(rate=rate, noise_multiplier=noise, users=10)
    pair = dominating_pairs(event, Protected(spread=spread))[int(adding)]
    epsilons = np.array([-0.4, 0.0, 0.5, 1.3])
    expected = [_quadrature(spread, rate, noise, eps, adding) for eps in epsilons]
    np.testing.assert_allclose(pair.deltas(epsilons), expected, rtol=1e-6, atol=1e-10)


@settings(deadline=None, max_examples=12)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.9), st.floats(0.4, 3.0))
def test_no_pair_of_data_sets_beats_the_theorem(seed: int, rate: float, noise: float) -> None:
    """Two affected users, arbitrary clipped updates in one dimension, arbitrary threshold sets."""
    rng = np.random.default_rng(seed)
    before, after = rng.uniform(-1, 1, 2), rng.uniform(-1, 1, 3)
    x = np.linspace(-3 - 8 * noise, 3 + 8 * noise, 6001)

    def density(updates: np.ndarray) -> np.ndarray:
        total = np.zeros_like(x)
        for coins in np.ndindex(*(2,) * updates.size):
            drawn = np.array(coins)
            weight = np.prod(np.where(drawn == 1, rate, 1 - rate))
            total += weight * norm.pdf(x, float(drawn @ updates), noise)
        return total

    event = UserEntityGaussian(rate=rate, noise_multiplier=noise, users=5)
    remove, add = dominating_pairs(event, Protected(spread=2))
    epsilons = np.array([0.0, 0.3, 1.0])
    width = x[1] - x[0]
    for upper, lower, pair in ((after, before, remove), (before, after, add)):
        gaps = density(upper)[None] - np.exp(epsilons)[:, None] * density(lower)[None]
        assert np.all(np.maximum(gaps, 0).sum(axis=1) * width <= pair.deltas(epsilons) + 1e-7)


def test_shared_values_raise_the_divergence() -> None:
    exact = Pair(binomial_mixture(300, 0.3, 1), binomial_mixture(299, 0.3, -1), 60.0)
    short = Pair(
        binomial_mixture(300, 0.3, 1, terms=40), binomial_mixture(299, 0.3, -1, terms=40), 60.0
    )
    assert short.upper.centres.size <= 40 < exact.upper.centres.size
    epsilons = np.linspace(-2.0, 12.0, 30)
    assert np.all(short.deltas(epsilons) >= exact.deltas(epsilons))
    np.testing.assert_allclose(short.deltas(epsilons)[:10], exact.deltas(epsilons)[:10], rtol=0.1)


@pytest.mark.parametrize(("count", "rate"), [(945, 50 / 946), (10_000, 0.5), (30, 0.01)])
def test_binomial_tails_left_out_are_counted(count: int, rate: float) -> None:
    mixture = binomial_mixture(count, rate, 1)
    top, bottom = mixture.centres[-1], mixture.centres[0]
    outside = binom.sf(top, count, rate)
    if mixture.centres.size == top - bottom + 1:  # not shared: the lowest value is exact
        outside += binom.cdf(bottom - 1, count, rate)
    assert outside <= mixture.lost
    assert np.exp(mixture.log_weights).sum() == pytest.approx(1.0, abs=1e-9)


def test_edges() -> None:
    assert _epsilon(PAPER, 0, 10) == 0.0
    assert _epsilon(PAPER.model_copy(update={"rate": 0.0}), 5, 10) == 0.0
    assert _epsilon(PAPER.model_copy(update={"noise_multiplier": 0.0}), 5, 10) == math.inf
    large = UserEntityGaussian(rate=0.04, noise_multiplier=28.0, users=946)
    shift = 2 * 322 * 0.04 * math.sqrt(1424) / 28.0  # of the mean sum, in noise deviations
    quantile = norm.isf(DELTA) * shift
    assert _epsilon(large, 1424, 322) == pytest.approx(shift**2 / 2 + quantile, rel=0.06)
    huge = _epsilon(PAPER.model_copy(update={"noise_multiplier": 1e-6}), 5, 900)
    assert 1e15 < huge < math.inf


@pytest.mark.parametrize(
    ("rate", "noise", "spread", "each", "winner"),
    [(0.025, 0.575, 3, 1, "B"), (0.001, 30.0, 1, 1, "A"), (0.01, 30.0, 2, 1, "B"),
     (0.004, 20.0, 1, 1, "A"), (0.1, 1.2, 0, 1, "A"), (0.05, 2.0, 4, 12, "A")],
)  # fmt: skip
def test_the_theorem_that_is_left_out_is_the_larger(
    rate: float, noise: float, spread: int, each: int, winner: str
) -> None:
    """Two-level clipping: the coarse look never costs the smaller of the two values."""
    event = TwoLevelUserEntityGaussian(
        rate=rate, noise_multiplier=noise, users=1000, sentence_bound=1 / 6
    )
    point = Protected(spread=spread, sentences_per_user=each)
    one = [Round(((1.0, pair),), 60) for pair in dominating_pairs(event, point)]
    two = revealed_pairs(event, point, 60)
    values = {
        name: max(epsilon_of([side], DELTA) for side in sides)
        for name, sides in (("A", one), ("B", two))
    }
    assert user_entity_epsilon(((event, 60),), point, DELTA) == min(values.values())
    assert values[winner] == min(values.values())


@pytest.mark.parametrize("spread", [0, 3, 10])
def test_fewer_steps_err_upward_and_little(spread: int) -> None:
    rounds, point = ((PAPER, 50),), Protected(spread=spread)
    fine, coarse = (user_entity_epsilon(rounds, point, DELTA, steps) for steps in (STEPS, COARSE))
    assert fine <= coarse <= 1.01 * fine


@pytest.mark.parametrize(("rate", "rounds"), [(0.01, 1), (0.01, 300), (0.2, 30)])
def test_the_direction_that_a_coarse_grid_leaves_out_is_the_smaller_one(
    monkeypatch: pytest.MonkeyPatch, rate: float, rounds: int
) -> None:
    grids: list[int] = []

    def counted(sides: Sequence[Round], delta: float, *, steps: int) -> float:
        grids.append(steps)
        return epsilon_of(sides, delta, steps=steps)

    monkeypatch.setattr(user_entity, "epsilon_of", counted)
    event = UserEntityGaussian(rate=rate, noise_multiplier=1.3, users=50)
    for spread in (0, 2, 20):
        grids.clear()
        point = Protected(spread=spread)
        epsilon = user_entity._two_level([(event, rounds)], point, DELTA, STEPS)
        both = user_entity._sides([(event, rounds)], point, revealed=False)
        assert epsilon == max(epsilon_of(side, DELTA) for side in both)
        if not spread:
            assert grids == [COARSE, COARSE, STEPS]  # whoever is alone costs more to remove


def test_rounds_so_many_that_rounding_drowns_them_are_not_transformed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(privacy_loss_grid, "_convolved", None)
    event = UserEntityGaussian(rate=0.05, noise_multiplier=4e4, users=946)
    everybody = gaussian_epsilon(7 * math.sqrt(2**31) / 4e4, DELTA)
    assert _epsilon(event, 2**31, 3) == pytest.approx(everybody, rel=1e-9)
