"""Lower bounds on epsilon from an attack's scores, whose confidence is what it says.

Scores are high for members. A bound exceeds the true epsilon with probability at most
1 - confidence: whatever is chosen by looking at the scores (threshold, number of guesses,
direction, the best of several attacks) is chosen among alternatives fixed in advance, each tested
at its share of the significance (Bonferroni).

Imports neither torch nor, before a bound is asked for, scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uedp_bench.accounting.bounds import one_run
from uedp_bench.accounting.bounds.one_run import (
    check_delta,
    one_run_bound,
    one_run_f_dp_bound,
    one_run_p_value,
    significance_of,
)
from uedp_bench.errors import InputError, nearest

__all__ = [
    "ESTIMATES",
    "METHODS",
    "Method",
    "best_of",
    "epsilon_lower_bound",
    "one_run_bound",
    "one_run_f_dp_bound",
    "one_run_p_value",
]

FloatArray = NDArray[np.float64]
Method = Literal["clopper-pearson", "one-run", "one-run-f-dp", "gaussian"]
METHODS: tuple[Method, ...] = get_args(Method)
ESTIMATES: tuple[Method, ...] = ("gaussian",)
"""Methods that fit a distribution to the scores: estimates, not bounds."""

STEP = 0.5**0.5
"""From one rank to the next. Wider steps find 3 % more in scores without ties, and next to nothing
in scores of few levels, where most thresholds fall on the same level."""

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
    * `one-run-f-dp`: the same against a Gaussian trade-off curve (arXiv:2410.22235). A bound for
      mechanisms of that family only.
    * `gaussian`: an ESTIMATE, not a bound: both sides are taken for Gaussians of one variance,
      and epsilon is that of the Gaussian mechanism with the lower confidence limit of the
      difference of means (Welch) and the upper one of the standard deviation. At most
      1 - confidence of noise is above 0, but tails that are not Gaussian make it any number.

    Args:
        members: (n,) scores of what was in training. Any reals; infinities sort, but no Gaussian
            can be fitted to them.
        nonmembers: (n',) scores of what was not.
        delta: in [0, 1); above 0 for the two methods with a Gaussian.
        confidence: in (0, 1).
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
    check_delta(delta, method if method in ("one-run-f-dp", "gaussian") else "")
    significance = significance_of(confidence)
    ins, outs = _scores(members, "members"), _scores(nonmembers, "nonmembers")
    if method == "clopper-pearson":
        return _clopper_pearson(ins, outs, delta, significance)
    if method == "gaussian":
        return _gaussian(ins, outs, delta, significance)
    _check_coins(len(ins), len(outs))
    ways = one_run.score_guesses(ins, outs)
    if not len(ways.made):
        return 0.0
    canaries, share = len(ins) + len(outs), significance / len(ways.made)
    if method == "one-run":
        return one_run.best_one_run(canaries, ways, delta, share)
    return one_run.gaussian_epsilon(one_run.best_f_dp(canaries, ways, share), delta)


def best_of(bounds: Sequence[Callable[[float], float]], *, confidence: float = 0.95) -> float:
    """The largest of several bounds on the same epsilon, the choice paid for.

    Args:
        bounds: each takes a confidence and returns a bound that holds with it; they may share
            data in any way.
        confidence: of the result. Each is asked at 1 - (1 - confidence) / n.

    Raises:
        InputError: for no bounds, or a confidence outside (0, 1).
    """
    if not bounds:
        raise InputError("bounds: none given; at least one is needed")
    each = 1.0 - significance_of(confidence) / len(bounds)
    return max(bound(each) for bound in bounds)


# ---------------------------------------------------------------------------- the methods


def _clopper_pearson(
    members: FloatArray, nonmembers: FloatArray, delta: float, significance: float
) -> float:
    # "Above a threshold" for members against non-members, then "below" the other way round.
    directions = [(members, nonmembers), (-nonmembers, -members)]
    ranks = [_ranks(len(rare)) for _, rare in directions]
    tests = sum(map(len, ranks))
    if not tests:
        return 0.0
    share = significance / tests
    found = [
        _best_event(often, rare, at, delta, share)
        for (often, rare), at in zip(directions, ranks, strict=True)
        if len(at)
    ]
    return max(0.0, *found)


def _ranks(scores: int) -> NDArray[np.int64]:
    """Half of the scores, 0.71 of that, and so on down to 1: fixed by their number alone."""
    if scores < 2:
        return np.empty(0, dtype=np.int64)
    steps = np.arange(2 * (scores // 2).bit_length() + 1)
    ranks = np.unique((scores / 2.0 * STEP**steps).astype(np.int64))
    return ranks[ranks > 0]


def _best_event(
    often: FloatArray, rare: FloatArray, ranks: NDArray[np.int64], delta: float, share: float
) -> float:
    """Largest log((P[often > t] - delta) / P[rare > t]) over t = the k-th highest of `rare`.

    Both probabilities are at their confidence limits, each at share / 2. P[rare > t] <= Beta(k,
    n - k + 1) in distribution, with equality without ties.
    """
    from scipy.special import betaincinv

    total, n = len(often), len(rare)
    thresholds = np.sort(rare)[n - ranks]
    hits = total - np.searchsorted(np.sort(often), thresholds, side="right")
    below = betaincinv(np.maximum(hits, 1), total - hits + 1, share / 2.0)
    usable = (hits > 0) & (below > delta)
    if not usable.any():
        return 0.0
    above = betaincinv(ranks, n - ranks + 1, 1.0 - share / 2.0)
    return float(np.max(np.log(below[usable] - delta) - np.log(above[usable])))


def _gaussian(
    members: FloatArray, nonmembers: FloatArray, delta: float, significance: float
) -> float:
    from scipy.special import chdtri, stdtrit

    sides = (members, nonmembers)
    for name, side in zip(("members", "nonmembers"), sides, strict=True):
        if np.isinf(side).any():
            raise InputError(f"{name}: a Gaussian cannot be fitted to infinite scores")
    if min(map(len, sides)) < 2:
        return 0.0
    scale = max(float(np.abs(side).max()) for side in sides) or 1.0
    members, nonmembers = members / scale, nonmembers / scale
    sizes = np.array([len(members), len(nonmembers)])
    squares = np.array([float(side.var(ddof=1)) for side in (members, nonmembers)])
    difference = float(members.mean() - nonmembers.mean())
    errors = squares / sizes
    if difference <= 0.0:
        return 0.0
    if not errors.sum() > 0.0:
        raise InputError("members: scores do not vary on either side; a Gaussian has no such fit")
    welch = errors.sum() ** 2 / (errors**2 / (sizes - 1)).sum()
    least = difference + float(stdtrit(welch, significance / 2.0)) * float(errors.sum()) ** 0.5
    freedom = int(sizes.sum()) - 2
    pooled = float(((sizes - 1) * squares).sum())
    widest = (pooled / float(chdtri(freedom, 1.0 - significance / 2.0))) ** 0.5
    return one_run.gaussian_epsilon(max(0.0, least / widest), delta)


# ---------------------------------------------------------------------------- input


def _scores(values: ArrayLike, name: str) -> FloatArray:
    from uedp_bench.statistics.resampling import checked

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
    """Refuses sides that fair coins do not give: guessing the larger side would look like skill."""
    from scipy.special import bdtr

    likelihood = 2.0 * float(bdtr(min(members, nonmembers), members + nonmembers, 0.5))
    if likelihood < UNFAIR:
        raise InputError(
            f"members: {members} members and {nonmembers} nonmembers; a one-run audit needs every "
            "canary to be in with probability 1/2 (use clopper-pearson, or as many of each)"
        )
