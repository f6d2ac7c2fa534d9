"""What the end of a sampler adds to delta: exact divergences of ended noise against theorem D."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.accountants.user_entity import dominating_pairs
from uedp_bench.accounting.events import (
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    Repeated,
    SentenceSampledGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.sampler_end_delta import GAUSSIAN_END

FLOAT32 = 5.7681
"""Where normal numbers of float32 from Box and Muller's method end."""

ALONE = Protected(spread=0)


def density(coins, rate, sign, scale, end, x):
    """(x,) of noise that ends, plus sign times a binomial number; end infinity for none."""
    inside = 1.0 - 2.0 * norm.sf(end)
    out = np.zeros_like(x)
    for number, weight in enumerate(binom.pmf(np.arange(coins + 1), coins, rate)):
        z = (x - sign * number) / scale
        out += weight * np.where(np.abs(z) <= end, norm.pdf(z) / scale / inside, 0.0)
    return out


def both(event, point, end, x):
    """Densities of a round of the worst case with and without the group, on one line."""
    above, below = beyond.contributions(event, point)
    scale = event.noise_multiplier
    return tuple(
        density(coins, event.rate, sign, scale, end, x)
        for coins, sign in ((above, 1.0), (below, -1.0))
    )


def line(event, point, points):
    above, below = beyond.contributions(event, point)
    reach = 9.0 * event.noise_multiplier
    return np.linspace(-below - reach, above + reach, points, retstep=True)


def divergence(p, q, epsilon, volume):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() * volume)


CASES = [
    (UserEntityGaussian(rate=0.3, noise_multiplier=0.9, users=50), ALONE),
    (UserEntityGaussian(rate=0.3, noise_multiplier=0.9, users=50), Protected(spread=1)),
    (UserEntityGaussian(rate=0.1, noise_multiplier=1.5, users=50), Protected(spread=3)),
    (SentenceSampledGaussian(rate=0.2, noise_multiplier=1.2, users=50, sentences_per_user=3),
     Protected(spread=2)),
]  # fmt: skip


@pytest.mark.parametrize("end", [2.0, 3.0, 4.5])
@pytest.mark.parametrize(("event", "point"), CASES)
def test_no_round_of_ended_noise_exceeds_the_bound(event, point, end):
    x, step = line(event, point, 100_001)
    sides = both(event, point, end, x)
    missed = 0
    for (p, q), pair in zip((sides, sides[::-1]), dominating_pairs(event, point), strict=True):
        for epsilon in (0.0, 0.5, 2.0, 4.0, 8.0):
            real = divergence(p, q, epsilon, step)
            ideal = float(pair.deltas(np.array([epsilon]))[0])
            move = beyond.moved(event, "add-or-remove", point)
            added = beyond.mass([(move, 1)], epsilon, end, 1)
            # The grid misses up to a step at every border of a density.
            assert real <= ideal + added + 1e-4
            missed += real > ideal + 3e-4
    # What is added is needed: without it the ended noise is refuted.
    assert missed > 0 or end > 4.0


def test_two_rounds_in_two_dimensions_are_within_the_bound():
    """Rounds compose, and one round of two coordinates with a diagonal update costs its root."""
    event, point, end = UserEntityGaussian(rate=0.4, noise_multiplier=1.0, users=9), ALONE, 2.5
    x, step = line(event, point, 1001)
    p, q = both(event, point, end, x)
    ideal_p, ideal_q = both(event, point, math.inf, x)
    move = beyond.moved(event, "add-or-remove", point)
    for epsilon in (0.5, 2.0, 4.0):
        real = divergence(np.outer(p, p), np.outer(q, q), epsilon, step**2)
        ideal = divergence(np.outer(ideal_p, ideal_p), np.outer(ideal_q, ideal_q), epsilon, step**2)
        assert real <= ideal + beyond.mass([(move, 2)], epsilon, end, 1) + 1e-3
    # One round: the update moves both coordinates by the root of a half.
    side = 1.0 / math.sqrt(2.0)
    none, moved = (density(1, 1.0, shift, 1.0, end, x) for shift in (0.0, side))
    free, far = (density(1, 1.0, shift, 1.0, math.inf, x) for shift in (0.0, side))
    for epsilon in (0.5, 2.0, 4.0):
        mixed = 0.6 * np.outer(none, none) + 0.4 * np.outer(moved, moved)
        ideal_mixed = 0.6 * np.outer(free, free) + 0.4 * np.outer(far, far)
        real = divergence(mixed, np.outer(none, none), epsilon, step**2)
        ideal = divergence(ideal_mixed, np.outer(free, free), epsilon, step**2)
        assert real <= ideal + beyond.mass([(move, 1)], epsilon, end, 2) + 1e-3


def sampled(rate, noise, rounds):
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), rounds


@pytest.mark.parametrize(
    ("event", "rounds", "delta", "certain"),
    [
        (*sampled(0.004, 0.8, 5000), 1e-6, 6.2e-5),
        (*sampled(1 / 200, 0.46, 400), 1e-5, 3.3e-4),
        (*sampled(1 / 200, 0.697, 400), 1e-5, 1.5e-5),
        (*sampled(0.05, 0.694, 100), 1e-5, 3.8e-5),
        (SentenceSampledGaussian(rate=1 / 200, noise_multiplier=0.774, users=12000,
                                 sentences_per_user=6), 400, 1e-5, 1.8e-4),
    ],
)  # fmt: skip
def test_float32_normals_break_what_was_printed_and_those_in_use_do_not(
    event, rounds, delta, certain
):
    move = beyond.moved(event, "add-or-remove", ALONE)
    mass = beyond.identified(move, rounds, FLOAT32)
    assert mass == pytest.approx(certain, rel=0.04)
    assert mass > delta
    unit = "user-entity" if isinstance(event, SentenceSampledGaussian) else "user"
    happened = PrivacyEvent(unit=unit, event=Repeated(count=rounds, event=event),
                            protected=ALONE if unit == "user-entity" else None)  # fmt: skip
    epsilon = proven([happened], delta=delta)[0].epsilon
    assert delta + beyond.mass([(move, rounds)], epsilon, FLOAT32, 1) >= mass
    assert beyond.mass([(move, rounds)], epsilon) < beyond.SHARE * delta
    assert beyond.identified(move, rounds) < beyond.SHARE * delta
    assert math.isinf(
        beyond.within(delta, lambda d: epsilon, lambda e: beyond.mass([(move, rounds)], e, FLOAT32))
    )


def test_what_is_certain_is_what_draws_show():
    event, end = PoissonSampled(rate=0.3, event=Gaussian(noise_multiplier=0.7)), 2.0
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(400_000)
    noise = noise[np.abs(noise) <= end]
    outside = (rng.random(len(noise)) < 0.3) / 0.7 + noise > end
    move = beyond.moved(event, "add-or-remove", ALONE)
    inside = 1.0 - 2.0 * norm.sf(end)
    assert outside.mean() == pytest.approx(beyond.identified(move, 1, end) / inside, rel=0.03)


def test_mass_comes_off_delta_or_nothing_is_proven():
    def epsilon_of(delta):
        return -math.log(delta)

    none = beyond.within(1e-5, epsilon_of, lambda epsilon: 0.0)
    assert none == epsilon_of(beyond.ideal_delta(1e-5))
    some = beyond.within(1e-5, epsilon_of, lambda epsilon: 1e-6)
    assert some == epsilon_of(1e-5 - 2e-6)
    assert math.isinf(beyond.within(1e-5, epsilon_of, lambda epsilon: 3e-6))
    assert math.isinf(beyond.within(1e-5, lambda delta: math.inf, lambda epsilon: 0.0))
    growing = beyond.within(1e-5, epsilon_of, lambda e: 1e-6 if e < 11.6 else 1e-3)
    assert math.isinf(growing)


def test_a_point_of_the_curve_that_the_end_does_not_allow_is_infinite():
    base = SentenceSampledGaussian(rate=1 / 200, noise_multiplier=0.918, users=12000,
                                   sentences_per_user=6)  # fmt: skip
    event = PrivacyEvent(unit="user-entity", event=Repeated(count=400, event=base))
    (guarantee, *_) = proven([event], delta=1e-5)
    finite = [point.epsilon for point in guarantee.curve if math.isfinite(point.epsilon)]
    assert max(finite) < 60.0 < len(guarantee.curve) * 60.0
    assert math.isinf(guarantee.epsilon)
    assert guarantee.reason == beyond.REASON
    assert GAUSSIAN_END > 12.0
