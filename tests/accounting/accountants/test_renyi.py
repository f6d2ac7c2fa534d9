"""Renyi divergences: dp-accounting's at integer orders, closed forms, and integrals done anew."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import binom, norm

from uedp_bench.accounting.accountants.dp_accounting import rdp_epsilon
from uedp_bench.accounting.accountants.renyi import ORDERS, log_moment, moments_epsilon, renyi
from uedp_bench.accounting.events import (
    ApproximateDP,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    Protected,
    PureDP,
    Repeated,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import Refusal

ALONE = Protected(spread=0)


def index_of(order):
    return int(np.argmin(np.abs(ORDERS - order)))


def poisson(rate, noise):
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))


@pytest.mark.parametrize(("rate", "noise"), [(0.01, 1.0), (0.3, 0.7), (0.05, 20.0), (1.0, 3.0)])
def test_sampled_gaussian_is_dp_accountings_at_integer_orders(rate, noise):
    from dp_accounting import dp_event as dp
    from dp_accounting.rdp import RdpAccountant

    ours = renyi([poisson(rate, noise)], "add-or-remove", ALONE)
    for order in (2, 3, 11, 32, 64, 256):
        accountant = RdpAccountant([order])
        accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)))
        assert ours[index_of(order)] == pytest.approx(accountant._rdp[0], rel=1e-9)


def test_gaussian_has_its_closed_form_and_replacing_doubles_the_distance():
    event = Gaussian(noise_multiplier=2.0)
    assert renyi([event], "add-or-remove", ALONE) == pytest.approx(ORDERS / 8.0)
    assert renyi([event], "replace-one", ALONE) == pytest.approx(ORDERS / 2.0)
    twice = renyi([Repeated(count=2, event=event)], "add-or-remove", ALONE)
    assert twice == pytest.approx(ORDERS / 4.0)


def test_fixed_size_rounds_give_the_epsilon_of_the_renyi_accountant():
    from dp_accounting.rdp import compute_epsilon

    base = FixedSizeSampled(population=1000, sample=50, event=Gaussian(noise_multiplier=4.0))
    ours = renyi([Repeated(count=100, event=base)], "replace-one", ALONE)
    kept = np.isfinite(ours)
    epsilon = compute_epsilon(ORDERS[kept], ours[kept], 1e-5)[0]
    assert epsilon == pytest.approx(2.4925, abs=1e-3)
    assert epsilon == pytest.approx(rdp_epsilon([(base, 100)], "replace-one", 1e-5), rel=1e-3)
    with pytest.raises(Refusal, match="replace-one"):
        renyi([base], "add-or-remove", ALONE)


def brute(upper, lower, scale, order):
    """D(P || Q) of two binomial mixtures by scipy's adaptive quadrature."""

    def log_density(parts, x):
        return logsumexp([math.log(w) + norm.logpdf(x, centre, scale) for w, centre in parts])

    def integrand(x):
        return math.exp(order * log_density(upper, x) + (1 - order) * log_density(lower, x))

    far = order * sum(abs(parts[-1][1]) for parts in (upper, lower)) + 12 * scale
    total, _ = quad(integrand, -far, far, limit=500, epsabs=0, epsrel=1e-10)
    return math.log(total) / (order - 1)


def parts(count, rate, sign, unit=1.0, shift=0.0):
    return [(binom.pmf(i, count, rate), sign * (unit * i + shift)) for i in range(count + 1)]


@pytest.mark.parametrize("order", [1.5, 4.5])
def test_user_entity_rounds_are_the_integral_over_the_opposed_pair(order):
    event = UserEntityGaussian(rate=0.3, noise_multiplier=1.5, users=50)
    ours = renyi([event], "add-or-remove", Protected(spread=2))[index_of(order)]
    one = brute(parts(3, 0.3, 1), parts(2, 0.3, -1), 1.5, order)
    other = brute(parts(2, 0.3, 1), parts(3, 0.3, -1), 1.5, order)
    assert ours == pytest.approx(max(one, other), rel=1e-8)


@pytest.mark.parametrize("order", [1.5, 4.5])
def test_sentence_rounds_are_the_integral_over_the_group(order):
    event = SentenceSampledGaussian(rate=0.2, noise_multiplier=1.2, sentences_per_user=2, users=9)
    point = Protected(spread=1, sentences_per_user=2)
    ours = renyi([event], "add-or-remove", point)[index_of(order)]
    single = [(1.0, 0.0)]
    one = brute(parts(4, 0.2, 1), single, 1.2, order)
    other = brute(single, parts(4, 0.2, -1), 1.2, order)
    assert ours == pytest.approx(max(one, other), rel=1e-8)


def test_two_level_rounds_average_over_the_coins_of_the_others():
    order, rho, noise, rate = 3.0, 0.4, 1.1, 0.25
    event = TwoLevelUserEntityGaussian(
        rate=rate, noise_multiplier=noise, users=50, sentence_bound=0.2
    )
    point = Protected(spread=2, sentences_per_user=2)
    moment = sum(
        binom.pmf(j, 2, rate)
        * math.exp(
            (order - 1) * brute(parts(1, rate, 1, shift=rho * j), [(1.0, 0.0)], noise, order)
        )
        for j in range(3)
    )
    ours = renyi([event], "add-or-remove", point)[index_of(order)]
    assert ours == pytest.approx(math.log(moment) / (order - 1), rel=1e-7)


def test_divergences_grow_with_the_order_and_the_spread_and_never_exceed_no_sampling():
    values = [
        renyi([UserEntityGaussian(rate=0.05, noise_multiplier=5.0, users=946)], "add-or-remove",
              Protected(spread=k))
        for k in (0, 1, 3, 10, 100, 945)
    ]  # fmt: skip
    for before, after in itertools.pairwise(values):
        assert (after >= before - 1e-12).all()
    for k, value in zip((0, 1, 3, 10, 100, 945), values, strict=True):
        assert (np.diff(value) >= -1e-9 * value[1:]).all()
        assert (value <= ORDERS * (2 * k + 1) ** 2 / 50.0 * (1 + 1e-9)).all()


def test_degenerate_rounds():
    point = Protected(spread=3)
    still = UserEntityGaussian(rate=0.0, noise_multiplier=1.0, users=9)
    bare = UserEntityGaussian(rate=0.1, noise_multiplier=0.0, users=9)
    assert renyi([still], "add-or-remove", point) == pytest.approx(0.0)
    assert np.isinf(renyi([bare], "add-or-remove", point)).all()
    assert np.isinf(renyi([poisson(0.1, 0.0)], "add-or-remove", ALONE)).all()
    assert renyi([], "add-or-remove", ALONE) == pytest.approx(0.0)
    # Nobody beyond the public number of users mentions anything.
    event = UserEntityGaussian(rate=0.1, noise_multiplier=2.0, users=9)
    assert renyi([event], "add-or-remove", Protected(spread=8)) == pytest.approx(
        renyi([event], "add-or-remove", Protected(spread=800))
    )


def test_pure_dp_is_concentrated_and_what_has_no_divergence_is_refused():
    value = renyi([PureDP(epsilon=0.1)], "replace-one", ALONE)
    assert value[index_of(2.0)] == pytest.approx(0.01)
    assert value[-1] == pytest.approx(0.1)
    with pytest.raises(Refusal, match="approximate-dp"):
        renyi([ApproximateDP(epsilon=1.0, delta=1e-6)], "add-or-remove", ALONE)


DELTA = 1e-5


@pytest.mark.parametrize(
    ("drawn", "sensitive", "rounds"),
    [
        (25, 4_406, (1, 50, 99, 148, 197)),
        (20, 5_187, (1, 56, 112, 167, 223)),
        (10, 11_176, (1, 48, 96, 143, 191)),
    ],
)
def test_rounds_that_reach_each_epsilon(
    drawn: int, sensitive: int, rounds: tuple[int, ...]
) -> None:
    rate = drawn / 946 * 0.5 * sensitive / 14_040
    for epsilon, last in zip((0.18, 0.185, 0.19, 0.195, 0.20), rounds, strict=True):
        assert moments_epsilon(rate, 2.5, last, DELTA) <= epsilon
        assert moments_epsilon(rate, 2.5, last + 1, DELTA) > epsilon


def test_64_orders_cannot_say_less_than_018() -> None:
    assert moments_epsilon(1e-6, 50.0, 1, DELTA) == pytest.approx(math.log(1e5) / 64)


@pytest.mark.parametrize("order", [1, 2, 7, 64])
def test_unsampled_moment_in_closed_form(order: int) -> None:
    assert log_moment(1.0, 1.7, order) == pytest.approx(order * (order + 1) / (2 * 1.7**2))


@pytest.mark.parametrize(("rate", "order"), [(0.01, 3), (0.2, 8)])
def test_moment_by_quadrature(rate: float, order: int) -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    def integrand(x: float) -> float:
        ratio = 1 - rate + rate * math.exp((2 * x - 1) / (2 * 2.0**2))
        return float(norm.pdf(x, 0, 2.0)) * ratio ** (order + 1)

    value, _ = quad(integrand, -60, 60, points=[0, 5], limit=400)
    assert log_moment(rate, 2.0, order) == pytest.approx(math.log(value), rel=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.floats(0.001, 0.9), st.floats(0.5, 20.0), st.integers(1, 500), st.floats(1.05, 1.1))
def test_more_exposure_costs_more(rate: float, noise: float, rounds: int, more: float) -> None:
    base = moments_epsilon(rate, noise, rounds, DELTA)
    assert moments_epsilon(rate, noise * more, rounds, DELTA) <= base + 1e-12
    assert moments_epsilon(rate * more, noise, rounds, DELTA) >= base - 1e-12
    assert moments_epsilon(rate, noise, rounds + 1, DELTA) >= base


def test_no_noise_is_infinite() -> None:
    assert moments_epsilon(0.1, 0.0, 1, DELTA) == math.inf
