"""Whole trade-off curves: what they allow, how seldom a true one is refuted, how soon a false."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.attacks.audit.trials import Sides, Trials, curve_evidence
from uedp_bench.bounds.one_run import one_run_p_value
from uedp_bench.bounds.trade_off import (
    PERFECT,
    Bets,
    TradeOffCurve,
    e_value_bound,
    e_values,
    place_bets,
    refutes,
    right_at_most,
)


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
    for guesses, right in counts.guesses:
        assert one_run_p_value(1000, guesses, right, epsilon=epsilon, delta=1e-10) > 1e-6


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


def fixed(outcomes: str, chance: float) -> Bets:
    right = np.array([outcome == "1" for outcome in outcomes])
    return Bets(np.full(len(right), chance), right)


def trainings(mu: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    included = rng.random(count) < 0.5
    included[:2] = True, False
    return rng.normal(mu * included), included


def test_published_values():
    values = e_values(fixed("11101", 0.9), right_at_most(1.0, 0.0))
    assert values == pytest.approx([1.231091, 1.515586, 1.865825, 0.693766, 0.854090], abs=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "chance", "error", "runs"),
    [(1.0, 0.9, 0.05, 34), (1.0, 0.9, 1e-6, 157), (2.0, 0.99, 0.05, 33), (2.0, 0.9, 0.05, 1624)],
)
def test_expected_number_of_runs(epsilon, chance, error, runs):
    """ln(1 / error) over the growth of the evidence, where bets are at the true chance."""
    right = np.arange(1000) < round(1000 * chance)
    bets = Bets(np.full(1000, chance), right)
    growth = np.log(e_values(bets, right_at_most(epsilon, 0.0)))[-1] / 1000
    assert np.log(1.0 / error) / growth == pytest.approx(runs, rel=0.05)


def test_bets_follow_from_earlier_trainings_alone():
    scores, included = trainings(1.0, 60, 1)
    bets = place_bets(scores, included)
    for number in (2, 17, 40):
        other, coins = scores.copy(), included.copy()
        other[number:] += 100.0
        coins[number:] ^= True
        changed = place_bets(other, coins)
        assert (changed.chances[: number + 1] == bets.chances[: number + 1]).all()
        assert (changed.right[:number] == bets.right[:number]).all()
    assert (bets.chances[:2] == 0.0).all()
    assert (bets.chances[2:] > 0.0).all()


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_looking_after_every_training_costs_nothing(mu):
    """The largest bound and the largest evidence over 100 trainings, in 300 draws."""
    truth, coin = gaussian_epsilon(mu, 1e-5), float(norm.cdf(mu / 2.0))
    above = contradicted = 0
    for seed in range(300):
        bets = place_bets(*trainings(mu, 100, seed))
        above += e_value_bound(bets, 1e-5, 0.95) > truth
        contradicted += e_values(bets, coin).max() >= 20.0
    assert above <= 15
    assert contradicted <= 22  # the 97.5 % point of rate 5 %


def test_a_leak_ends_trainings_early_and_honest_noise_does_not():
    claim = TradeOffCurve.sampled(lambda delta: gaussian_epsilon(0.5, delta))
    nothing = Sides(np.zeros(30), np.zeros(30))
    for mu, refuted in ((0.5, False), (3.0, True)):
        trials = Trials.in_order(*trainings(mu, 200, 3), early=True)
        evidence = curve_evidence(nothing, trials)
        assert len(evidence.bets) == 200
        assert not evidence.rates
        assert refutes(evidence, claim) == refuted
        bound, method = trials.bound(1e-5)
        assert method == "e-values over 200 retrainings"
        assert (bound(0.95) > gaussian_epsilon(0.5, 0.5)) == refuted


def test_nothing_is_refuted_where_everything_is_allowed():
    bets = fixed("1" * 50, 0.99)
    assert (e_values(bets, 1.0) == 1.0).all()
    assert e_value_bound(Bets(np.zeros(0), np.zeros(0, dtype=bool)), 0.0, 0.95) == 0.0
    assert e_value_bound(fixed("10" * 40, 0.5), 0.0, 0.95) == 0.0
    # 50 right guesses of 50: the bound is that of (0.99 / q)^50 = 20.
    q = 0.99 / 20.0**0.02
    assert e_value_bound(bets, 0.0, 0.95) == pytest.approx(np.log(q / (1.0 - q)), abs=0.011)
