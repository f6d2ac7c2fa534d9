"""Epsilon at a delta from delta as a function of epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable

_LARGEST = 1e12


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Epsilon of one Gaussian mechanism: N(shift, 1) against N(0, 1).

    Its divergence is that of Balle & Wang 2018 (arXiv:1805.06530, Theorem 8).

    Args:
        shift: sensitivity over the noise's deviation, 0 or more.
        delta: in (0, 1).
    """
    from scipy.special import log_ndtr, ndtri

    if shift == 0.0:
        return 0.0

    def divergence(epsilon: float) -> float:
        upper = float(log_ndtr(shift / 2.0 - epsilon / shift))
        lower = float(log_ndtr(-shift / 2.0 - epsilon / shift))
        return math.exp(upper) * -math.expm1(min(epsilon + lower - upper, 0.0))

    # Leaving the second term out is valid too, and tight where epsilon is in the millions.
    simple = shift**2 / 2.0 - shift * float(ndtri(delta))
    return min(epsilon_at(divergence, delta), max(0.0, simple))


def epsilon_at(delta_of: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon >= 0 with `delta_of(epsilon) <= delta`, rounded up.

    dp-accounting inverts by a ratio of masses, which overflows for epsilons of several hundred;
    its deltas do not.

    Args:
        delta_of: decreasing in epsilon.
        delta: the target.

    Returns:
        An epsilon that satisfies the target, within 1e-10 relative; infinity above 1e12.
    """
    if delta_of(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 4.0 * high
        if high > _LARGEST:
            return math.inf
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        if delta_of(middle) > delta:
            low = middle
        else:
            high = middle
    return high
