"""From a target epsilon to the noise that meets it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from uedp_bench.accounting.events import Protected, SentenceSampledGaussian
from uedp_bench.errors import InputError

_PRECISION = 1e-4
"""Relative width of the interval that the noise is searched down to; its upper end is returned."""


def smallest_noise(epsilon_of: Callable[[float], float], target: float) -> float:
    """The smallest noise multiplier with `epsilon_of(noise) <= target`, rounded up.

    Regula falsi on ln epsilon as a function of ln noise, which is nearly a line, kept inside a
    bracket by bisection; every evaluation composes distributions, so few are made.

    Args:
        epsilon_of: decreasing; may be infinite.
        target: epsilon, positive.

    Returns:
        A noise multiplier that meets the target, within 1e-4 relative of the smallest.

    Raises:
        InputError: if no noise multiplier up to 1e9 meets the target.
    """
    low, high = 0.0, 1.0
    while (value := epsilon_of(high)) > target:
        low, high = high, 4.0 * high
        if high > 1e9:
            raise InputError(f"no noise reaches epsilon {target}")
    at_low, at_high = math.inf, value
    if low == 0.0:
        low = high / 4.0
        while (value := epsilon_of(low)) <= target:
            low, high, at_high = low / 4.0, low, value
            if low < 1e-9:
                return high
        at_low = value
    else:
        at_low = epsilon_of(low)
    for turn in range(200):
        if high - low <= _PRECISION * high:
            break
        middle = math.sqrt(low * high)
        if turn % 3 < 2 and at_high > 0.0 and math.isfinite(at_low) and at_low > at_high:
            share = math.log(at_low / target) / math.log(at_low / at_high)
            # A little beyond the guess on either side in turn, so that the bracket closes.
            share += 0.02 * (1 if turn % 3 else -1)
            middle = low * (high / low) ** min(max(share, 0.01), 0.99)
        if (value := epsilon_of(middle)) <= target:
            high, at_high = middle, value
        else:
            low, at_low = middle, value
    return high


@lru_cache(maxsize=256)
def sentence_noise(
    rate: float, rounds: int, sentences_per_user: int, point: Protected, target: tuple[float, float]
) -> float:
    """Noise of sentence sampling, in units of the clip bound of one sentence.

    Args:
        rate: of sentences, a round.
        rounds: how many.
        sentences_per_user: n, at most.
        point: the protected point.
        target: (epsilon, delta).
    """
    from uedp_bench.accounting.user_entity import user_entity_epsilon

    epsilon, delta = target

    def epsilon_of(noise: float) -> float:
        event = SentenceSampledGaussian(
            rate=rate, noise_multiplier=noise, sentences_per_user=sentences_per_user,
            users=point.spread + 1,
        )  # fmt: skip
        return user_entity_epsilon(((event, rounds),), point, delta)

    return smallest_noise(epsilon_of, epsilon)
