"""Lower bounds on epsilon from an attack's scores, with exact confidence.

Scores are high for members. A bound exceeds the true epsilon with probability at most
1 - confidence: whatever is chosen by looking at the scores (threshold, number of guesses,
direction, the best of several attacks) is chosen among alternatives fixed in advance, each tested
at its share of the significance (Bonferroni).

Neither torch is imported nor, before a bound is computed, scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.bounds import one_run
from uedp_bench.bounds.one_run import (
    check_delta,
    significance_of,
)
from uedp_bench.errors import InputError, nearest

FloatArray = NDArray[np.float64]
Method = Literal["clopper-pearson", "clopper-pearson-f-dp", "one-run", "one-run-f-dp", "nct"]
METHODS: tuple[Method, ...] = get_args(Method)
WITH_GAUSSIAN: tuple[Method, ...] = ("clopper-pearson-f-dp", "one-run-f-dp", "nct")
"""Methods that end in a Gaussian mechanism, which has no epsilon at delta 0."""

STEP = 0.5**0.5
"""Factor from one rank to the next. Wider steps find 3 % more in scores without ties, and next to
nothing in scores of few levels, where most thresholds fall on the same level."""

FEWEST_TO_TEST = 20
"""Scores from which the normal approximation of D'Agostino and Pearson's test holds."""

UNFAIR = 1e-6
"""Probability under fair coins below which the numbers of members and others are refused."""


def epsilon_lower_bound(
    members: ArrayLike,
    nonmembers: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    method: Method = "clopper-pearson",
) -> float:
    """Largest epsilon that the scores refute at `delta`, with `confidence`.

    * `clopper-pearson`: scores are independent draws, identically distributed within each side (one
      training run each, or canaries that do not interact). Some event has
      (P[event | one side] - delta) / P[event | other side] > exp(epsilon). Events are "above the
      k-th highest non-member" and "below the k-th lowest member", k = half the side, 0.71 of
      that, and so on down to 1. The threshold is an order statistic of one side, so that side's
      probability has a Beta distribution (the Clopper-Pearson bound, exactly) and the other
      side's hits are binomial given it: both hold although the threshold comes from the data.
      What is paid for is the choice among about 4 log2(n) events: (1 - confidence) / events for
      each. Choosing a threshold on half of the scores and testing it on the rest finds less: for
      500 Gaussian scores a side that differ by two deviations the median is 2.25, against 2.56
      (`benchmarks/lower_bounds.py`).
    * `one-run`: each score is of a canary that a fair coin of its own put into one training run
      (Steinke et al. 2023); holds whatever canaries do to each other.
    * `one-run-f-dp`: one-run against a Gaussian trade-off curve (arXiv:2410.22235). A bound for
      mechanisms of that family only.
    * `clopper-pearson-f-dp`: the same events against a Gaussian trade-off curve: mu is
      Phi^-1(P[event | one side]) - Phi^-1(P[event | other side]), both at their limits (Nasr et al.
      2023, arXiv:2302.07956). A bound for mechanisms of that family only.
    * `nct`: exact if both sides are normal with one variance. The t statistic of the two means has
      a noncentral t distribution; its noncentrality at the lower confidence limit gives mu.
      Thresholds lose what it keeps, and scores that are not normal make it any number: look at
      `normality_p_value`.

    Args:
        members: (n,) scores of what was in training. Any reals; infinities sort, but no normal
            distribution has them.
        nonmembers: (n',) scores of what was not.
        delta: delta of the bound, in [0, 1); above 0 for the methods of `WITH_GAUSSIAN`.
        confidence: confidence of the bound, in (0, 1).
        method: one of `METHODS`.

    Returns:
        Epsilon in nats; 0 where nothing is refuted, or for too few scores to refute anything.

    Raises:
        InputError: for no scores, NaN, other shapes, numbers outside their ranges, an unknown
            method; for one-run methods where the sides are too unequal for fair coins.
    """
    if method not in METHODS:
        near = nearest(str(method), METHODS)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(METHODS)}"
        raise InputError(f"method: no method named {method!r}; {hint}")
    check_delta(delta, method if method in WITH_GAUSSIAN else "")
    significance = significance_of(confidence)
    ins, outs = _scores(members, "members"), _scores(nonmembers, "nonmembers")
    if method == "nct":
        return gaussian_epsilon(_nct_shift(ins, outs, significance), delta)
    if method in ("clopper-pearson", "clopper-pearson-f-dp"):
        rates = rate_limits(ins, outs, significance)
        if method == "clopper-pearson":
            return rates.epsilon(delta)
        return gaussian_epsilon(rates.gaussian_shift(), delta)
    _check_coins(len(ins), len(outs))
    ways = one_run.score_guesses(ins, outs)
    if not len(ways.counts):
        return 0.0
    canaries, share = len(ins) + len(outs), significance / len(ways.counts)
    if method == "one-run":
        return one_run.best_one_run(canaries, ways, delta, share)
    return gaussian_epsilon(one_run.best_f_dp(canaries, ways, share), delta)


def best_of(bounds: Sequence[Callable[[float], float]], *, confidence: float = 0.95) -> float:
    """The largest of several bounds on the same epsilon, the choice paid for.

    Args:
        bounds: each takes a confidence and returns a bound that holds with it; they may share
            data in any way.
        confidence: confidence of the result. Each bound is taken at 1 - (1 - confidence) / n.

    Raises:
        InputError: for no bounds, or a confidence outside (0, 1).
    """
    if not bounds:
        raise InputError("bounds: none given; at least one is needed")
    each = 1.0 - significance_of(confidence) / len(bounds)
    return max(bound(each) for bound in bounds)


# ---------------------------------------------------------------------------- the methods


class RateLimits(NamedTuple):
    """Confidence limits of the probabilities of several events, all valid at once.

    Attributes:
        likely: (events,) lower limit of the probability on the side where the event is likely.
        rare: (events,) upper limit on the other side.
    """

    likely: FloatArray
    rare: FloatArray

    def epsilon(self, delta: float) -> float:
        """Largest log((P[likely] - delta) / P[rare]); 0 where there is none above."""
        usable = self.likely > delta
        ratios = np.log(self.likely[usable] - delta) - np.log(self.rare[usable])
        return float(max(0.0, ratios.max(initial=0.0)))

    def gaussian_shift(self) -> float:
        """Largest mu of a Gaussian trade-off curve that an event refutes; 0 for none."""
        from scipy.special import ndtri

        return float(max(0.0, (ndtri(self.likely) - ndtri(self.rare)).max(initial=0.0)))


def rate_limits(members: FloatArray, nonmembers: FloatArray, significance: float) -> RateLimits:
    """Limits for "above the k-th highest non-member", then for "below the k-th lowest member".

    Each is at its share of the significance.
    """
    directions = [(members, nonmembers), (-nonmembers, -members)]
    ranks = [_ranks(len(rare)) for _, rare in directions]
    share = significance / max(1, sum(map(len, ranks)))
    limits = [_limits_above(*sides, at, share) for sides, at in zip(directions, ranks, strict=True)]
    return RateLimits(*(np.concatenate(column) for column in zip(*limits, strict=True)))


def _ranks(scores: int) -> NDArray[np.int64]:
    """Half of the scores, 0.71 of that, and so on down to 1: fixed by their number alone."""
    if scores < 2:
        return np.empty(0, dtype=np.int64)
    steps = np.arange(2 * (scores // 2).bit_length() + 1)
    ranks = np.unique((scores / 2.0 * STEP**steps).astype(np.int64))
    return ranks[ranks > 0]


def _limits_above(
    often: FloatArray, rare: FloatArray, ranks: NDArray[np.int64], share: float
) -> RateLimits:
    """Limits for "above the k-th highest of `rare`", each side's at half of the share.

    P[rare > t] <= Beta(k, n - k + 1) in distribution, with equality without ties.
    """
    from scipy.special import betaincinv

    total, n = len(often), len(rare)
    hits = total - np.searchsorted(np.sort(often), np.sort(rare)[n - ranks], side="right")
    low = betaincinv(np.maximum(hits, 1), total - hits + 1, share / 2.0)
    high = np.asarray(betaincinv(ranks, n - ranks + 1, 1.0 - share / 2.0), dtype=np.float64)
    return RateLimits(np.where(hits > 0, low, 0.0), high)


def _nct_shift(members: FloatArray, nonmembers: FloatArray, significance: float) -> float:
    """Lower confidence limit of the difference of means in standard deviations, at least 0."""
    from scipy.special import nctdtrinc

    sides = (members, nonmembers)
    for name, side in zip(("members", "nonmembers"), sides, strict=True):
        if np.isinf(side).any():
            raise InputError(f"{name}: no normal distribution has infinite scores")
    if min(map(len, sides)) < 2:
        return 0.0
    scale = max(float(np.abs(side).max()) for side in sides) or 1.0
    members, nonmembers = members / scale, nonmembers / scale
    difference = float(members.mean() - nonmembers.mean())
    if difference <= 0.0:
        return 0.0
    freedom = len(members) + len(nonmembers) - 2
    deviation = math.sqrt((_residuals(members, nonmembers) ** 2).sum() / freedom)
    if not deviation > 0.0:
        raise InputError("members: scores do not vary on either side; nothing normal has such")
    precision = math.sqrt(len(members) * len(nonmembers) / (freedom + 2))
    statistic = precision * difference / deviation
    noncentrality = float(nctdtrinc(freedom, 1.0 - significance, statistic))
    return float(max(0.0, noncentrality) / precision)


def normality_p_value(members: ArrayLike, nonmembers: ArrayLike) -> float | None:
    """Probability of such skewness and kurtosis for normal scores of one variance on both sides.

    D'Agostino and Pearson's test of the distances to the mean of the own side.

    Args:
        members: (n,) finite scores.
        nonmembers: (n',) finite scores.

    Returns:
        In [0, 1]; None for fewer than 20 scores, and for scores that do not vary.

    Raises:
        InputError: for no scores, NaN, or other shapes.
    """
    from scipy.stats import normaltest

    residuals = _residuals(_scores(members, "members"), _scores(nonmembers, "nonmembers"))
    if len(residuals) < FEWEST_TO_TEST or not np.ptp(residuals) > 0.0:
        return None
    return float(normaltest(residuals / np.abs(residuals).max()).pvalue)


def _residuals(members: FloatArray, nonmembers: FloatArray) -> FloatArray:
    return np.concatenate([side - side.mean() for side in (members, nonmembers)])


def epsilon_of_auc(auc: float, delta: float) -> float:
    """Epsilon at `delta` of the Gaussian mechanism whose best attack has this AUC.

    Beside a bound it says which is to be mended: where it is far above, the scores tell more than
    the bound keeps; where it is low too, the scores tell little. No bound, and no confidence.

    Args:
        auc: area under the curve, in [0, 1]; at most 1/2 gives 0, and 1 infinity.
        delta: delta of the epsilon, in (0, 1).
    """
    from scipy.special import ndtri

    shift = 2.0**0.5 * float(ndtri(auc))
    return math.inf if math.isinf(shift) and shift > 0 else gaussian_epsilon(max(0.0, shift), delta)


# ---------------------------------------------------------------------------- input


def _scores(values: ArrayLike, name: str) -> FloatArray:
    from uedp_bench.statistics.intervals import checked

    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: scores must be real numbers") from None
    if array.ndim != 1:
        raise InputError(f"{name}: an array of shape {array.shape}; one dimension is needed")
    return checked(array, name)


def _check_coins(members: int, nonmembers: int) -> None:
    """Refuse sides that fair coins do not give: guessing the larger side would look like skill."""
    from scipy.special import bdtr

    likelihood = 2.0 * float(bdtr(min(members, nonmembers), members + nonmembers, 0.5))
    if likelihood < UNFAIR:
        raise InputError(
            f"members: {members} members and {nonmembers} nonmembers; a one-run audit needs every "
            "canary to be in with probability 1/2 (use clopper-pearson, or as many of each)"
        )
