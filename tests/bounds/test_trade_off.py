"""Whole trade-off curves: what they allow, how seldom a true one is refuted, how soon a false."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.bounds.audits import Sides, Trials, curve_evidence
from uedp_bench.bounds.one_run import one_run_p_value
from uedp_bench.bounds.trade_off import PERFECT, TradeOffCurve, refutes


def gaussian_curve(mu: float) -> TradeOffCurve:
    return TradeOffCurve.sampled(lambda delta: gaussian_epsilon(mu, delta))


def drawn(mu: float, canaries: int, seed: int) -> Sides:
    rng = np.random.default_rng(seed)
    included = rng.random(canaries) < 0.5
    scores = rng.normal(mu * included)
    return Sides(scores[included], scores[~included])


def evidence(one_run: Sides, trials: Sides | None = None, error: float = 1e-6):
    return curve_evidence(one_run, None if trials is None else Trials(trials), error)


@pytest.mark.parametrize("mu", [0.0, 0.3, 1.1547, 1.666, 4.0])
def test_points_allow_no_less_than_the_gaussian_curve(mu):
    curve, x = gaussian_curve(mu), np.linspace(1e-6, 1.0 - 1e-6, 999)
    least = np.array([curve.least(p) for p in x])
    exact = norm.cdf(norm.ppf(x) - mu)
    assert (least <= exact + 1e-9).all()
    assert (exact - least).max() < 0.02
    assert 0.0 <= curve.fair_coin - norm.cdf(mu / 2.0) < 0.01


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 1e-5), (3.0, 0.1)])
def test_a_single_point_is_its_own_curve(epsilon, delta):
    curve = TradeOffCurve.from_points([(epsilon, delta)])
    coin = (np.exp(epsilon) + delta) / (1.0 + np.exp(epsilon))
    assert curve.fair_coin == pytest.approx(coin)
    assert curve.least(1.0) == pytest.approx(1.0 - delta)
    assert curve.least(delta) == pytest.approx(max(0.0, 1 - delta - np.exp(epsilon) * (1 - delta)))


def test_an_infinite_epsilon_allows_everything():
    assert TradeOffCurve.from_points([(np.inf, 1e-5)]).least(1.0) == 0.0


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.1547])
def test_a_true_curve_is_refuted_seldom(mu):
    curve = gaussian_curve(mu)
    one_run = [refutes(evidence(drawn(mu, 200, seed), None, 0.05), curve) for seed in range(300)]
    both = [
        refutes(evidence(drawn(mu, 200, seed), drawn(mu, 60, 900 + seed), 0.05), curve)
        for seed in range(300)
    ]
    assert max(sum(one_run), sum(both)) <= 15  # 5 %


def test_a_false_curve_is_refuted_before_its_point():
    """In one training whose canaries are all told apart, at an error of 1e-6."""
    claim, counts = gaussian_curve(0.8), evidence(drawn(20.0, 1000, 1))
    assert refutes(counts, claim)
    epsilon = gaussian_epsilon(0.8, 1e-10)
    for made, right in counts.guesses:
        assert one_run_p_value(1000, made, right, epsilon=epsilon, delta=1e-10) > 1e-6


def test_trainings_refute_half_of_the_noise_and_its_point_never():
    claim, epsilon = gaussian_curve(1.1547), gaussian_epsilon(1.1547, 1e-5)
    trials = drawn(2.0 * 1.1547, 1000, 1)
    assert refutes(evidence(Sides(np.zeros(30), np.zeros(30)), trials), claim)
    assert trials.bound("clopper-pearson", 1e-5)(1.0 - 1e-6) < epsilon / 2.0


def test_trainings_alone_refute_a_curve():
    nothing = Sides(np.zeros(30), np.zeros(30))
    counts = evidence(nothing, drawn(4.0, 200, 1))
    assert refutes(counts, gaussian_curve(1.0))
    assert not refutes(counts, gaussian_curve(4.0))
    assert not refutes(evidence(nothing, drawn(0.0, 200, 1)), PERFECT)
