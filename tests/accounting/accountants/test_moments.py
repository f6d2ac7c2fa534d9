"""Claims as published: Sections V-VI of the UeDP paper (delta 1e-5, q_e = 0.5, q_s = 1)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.accounting.accountants.moments import log_moment, moments_epsilon

DELTA = 1e-5
# users per round, users, sensitive sentences, sentences; then f_E+, f_E and user level at T = 50
FIGURE_4 = {
    "conll2003": (50, 946, 11_176, 14_040, 0.52, 0.62, 1.18),
    "ag-news": (500, 7_536, 67_157, 112_000, 0.50, 0.75, 1.48),
    "sec": (100, 1_592, 2_166, 5_188, 0.40, 0.71, 1.40),
}


def _rates(name: str) -> tuple[float, float, float]:
    drawn, users, sensitive, sentences, *_ = FIGURE_4[name]
    rate = drawn / users
    return rate * 0.5 * sensitive / sentences, rate * 0.5, rate


@pytest.mark.parametrize("name", FIGURE_4)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_figure_4_lies_between_round_50_and_51(name: str, which: int) -> None:
    rate, published = _rates(name)[which], FIGURE_4[name][4 + which]
    first, last = (round(moments_epsilon(rate, 2.0, t, DELTA), 2) for t in (50, 51))
    assert first <= published <= last
    assert last - first < 0.025


@pytest.mark.parametrize(
    ("name", "which", "published"),
    [
        ("conll2003", 0, 0.52),
        ("conll2003", 2, 1.18),
        ("ag-news", 0, 0.50),
        ("ag-news", 1, 0.75),
        ("sec", 0, 0.40),
        ("sec", 1, 0.71),
    ],
)
def test_figure_4_to_the_printed_digits(name: str, which: int, published: float) -> None:
    assert round(moments_epsilon(_rates(name)[which], 2.0, 50, DELTA), 2) == published


@pytest.mark.parametrize(
    ("sensitive", "published"),
    [(60, 0.19), (273, 0.24), (357, 0.26), (1_955, 0.73), (2_166, 0.81), (None, 4.08)],
)
def test_sec_after_500_rounds(sensitive: int | None, published: float) -> None:
    rate = 100 / 1_592 * (1.0 if sensitive is None else 0.5 * sensitive / 5_188)
    assert round(moments_epsilon(rate, 2.0, 500, DELTA), 2) == published


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
