"""The tempting shortcut for two-level clipping is unsound, and our accountant does not take it.

The shortcut says: in a round the sum moves by i + rho j, i ~ Bern(q) for the protected user and
j ~ Bin(k, q) for the others, so account for the mixture of Gaussians with these sensitivities
against a single Gaussian. But both sums contain the other users: where their updates move from one
vector to another, both laws are mixtures, and the sum tells how many of them took part.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.fft import irfft, rfft
from scipy.stats import binom, norm

from uedp_bench.accounting.calibrate import smallest_noise
from uedp_bench.accounting.events import Protected, TwoLevelUserEntityGaussian
from uedp_bench.accounting.losses import Round, epsilon_of
from uedp_bench.accounting.pairs import Mixture, Pair
from uedp_bench.accounting.user_entity import user_entity_epsilon

Array = NDArray[np.float64]
SPREAD, RATE, ROUNDS, RHO, DELTA = 10, 0.1, 60, 1 / 6, 1e-5
OWN, OTHERS = np.arange(2.0), np.arange(SPREAD + 1.0)
WEIGHTS = np.outer(binom.pmf(OWN, 1, RATE), binom.pmf(OTHERS, SPREAD, RATE)).ravel()


def _shortcut(noise: float) -> float:
    moves = np.add.outer(OWN, RHO * OTHERS).ravel()
    order = np.argsort(moves)
    up = Mixture(np.log(WEIGHTS[order]), moves[order])
    down = Mixture(up.log_weights, -up.centres)
    nothing = Mixture(np.zeros(1), np.zeros(1))
    pairs = Pair(up, nothing, noise), Pair(nothing, down, noise)
    return max(epsilon_of([Round(((1.0, pair),), ROUNDS)], DELTA) for pair in pairs)


@pytest.fixture(scope="module")
def noise() -> float:
    """At which the shortcut says epsilon 8."""
    return smallest_noise(_shortcut, 8.0)


def _refuted_epsilon(
    upper: tuple[Array, Array], lower: tuple[Array, Array], noise: float, step: float = 2e-3
) -> float:
    """A lower bound of the exact epsilon of all rounds, for two laws on the line.

    Masses of cells (post-processing), losses rounded down, composed by Fourier transform.
    """
    edges = np.linspace(-11 * noise, SPREAD + 1 + 11 * noise, 60_001)
    masses = []
    for weights, centres in (upper, lower):
        total: Array = np.zeros(edges.size - 1)
        for weight, centre in zip(weights, centres, strict=True):
            total += weight * np.diff(norm.cdf((edges - centre) / noise))
        masses.append(total)
    kept = (masses[0] > 1e-25) & (masses[1] > 1e-300)
    loss = np.floor(np.log(masses[0][kept] / masses[1][kept]) / step).astype(int)
    counts = np.bincount(loss - loss.min(), masses[0][kept])
    size = 1 << 18  # over 500 nats, many deviations: nothing that matters wraps round
    start = int(ROUNDS * (counts @ np.arange(counts.size)) - size / 2)
    assert counts.size < size
    composed = np.maximum(np.roll(irfft(rfft(counts, size) ** ROUNDS, size), -(start % size)), 0)
    losses = step * (ROUNDS * loss.min() + start + np.arange(size))

    def delta(epsilon: float) -> float:
        above = losses > epsilon
        return float(-np.expm1(epsilon - losses[above]) @ composed[above])

    low, high = 0.0, 100.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if delta(middle) > DELTA else (low, middle)
    return low


def _pair(after: float) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Ten users send `after` where the entity is there and RHO less where not; one sends 1."""
    assert abs(after) <= 1 and abs(after - RHO) <= 1
    present = np.add.outer(OWN, after * OTHERS).ravel()
    return (WEIGHTS, present), (binom.pmf(OTHERS, SPREAD, RATE), (after - RHO) * OTHERS)


def _ours(noise: float) -> float:
    event = TwoLevelUserEntityGaussian(
        rate=RATE, noise_multiplier=noise, users=SPREAD + 1, sentence_bound=RHO
    )
    return user_entity_epsilon(((event, ROUNDS),), Protected(spread=SPREAD), DELTA)


def test_the_shortcut_is_unsound_and_not_taken(noise: float) -> None:
    assert _shortcut(noise) == pytest.approx(8.0, rel=1e-3)
    # With nothing in common the shortcut is right, and the lower bound is nearly as large.
    assert 7.85 < _refuted_epsilon(*_pair(RHO), noise) < 8.0
    exact = _refuted_epsilon(*_pair(2 / 3), noise)
    assert exact > 8.8
    assert _ours(noise) >= exact


@pytest.mark.parametrize("after", [-1 + RHO, 0.0, RHO / 2, 0.5, 2 / 3, 1.0])
def test_our_noise_for_epsilon_8_holds_on_such_pairs(after: float) -> None:
    ours = smallest_noise(_ours, 8.0)
    present, absent = _pair(after)
    assert _refuted_epsilon(present, absent, ours) < 8.0
    mirrored = (absent[0], -absent[1]), (present[0], -present[1])
    assert _refuted_epsilon(*mirrored, ours) < 8.0
    assert math.isclose(_ours(ours), 8.0, rel_tol=1e-3)
