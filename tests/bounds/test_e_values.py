"""Evidence over retrainings: published values, and errors however early somebody stops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.bounds.audits import Sides, Trials, curve_evidence
from uedp_bench.bounds.e_values import (
    Bets,
    e_value_bound,
    e_values,
    place_bets,
    right_at_most,
)
from uedp_bench.bounds.trade_off import TradeOffCurve, refutes


def fixed(outcomes: str, chance: float) -> Bets:
    right = np.array([outcome == "1" for outcome in outcomes])
    return Bets(np.full(len(right), chance), right)


def trainings(mu: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    included = rng.random(count) < 0.5
    included[:2] = True, False
    return rng.normal(mu * included), included


def test_published_values():
    found = e_values(fixed("11101", 0.9), right_at_most(1.0, 0.0))
    assert found == pytest.approx([1.231091, 1.515586, 1.865825, 0.693766, 0.854090], abs=1e-6)


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
