"""Exposure of a secret among references (Carlini et al. 2019, "The Secret Sharer", section 4).

Exposure is in bits. A secret that was never seen is exchangeable with its references, so that its
exposure is close to an exponential variable with mean 1 / ln 2 = 1.44 bits; log2 of the number of
references is the most that a rank can show.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import checked

NULL_MEAN = 1.0 / math.log(2.0)
"""Mean exposure, in bits, of secrets that were not seen."""


class Extrapolation(NamedTuple):
    """Exposure by a skew-normal fitted to the losses of the references.

    Attributes:
        exposure: (secrets,) exposure in bits; not limited by the number of references.
        ks_pvalue: p-value of a Kolmogorov-Smirnov test of the fit. The fit was made on the same
            losses, so that it is optimistic: a small value refutes the fit, a large one proves
            nothing.
    """

    exposure: FloatArray
    ks_pvalue: float


def ranks(secrets: ArrayLike, references: ArrayLike) -> IntArray:
    """(secrets,) 1 + the number of references whose loss is lower or equal."""
    ordered = np.sort(checked(references, "losses of references"))
    return 1 + np.searchsorted(ordered, checked(secrets, "losses of secrets"), side="right")


def extrapolated_exposure(secrets: ArrayLike, references: ArrayLike) -> Extrapolation:
    """Compute -log2 of the fitted probability that a reference has a loss as low as the secret's.

    Raises:
        InputError: for NaN, or references that do not vary (nothing can be fitted).
    """
    from scipy.stats import kstest, skewnorm

    losses = checked(references, "losses of references")
    wanted = checked(secrets, "losses of secrets")
    if not np.isfinite(losses).all() or np.ptp(losses) == 0.0:
        raise InputError("losses of references: a skew-normal needs finite values that vary")
    fitted = skewnorm(*skewnorm.fit(losses))
    # Far in the tail the logarithm underflows too: such a secret is infinitely exposed.
    bits = -np.asarray(fitted.logcdf(wanted), dtype=np.float64) / math.log(2.0)
    return Extrapolation(
        checked(bits, "extrapolated exposure"), float(kstest(losses, fitted.cdf)[1])
    )


def exposure_ceiling(epsilon: float, delta: float, limit: float) -> float:
    """Largest mean exposure of a secret, in bits, for any attacker.

    Without its copies, a secret that was drawn uniformly has a uniform rank. If a release is
    (epsilon, delta)-private for all copies together, then P(rank <= r) <= e^epsilon r/N + delta for
    one of N words, and the mean is the integral of P(exposure >= t) over t from 0 to log2 N. A
    guarantee for one record or user is one for k of them by group privacy: at k epsilon.

    Args:
        epsilon: epsilon in nats for all rows or users that hold the secret; infinity for no
            guarantee.
        delta: delta of the same guarantee.
        limit: log2 N for N words.

    Raises:
        InputError: if a value is out of range.
    """
    if not (epsilon >= 0.0 and 0.0 <= delta <= 1.0 and limit >= 0.0):
        raise InputError(
            f"exposure_ceiling: epsilon {epsilon}, delta {delta} and limit {limit} must be at "
            "least 0, and delta at most 1"
        )
    if delta == 1.0:
        return limit
    # Up to `sure` bits the bound on the probability is 1.
    sure = epsilon / math.log(2.0) - math.log2(1.0 - delta)
    if sure >= limit:
        return limit
    tail = (1.0 - delta - math.exp(epsilon - limit * math.log(2.0))) / math.log(2.0)
    return sure + tail + delta * (limit - sure)
