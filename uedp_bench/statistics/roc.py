"""ROC curves: AUC, true-positive rates at low false-positive rates.

Higher scores mean positive everywhere here. NaN is an error: it is raised, never dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uedp_bench.contracts.results import Estimate
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import (
    blocks,
    checked,
    fraction_estimate,
    percentiles,
    resample,
)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
