"""Exposure of a secret, and its rank among suffixes (Carlini et al. 2019, "The Secret Sharer").

Exposure is in bits. A secret that was never seen is exchangeable with its references, so that its
exposure is close to an exponential variable with mean 1 / ln 2 = 1.44 bits; log2 of the number of
references is the most that a rank can show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from uedp_bench.contracts.capabilities import Completer
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError, UedpBenchError
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


# -------------------------------------------------------------------- suffixes of one pool of words


TEXTS_AT_ONCE = 2**15
"""Most texts that are held at once."""


@runtime_checkable
class PoolCompleter(Protocol):
    """A `Completer` that takes suffixes as numbers of words, and scores them as their texts.

    A suffix is a row of indices into `words`, and its text these words joined by single spaces.
    """

    def pool_losses(self, before: str, words: Sequence[str], suffixes: IntArray) -> FloatArray:
        """(suffixes,) losses in nats as those of `filler_losses`, of suffixes (suffixes, words)."""
        ...

    def pool_rank(self, before: str, words: Sequence[str], suffix: IntArray) -> int:
        """1 + the number of other suffixes of as many words with a lower or equal loss."""
        ...


@dataclass(frozen=True)
class TextPoolCompleter:
    """Any completer as a `PoolCompleter`: every suffix is scored as a text.

    Attributes:
        completer: completer of the texts.
    """

    completer: Completer

    def pool_losses(self, before: str, words: Sequence[str], suffixes: IntArray) -> FloatArray:
        """See `PoolCompleter`; the completer is called once."""
        return np.asarray(self.completer.filler_losses(before, "", texts_of(words, suffixes)))

    def pool_rank(self, before: str, words: Sequence[str], suffix: IntArray) -> int:
        """See `PoolCompleter`; the completer scores all suffixes, block by block.

        Raises:
            UedpBenchError: if a loss is NaN.
        """
        shape = (len(words),) * len(suffix)
        total = len(words) ** len(suffix)
        own = int(np.ravel_multi_index(suffix.tolist(), shape))
        rank = 1
        for at in range(0, total, TEXTS_AT_ONCE):
            codes = np.arange(at, min(at + TEXTS_AT_ONCE, total))
            rows = np.stack(np.unravel_index(codes[codes != own], shape), axis=1)
            # Texts are compared within one answer: their losses are rounded in the same way.
            losses = self.pool_losses(before, words, np.concatenate([suffix[None], rows]))
            if np.isnan(losses).any():
                raise UedpBenchError("the loss of a suffix is NaN")
            rank += int((losses[1:] <= losses[0]).sum())
        return rank


def by_pool(release: Completer) -> PoolCompleter:
    """Return the release if it is a `PoolCompleter`, else wrap it as one that uses texts."""
    return release if isinstance(release, PoolCompleter) else TextPoolCompleter(release)


def texts_of(words: Sequence[str], suffixes: IntArray) -> list[str]:
    """The texts of suffixes (suffixes, words) of indices into `words`."""
    return [" ".join(words[i] for i in row) for row in suffixes.tolist()]
