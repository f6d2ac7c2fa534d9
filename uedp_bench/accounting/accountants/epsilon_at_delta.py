"""From delta as a function of epsilon to epsilon at a delta."""

from __future__ import annotations

import math
from collections.abc import Callable

_LARGEST = 1e12


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
