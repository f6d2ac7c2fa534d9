"""What a threshold on noisy votes lets through of what one voter alone has (docs/proofs.md).

Every voter gives t different items the weight 1 / sqrt(t), t being m at most. Sums get Gaussian
noise, and items whose noisy sum exceeds a threshold are published. An item that only one voter has
can be published on one of two neighbouring data sets alone: its probability is part of delta.
"""

from __future__ import annotations

import math
from functools import cache

_SAFETY = 1.0 + 1e-9
"""The threshold lies this much higher than it must, so that rounding does not lower it."""


@cache
def threshold_for(noise: float, most: int, delta: float) -> float:
    """The smallest threshold that items of one voter pass with probability `delta` at most.

    Args:
        noise: deviation of the noise on each sum of votes.
        most: items that a voter votes for, at most.
        delta: in (0, 1).

    Returns:
        max over t of 1 / sqrt(t) + noise * z_t, where all of t normal numbers are below z_t with
        probability 1 - delta (Gopi et al. 2020, arXiv:2002.09745, Theorem 5.1); not below 1.
    """
    import numpy as np
    from scipy.special import ndtri_exp

    t = np.arange(1, most + 1, dtype=np.float64)
    # log(1 - delta) / t is the logarithm of what each number is below with.
    needed = 1.0 / np.sqrt(t) + noise * ndtri_exp(math.log1p(-delta) / t)
    return max(float(needed.max()), 1.0) * _SAFETY


@cache
def unseen_mass(noise: float, most: int, threshold: float) -> float:
    """The probability that some item of one voter passes a threshold, at most.

    Args:
        noise: deviation of the noise on each sum of votes.
        most: items that a voter votes for, at most.
        threshold: what a noisy sum must exceed.
    """
    import numpy as np
    from scipy.special import log_ndtr

    t = np.arange(1, most + 1, dtype=np.float64)
    stays = t * log_ndtr((threshold - 1.0 / np.sqrt(t)) / noise)
    return float(-np.expm1(stays.min()))
