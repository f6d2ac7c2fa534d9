"""Rounds, units and sampling rates at their ends: memory has a limit, and epsilon is safe."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from uedp_bench.accounting.accountants import dominating_pairs, dp_accounting, privacy_loss_grid
from uedp_bench.accounting.accountants import renyi as renyi_of
from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.accountants.dominating_pairs import Pair, binomial_mixture
from uedp_bench.accounting.accountants.dp_accounting import pld_epsilon, rdp_epsilon
from uedp_bench.accounting.accountants.privacy_loss_grid import Round, epsilon_of
from uedp_bench.accounting.accountants.user_entity import dominating_pairs as pairs_of
from uedp_bench.accounting.events import (
    Gaussian,
    PoissonSampled,
    Protected,
    Repeated,
    SentenceSampledGaussian,
    UserEntityGaussian,
)

ALONE = Protected(spread=0)
MOST_MEMORY = 500_000_000


def sampled(rate: float, noise: float) -> PoissonSampled:
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))


# dp-accounting's own values at grid steps of 1e-5: from (0.997 of it) to a few percent above.
def test_small_rates_take_bounded_memory_and_stay_tight():
    events, finest = [(sampled(1e-6, 0.6), 100_000)], 0.015015
    tracemalloc.start()
    epsilon = pld_epsilon(events, "add-or-remove", 1e-8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert 0.997 * finest <= epsilon <= 1.03 * finest


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
def test_a_grid_that_is_too_fine_is_made_coarser_on_the_safe_side(monkeypatch, adjacency):
    events = [(sampled(0.02, 0.8), 400), (Gaussian(noise_multiplier=9.0), 7)]
    fine = pld_epsilon(events, adjacency, 1e-5)
    for points, composed in ((1 << 12, 1 << 21), (1 << 17, 1 << 13)):
        monkeypatch.setattr(dp_accounting, "_POINTS", points)
        monkeypatch.setattr(dp_accounting, "_COMPOSED", composed)
        dp_accounting._affordable_step.cache_clear()
        dp_accounting._pld_epsilon.cache_clear()
        assert 0.999 * fine <= pld_epsilon(events, adjacency, 1e-5) <= 1.03 * fine
    dp_accounting._affordable_step.cache_clear()
    dp_accounting._pld_epsilon.cache_clear()


@pytest.mark.parametrize("largest", [1 << 9, 1 << 11, 1 << 13])
def test_a_shorter_composition_never_lowers_epsilon(monkeypatch, largest):
    for event, count in ((sampled(0.01, 0.5), 300), (sampled(0.3, 3.0), 40)):
        for pair in pairs_of(event, ALONE):
            rounds = [Round(((1.0, pair),), count)]
            monkeypatch.setattr(privacy_loss_grid, "_LARGEST", 1 << 21)
            fine = epsilon_of(rounds, 1e-6, steps=400)
            monkeypatch.setattr(privacy_loss_grid, "_LARGEST", largest)
            assert epsilon_of(rounds, 1e-6, steps=400) >= fine * (1 - 1e-9)


def test_as_many_rounds_as_may_be_end_soon():
    rounds = 10**12
    tracemalloc.start()
    answer = compose([Repeated(count=rounds, event=sampled(1e-5, 1.0))], "add-or-remove", 1e-5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST_MEMORY
    # The smaller of two accountants, both of which were asked, under its name.
    assert answer.accountant == "rdp"
    assert answer.epsilon == min(answer.values.values()) < answer.values["pld"]
    assert answer.values["rdp"] == pytest.approx(
        rdp_epsilon([(sampled(1e-5, 1.0), rounds)], "add-or-remove", 1e-5), rel=1e-6
    )


# Epsilons of the Gaussian limit (one round: exact). Rounding takes all of these divergences away.
@pytest.mark.parametrize(
    ("rate", "noise", "rounds", "delta", "exact"),
    [
        (1e-6, 1e5, 1, 1e-12, 9.02e-12),
        (0.5, 1e8, 10**12, 1e-5, 0.01251),
        (1e-3, 1e6, 10**12, 1e-6, 0.002718),
    ],
)
def test_rounding_leaves_no_epsilon_of_0(rate, noise, rounds, delta, exact):
    event = sampled(rate, noise)
    assert rdp_epsilon([(event, rounds)], "add-or-remove", delta) >= exact
    divergences = renyi_of.renyi([Repeated(count=rounds, event=event)], "add-or-remove", ALONE)
    assert renyi_of.renyi_epsilon(divergences, delta) >= exact


@pytest.mark.parametrize("count", [11, 40, 300])
def test_coins_that_are_not_told_apart_cost_no_less(monkeypatch, count):
    epsilons = np.linspace(-3.0, 6.0, 41)
    fine = [Pair(binomial_mixture(count, 0.2, 1), binomial_mixture(3, 0.2, -1), 4.0)]
    fine.append(Pair(binomial_mixture(3, 0.2, 1), binomial_mixture(count, 0.2, -1), 4.0))
    monkeypatch.setattr(dominating_pairs, "MOST_COINS", 10)
    coarse = [Pair(binomial_mixture(count, 0.2, 1), binomial_mixture(3, 0.2, -1), 4.0)]
    coarse.append(Pair(binomial_mixture(3, 0.2, 1), binomial_mixture(count, 0.2, -1), 4.0))
    for one, other in zip(fine, coarse, strict=True):
        assert np.all(other.deltas(epsilons) >= one.deltas(epsilons) - 1e-12)
    event = UserEntityGaussian(rate=0.2, noise_multiplier=4.0, users=count + 1)
    point = Protected(spread=count)
    fine_divergences = renyi_of.renyi([event], "add-or-remove", point)
    renyi_of._of_group.cache_clear()
    monkeypatch.setattr(renyi_of, "_MOST_COINS", 10)
    assert np.all(renyi_of.renyi([event], "add-or-remove", point) >= fine_divergences * (1 - 1e-9))
    renyi_of._of_group.cache_clear()


def test_more_sentences_than_anybody_writes_are_no_error():
    event = SentenceSampledGaussian(
        rate=0.1, noise_multiplier=1.0, sentences_per_user=10**12, users=10**12
    )
    answer = compose([Repeated(count=60, event=event)], "add-or-remove", 1e-5)
    assert math.isinf(answer.epsilon)
    assert answer.reason
