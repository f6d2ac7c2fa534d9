"""Normal numbers from words of 64 bits that are drawn many at once: by the inverse of their law.

A number takes two words. One bit of the first is its sign. The other 63 and, where these are small,
the 64 of the second are how much of the half normal law lies beyond it: a number u in (0, 1/2] in
float64, of as many random bits as float64 holds. The number is the quantile of u.

With the first word alone, numbers would end at 9.16 standard deviations, where one coordinate can
tell who took part (`accounting.sampler_end`); 53 bits end at 8.2. With both they end at 13.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Words = NDArray[np.uint64]

WORDS = 2
"""Words of a number."""

_COARSE = 2.0**53
"""From here on float64 holds no fraction of a whole number."""


def normal_numbers(words: Words) -> NDArray[np.float64]:
    """(n,) independent N(0, 1) of independent words (2n,): each of its own two."""
    first, second = words[0::WORDS].view(np.int64), words[1::WORDS]
    # Of a negative word its complement: both signs have the same 2^63 numbers, 0 among them.
    beyond = (first ^ (first >> 63)).astype(np.float64)
    few = np.flatnonzero(beyond < _COARSE)
    beyond[few] += np.minimum((second[few] + 0.5) * 2.0**-64, 1.0 - 2.0**-53)
    beyond *= 2.0**-64
    quantiles: NDArray[np.float64] = ndtri(beyond, out=beyond)
    # A quantile of 1/2 or less is negative or 0.
    return np.copysign(quantiles, first, out=quantiles)
