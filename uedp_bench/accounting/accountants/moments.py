"""The moments accountant as the first papers on private deep learning used it.

Abadi et al. 2016 ("Deep Learning with Differential Privacy"), Theorem 2 and Section 3.2: integer
orders 1 to 64, the closed binomial sum of the sampled Gaussian mechanism with unit sensitivity and
the conversion of its tail bound. Kept as published, so that a claim reads as its paper has it: the
smallest epsilon it can express is ln(1/delta)/64. `proven` uses modern accountants.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

MAX_ORDER = 64


@lru_cache(maxsize=1024)
def log_moment(rate: float, noise_multiplier: float, order: int) -> float:
    """alpha(order) of one round, in nats.

    ln E ((1-q) + q N(x; 1, z^2)/N(x; 0, z^2))^(order+1) over x ~ N(0, z^2).

    Args:
        rate: q, the sampling probability.
        noise_multiplier: z, noise over sensitivity; positive.
        order: lambda, a positive integer.
    """
    from scipy.special import gammaln, logsumexp, xlog1py, xlogy

    n = order + 1
    i = np.arange(n + 1)
    log_binomial = gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)
    log_weight = log_binomial + xlogy(i, rate) + xlog1py(n - i, -rate)
    # Rounding leaves some -1e-14 where the moment is 1; a log moment is never negative.
    return max(0.0, float(logsumexp(log_weight + i * (i - 1) / (2.0 * noise_multiplier**2))))


def moments_epsilon(rate: float, noise_multiplier: float, rounds: int, delta: float) -> float:
    """Epsilon of `rounds` rounds: min over orders of (rounds alpha + ln(1/delta)) / order.

    Args:
        rate: sampling probability of a unit in a round.
        noise_multiplier: noise over sensitivity; 0 gives infinity.
        rounds: number of rounds.
        delta: in (0, 1).
    """
    if noise_multiplier == 0.0:
        return math.inf
    return min(
        (rounds * log_moment(rate, noise_multiplier, order) - math.log(delta)) / order
        for order in range(1, MAX_ORDER + 1)
    )
