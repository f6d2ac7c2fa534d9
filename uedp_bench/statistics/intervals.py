"""Estimates with intervals: means, ratios and fractions, ROC curves and their rates.

Random numbers come from the generator that is passed in. Higher scores mean positive everywhere
here. NaN is an error: it is raised, never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

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
    ratios, draws = _resampled_ratios(tops, bottoms, rng, clusters)
    value = float(ratios @ signs)
    if not draws:
        return Estimate(value=value)
    return percentiles(value, np.concatenate([block @ signs for block in draws]))


def range_estimate(
    tops: FloatArray,
    bottoms: FloatArray,
    rng: np.random.Generator,
    clusters: IntArray | None = None,
) -> Estimate:
    """Largest minus smallest of the ratios sum(tops[k]) / sum(bottoms[k]), between 0 and 1.

    The interval holds for all pairs of ratios at once, as the data choose the pair: ratios that
    are alike leave 0 out in about 5 % of samples, however many they are. It is as wide on both
    sides as the 95 % quantile of the range of the resampled ratios' errors. A ratio of 0 or 1 has
    none in resamples: what its clusters leave open (Clopper-Pearson) stands for its error.

    Args:
        tops: (k, records) numerators without NaN, at most the denominators.
        bottoms: (k, records) denominators without NaN.
        rng: random generator for the resampling.
        clusters: (records,) clusters as in `ratio_estimate`.

    Raises:
        InputError: if the denominators of a ratio sum to zero.
    """
    ratios, draws = _resampled_ratios(tops, bottoms, rng, clusters)
    value = float(np.ptp(ratios))
    if not draws:
        return Estimate(value=value)
    errors = np.concatenate(draws) - ratios
    for at in np.flatnonzero((ratios == 0.0) | (ratios == 1.0)).tolist():
        owners = np.flatnonzero(bottoms[at]) if clusters is None else clusters[bottoms[at] > 0.0]
        limits = 1.0 - rng.random(len(errors)) ** (1.0 / len(np.unique(owners)))
        errors[:, at] = limits if ratios[at] else -limits
    width = float(np.quantile(np.ptp(errors, axis=1), CONFIDENCE))
    return Estimate(value=value, low=max(0.0, value - width), high=min(1.0, value + width))


def _resampled_ratios(
    tops: FloatArray, bottoms: FloatArray, rng: np.random.Generator, clusters: IntArray | None
) -> tuple[FloatArray, list[FloatArray]]:
    """(k,) ratios, and blocks (resamples, k) of them: none where few resamples have all."""
    if clusters is not None:
        names, of_record = np.unique(clusters, return_inverse=True)
        tops, bottoms = (
            np.stack([np.bincount(of_record, row, len(names)) for row in table]).astype(np.float64)
            for table in (tops, bottoms)
        )
    if (bottoms.sum(axis=1) == 0.0).any():
        raise InputError("ratio: the denominators sum to zero")
    ratios = tops.sum(axis=1) / bottoms.sum(axis=1)
    units = tops.shape[1]
    if units == 1 or np.isinf(ratios).any():
        return ratios, []
    draws = []
    for size in blocks(units):
        counts = resample(units, size, rng)
        above, below = counts @ tops.T, counts @ bottoms.T
        # A resample without any denominator says nothing; it cannot happen with positive ones.
        some = (below != 0.0).all(axis=1)
        draws.append(above[some] / below[some])
    if sum(map(len, draws)) < RESAMPLES // 10:  # many groups of few units: few resamples have all
        return ratios, []
    return ratios, draws


class Scores(NamedTuple):
    """Scores of one class with the user that each belongs to.

    Attributes:
        values: (records,) scores.
        users: (records,) any integers; equal ones are resampled together.
    """

    values: FloatArray
    users: IntArray


class Rate(NamedTuple):
    """True-positive rate at the ROC point that is not above a limit on the false-positive rate.

    Attributes:
        value: true-positive rate.
        hits, positives: its numerator and denominator.
        false_positive_rate: false-positive rate of the point itself, at most the limit.
        zero_false_positives: True if there are fewer negatives than 1 / limit, so that the limit
            cannot be told from none: the rate is the one at zero false positives.
    """

    value: float
    hits: int
    positives: int
    false_positive_rate: float
    zero_false_positives: bool


def auc(positives: ArrayLike, negatives: ArrayLike) -> float:
    """Probability that a positive scores above a negative, ties counting half (Mann-Whitney)."""
    above = checked(positives, "positives")
    low, high = _places(above, checked(negatives, "negatives"))
    return float((low + high).sum() / (2.0 * len(above) * np.size(negatives)))


def auc_estimate(positives: Scores, negatives: Scores, rng: np.random.Generator) -> Estimate:
    """AUC with a percentile bootstrap interval over users.

    Users of each class are drawn with replacement, with all their records; a class of one user
    has no interval. Where one class lies wholly above the other, so does every resample, and the
    interval is the exact binomial one of as many pairs of users as there are disjoint ones: each
    of them is in order with a probability of at most the AUC.
    """
    above, below = (checked(side.values, "scores") for side in (positives, negatives))
    value = auc(above, below)
    owners = [np.unique(side.users, return_inverse=True)[1] for side in (positives, negatives)]
    users = [int(owner.max()) + 1 for owner in owners]
    if min(users) < 2:
        return Estimate(value=value)
    low, high = _places(above, below)
    order = np.argsort(below, kind="stable")
    draws = []
    for size in blocks(len(above) + len(below)):
        weights = resample(users[0], size, rng)[:, owners[0]]
        others = resample(users[1], size, rng)[:, owners[1][order]]
        passed = np.concatenate([np.zeros((size, 1)), np.cumsum(others, axis=1)], axis=1)
        wins = (weights * (passed[:, low] + passed[:, high])).sum(axis=1)
        draws.append(wins / (2.0 * weights.sum(axis=1) * passed[:, -1]))
    if value in (0.0, 1.0):
        return fraction_estimate(round(value * min(users)), min(users))
    return percentiles(value, np.concatenate(draws))


def tpr_at_fpr(positives: ArrayLike, negatives: ArrayLike, limit: float) -> Rate:
    """True-positive rate at the best threshold whose false-positive rate is not above `limit`.

    Raises:
        InputError: for NaN or a limit outside [0, 1].
    """
    if not 0.0 <= limit <= 1.0:
        raise InputError(f"false-positive rate {limit!r} is not in [0, 1]")
    above, below = checked(positives, "positives"), checked(negatives, "negatives")
    n = len(below)
    allowed = math.floor(limit * n + 1e-9)
    hits, false = (int(x[0]) for x in _at_counts(above, below, np.array([allowed])))
    return Rate(hits / len(above), hits, len(above), false / n, limit * n < 1.0)


def roc_points(
    positives: ArrayLike, negatives: ArrayLike, points: int = 100
) -> list[tuple[float, float]]:
    """ROC curve as (FPR, TPR), thinned to about `points`, dense at low FPR, ends included."""
    above, below = checked(positives, "positives"), checked(negatives, "negatives")
    n = len(below)
    grid = np.concatenate([[0], np.geomspace(1, n, points // 2), np.linspace(0, n, points // 2)])
    hits, false = _at_counts(above, below, np.unique(np.rint(grid).astype(np.int64)))
    curve = np.unique(np.stack([false / n, hits / len(above)], axis=1), axis=0)
    return [(float(x), float(y)) for x, y in curve]


def areas(points: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Least and largest area below a curve of which some points are kept: it grows between them."""
    pairs = list(pairwise(points))
    least = sum((b[0] - a[0]) * a[1] for a, b in pairs)
    return least, sum((b[0] - a[0]) * b[1] for a, b in pairs)


def _places(above: FloatArray, below: FloatArray) -> tuple[IntArray, IntArray]:
    """Numbers of negatives strictly below each positive, and below or equal to it."""
    ordered = np.sort(below)
    low, high = (np.searchsorted(ordered, above, side) for side in ("left", "right"))
    return low.astype(np.int64), high.astype(np.int64)


def _at_counts(
    above: FloatArray, below: FloatArray, allowed: IntArray
) -> tuple[IntArray, IntArray]:
    """Hits and false positives at the lowest threshold with at most `allowed` false positives."""
    falling = np.append(-np.sort(-below), -np.inf)
    # Positive means strictly above the largest negative that may not pass.
    threshold = falling[np.minimum(allowed, len(below))]
    hits = len(above) - np.searchsorted(np.sort(above), threshold, side="right")
    false = len(below) - np.searchsorted(np.sort(below), threshold, side="right")
    everything = allowed >= len(below)
    return np.where(everything, len(above), hits), np.where(everything, len(below), false)


def size_range(count: int) -> str:
    """Name the range between powers of two that a number of rows or users lies in."""
    low = 1 << count.bit_length() - 1 if count else 0
    high = max(2 * low - 1, low)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
