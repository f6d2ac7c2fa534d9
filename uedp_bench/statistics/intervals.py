"""Intervals of means, ratios and fractions: over users within a run, over seeds between runs.

Random numbers come from the generator that is passed in. NaN is an error: it is raised, never
dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 1000
CELLS = 2_000_000
"""Entries of one block of resamples (16 MB of doubles): bounds memory, not results."""


def checked(values: ArrayLike, name: str) -> FloatArray:
    """Return values as a one-dimensional array of at least one float, none of them NaN.

    Raises:
        InputError: if there are none, or one is NaN.
    """
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if not len(array):
        raise InputError(f"{name}: no values; at least one is needed")
    bad = np.flatnonzero(np.isnan(array))
    if len(bad):
        raise InputError(f"{name}: {len(bad)} of {len(array)} values are NaN, first at {bad[0]}")
    return array


def blocks(width: int) -> Sequence[int]:
    """Sizes of blocks that sum to `RESAMPLES`, each with at most about `CELLS` entries."""
    size = max(1, min(RESAMPLES, CELLS // max(width, 1)))
    full, rest = divmod(RESAMPLES, size)
    return [size] * full + ([rest] if rest else [])


def resample(units: int, times: int, rng: np.random.Generator) -> FloatArray:
    """(times, units) number of draws of each unit when `units` are drawn with replacement."""
    drawn = rng.integers(units, size=(times, units)) + units * np.arange(times)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=times * units)
    return counts.reshape(times, units).astype(np.float64)


def percentiles(value: float, draws: FloatArray) -> Estimate:
    """Value with the 95 % percentile interval of its resamples (draws,)."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = (float(x) for x in np.quantile(draws, [tail, 1.0 - tail]))
    return Estimate(value=value, low=low, high=high)


def fraction_estimate(hits: int, trials: int) -> Estimate:
    """A fraction with its Clopper-Pearson (exact binomial) interval.

    Raises:
        InputError: unless 0 <= hits <= trials and trials >= 1.
    """
    from scipy.stats import beta

    if not 0 <= hits <= trials or trials < 1:
        raise InputError(f"fraction: {hits} of {trials} is not a fraction")
    tail = (1.0 - CONFIDENCE) / 2.0
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(beta.ppf(1.0 - tail, hits + 1, trials - hits))
    return Estimate(value=hits / trials, low=low, high=high)


def seed_estimate(values: ArrayLike) -> Estimate:
    """Mean over seeds with Student's t interval; one seed, or an infinite value, has none.

    Raises:
        InputError: for no values, NaN, or infinities of both signs.
    """
    array = checked(values, "values over seeds")
    if np.isinf(array).any():
        if len(np.unique(array[np.isinf(array)])) > 1:
            raise InputError("values over seeds: infinities of both signs have no mean")
        return Estimate(value=float(array.sum()))
    n, mean = len(array), float(array.mean())
    if n == 1:
        return Estimate(value=mean)
    half = _student(n - 1) * float(array.std(ddof=1)) / math.sqrt(n)
    return Estimate(value=mean, low=mean - half, high=mean + half)


@cache
def _student(degrees: int) -> float:
    """Student's quantile; a leaderboard uses few of them very often."""
    # scipy.stats calls this; to import it takes a CPU second.
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1.0 + CONFIDENCE) / 2.0))


def mean_estimate(
    values: ArrayLike, rng: np.random.Generator, clusters: IntArray | None = None
) -> Estimate:
    """Mean with its percentile bootstrap interval, over clusters (users) where given."""
    array = checked(values, "values")
    return ratio_estimate(array, np.ones_like(array), rng, clusters)


def ratio_estimate(
    top: ArrayLike, bottom: ArrayLike, rng: np.random.Generator, clusters: IntArray | None = None
) -> Estimate:
    """sum(top) / sum(bottom) with a percentile bootstrap interval over clusters.

    Args:
        top: (records,) numerators (nats, hits).
        bottom: (records,) denominators (words, targets).
        rng: random generator for the resampling.
        clusters: (records,) records with equal numbers are resampled together; each record is its
            own cluster by default. A single cluster has no interval.

    Raises:
        InputError: for NaN, unequal lengths or denominators that sum to zero.
    """
    tops, bottoms = checked(top, "numerators"), checked(bottom, "denominators")
    if len(tops) != len(bottoms) or (clusters is not None and len(clusters) != len(tops)):
        raise InputError(f"ratio: {len(tops)} numerators, {len(bottoms)} denominators or clusters")
    return sum_of_ratios_estimate(tops[None], bottoms[None], [1.0], rng, clusters)


def sum_of_ratios_estimate(
    tops: FloatArray,
    bottoms: FloatArray,
    weights: ArrayLike,
    rng: np.random.Generator,
    clusters: IntArray | None = None,
) -> Estimate:
    """Weighted sum over k of sum(tops[k]) / sum(bottoms[k]), with a percentile bootstrap.

    All ratios see the same resample: a difference of two groups or a mean over classes keeps what
    the records of a cluster share. There is no interval where fewer than a tenth of the resamples
    have all denominators.

    Args:
        tops: (k, records) numerators without NaN.
        bottoms: (k, records) denominators without NaN.
        weights: (k,) weights of the ratios: (1, -1) for a difference, 1 / k for a mean.
        rng: random generator for the resampling.
        clusters: (records,) clusters as in `ratio_estimate`.

    Raises:
        InputError: if the denominators of a ratio sum to zero.
    """
    signs = np.asarray(weights, dtype=np.float64)
    if clusters is not None:
        names, of_record = np.unique(clusters, return_inverse=True)
        tops, bottoms = (
            np.stack([np.bincount(of_record, row, len(names)) for row in table]).astype(np.float64)
            for table in (tops, bottoms)
        )
    if (bottoms.sum(axis=1) == 0.0).any():
        raise InputError("ratio: the denominators sum to zero")
    value = float((tops.sum(axis=1) / bottoms.sum(axis=1)) @ signs)
    units = tops.shape[1]
    if units == 1:
        return Estimate(value=value)
    draws = []
    for size in blocks(units):
        counts = resample(units, size, rng)
        above, below = counts @ tops.T, counts @ bottoms.T
        # A resample without any denominator says nothing; it cannot happen with positive ones.
        some = (below != 0.0).all(axis=1)
        draws.append((above[some] / below[some]) @ signs)
    resampled = np.concatenate(draws)
    if len(resampled) < RESAMPLES // 10:  # many groups of few units: resamples rarely have them all
        return Estimate(value=value)
    return percentiles(value, resampled)
