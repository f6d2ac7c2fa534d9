"""Lower bounds on epsilon from one training run with many canaries.

Each of m canaries was put into the run by a fair coin of its own. The attacker sees the release,
guesses for r of the canaries whether they were in, and v guesses are right. r is fixed before the
scores are seen, or the choice among several is paid for (`score_guesses`).

Sources: Steinke, Nasr, Jagielski 2023 (arXiv:2305.08846, theorem 5.2 with r fixed); Mahloujifar,
Melis, Chaudhuri 2024 (arXiv:2410.22235, algorithm "rh with cap").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.errors import InputError

IntArray = NDArray[np.int64]

FEWEST_GUESSES = 8
"""Fewer right guesses than this refute nothing at the significances that several tests leave."""

MOST_GUESSES = 10_000_000
"""Most guesses of one bound: its time and memory grow with them."""


class Guesses(NamedTuple):
    """Several ways to guess on the same canaries, each fixed before the scores were seen.

    Attributes:
        counts: (ways,) number of guesses r.
        right: (ways,) number of right guesses v.
    """

    counts: IntArray
    right: IntArray


# ---------------------------------------------------------------------------- one number of guesses


def one_run_bound(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float = 0.95
) -> float:
    """Largest epsilon that so many right guesses refute (Steinke et al. 2023).

    Assumes nothing but the coins: each canary in with probability 1/2, independently of the
    others, and `guesses` fixed before looking.

    Args:
        canaries: number of canaries, each in with probability 1/2, independently.
        guesses: number of canaries that the attacker guessed on, at most all.
        correct: number of right guesses.
        delta: delta of the guarantee, in [0, 1).
        confidence: one minus the probability that the bound exceeds the true epsilon.

    Returns:
        sup{epsilon : p-value < 1 - confidence}; 0 where nothing is refuted.

    Raises:
        InputError: for numbers outside their ranges.
    """
    _check_counts(canaries, guesses, correct)
    check_delta(delta)
    ways = Guesses(np.array([guesses]), np.array([correct]))
    return best_one_run(canaries, ways, delta, significance_of(confidence))


def one_run_f_dp_bound(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float = 0.95
) -> float:
    """Epsilon at delta of the noisiest Gaussian that so many right guesses do not refute.

    The hypothesis is a Gaussian trade-off curve (mu-GDP): stronger than (epsilon, delta)-DP at one
    point, so that the bound is larger; it refutes mechanisms of that family, such as the Gaussian
    mechanism without sampling. Against any other guarantee it is an indication.

    Args:
        canaries: number of canaries, each in with probability 1/2, independently.
        guesses: number of canaries that the attacker guessed on, at most all.
        correct: number of right guesses.
        delta: delta of the epsilon, in (0, 1); a Gaussian has no finite epsilon at 0.
        confidence: as for `one_run_bound`.

    Raises:
        InputError: for numbers outside their ranges.
    """
    _check_counts(canaries, guesses, correct)
    check_delta(delta, "one-run-f-dp")
    ways = Guesses(np.array([guesses]), np.array([correct]))
    return gaussian_epsilon(best_f_dp(canaries, ways, significance_of(confidence)), delta)


# ---------------------------------------------------------------------------- scores to guesses


def score_guesses(members: NDArray[np.float64], nonmembers: NDArray[np.float64]) -> Guesses:
    """Guesses "in" for the k highest scores, and with or without "out" for the k lowest.

    k runs over half the canaries, a quarter, and so on: numbers that depend on nothing but how
    many canaries there are. Guesses must not know who was in, so scores tied across the border of
    a guess count as the worst order would: members last among the highest, first among the lowest.

    Args:
        members: (n,) scores, high for members; sorting is all that is done with them.
        nonmembers: (n',) scores.

    Returns:
        The ways to guess; empty for too few scores.
    """
    total = len(members) + len(nonmembers)
    halvings = max(0, int(math.log2(max(total, 1) / 2 / FEWEST_GUESSES)) + 1)
    counts = np.unique([total // 2 >> step for step in range(halvings)]).astype(np.int64)
    top = _right_at_top(members, nonmembers, counts)
    bottom = _right_at_top(-nonmembers, -members, counts)
    return Guesses(np.concatenate([counts, 2 * counts]), np.concatenate([top, top + bottom]))


def _right_at_top(
    wanted: NDArray[np.float64], others: NDArray[np.float64], counts: IntArray
) -> IntArray:
    """Number of wanted ones among the k highest, for each k; ties put the others first."""
    scores = np.concatenate([others, wanted])
    is_wanted = np.arange(len(scores)) >= len(others)
    order = np.lexsort((is_wanted, -scores))
    wanted_above = np.concatenate([[0], np.cumsum(is_wanted[order])])
    return wanted_above[counts].astype(np.int64)


# ---------------------------------------------------------------------------- the search


def best_one_run(canaries: int, ways: Guesses, delta: float, significance: float) -> float:
    """Largest epsilon that any way of guessing refutes, each at `significance`."""
    best = 0.0
    for at_delta_zero, guesses, right in _promising(ways, significance):
        # At delta = 0 the bound is known in closed form, and none is larger at another delta.
        if at_delta_zero <= best:
            break

        def margin(epsilon: float, r: int = guesses, v: int = right) -> float:
            return significance - one_run_p_value(canaries, r, v, epsilon=epsilon, delta=delta)

        best = max(best, _largest_refuted(margin, best))
    return best


def best_f_dp(canaries: int, ways: Guesses, significance: float) -> float:
    """Largest mu of a Gaussian trade-off that any way of guessing refutes, at `significance`."""
    from scipy.special import ndtr, ndtri

    best = 0.0
    for _, guesses, right in _promising(ways, significance):

        def margin(mu: float, r: int = guesses, v: int = right) -> float:
            def least(probability: float) -> float:
                return float(ndtr(ndtri(probability) - mu))

            return f_dp_excess(canaries, r, v, least, significance)

        best = max(best, _largest_refuted(margin, best))
    return best


def _promising(ways: Guesses, significance: float) -> list[tuple[float, int, int]]:
    """(bound at delta = 0, guesses, right) of each way that refutes perfect privacy, best first."""
    from scipy.special import betaincinv, logit

    counts, right = (column[ways.right > 0] for column in ways)
    # P[Bin(r, q) >= v] = I_q(v, r - v + 1): the Clopper-Pearson bound on the guesses' precision.
    bounds = logit(betaincinv(right, counts - right + 1, significance))
    order = np.argsort(-bounds, kind="stable")
    return [(float(bounds[i]), int(counts[i]), int(right[i])) for i in order if bounds[i] > 0.0]


def _largest_refuted(margin: Callable[[float], float], start: float) -> float:
    """Zero of `margin`, which is positive at what is refuted; `start` if it is negative there."""
    from scipy.optimize import brentq

    if margin(start) <= 0.0:
        return start
    low, high = start, max(1.0, 2.0 * start)
    while margin(high) > 0.0:
        low, high = high, 2.0 * high
    return float(brentq(margin, low, high, xtol=1e-9))


def one_run_p_value(
    canaries: int, guesses: int, correct: int, *, epsilon: float, delta: float
) -> float:
    """Largest probability of so many right guesses under (epsilon, delta)-DP.

    With q = 1 / (1 + exp(-epsilon)) and X ~ Bin(guesses, q) it is
    beta + 2 canaries delta alpha, where beta = P[X >= correct] and
    alpha = max over i of P[correct > X >= correct - i] / i; at most 1.

    Args:
        canaries: number of canaries, each in with probability 1/2, independently.
        guesses: number of canaries that the attacker guessed on, at most all.
        correct: number of right guesses.
        epsilon: epsilon of the guarantee, at least 0.
        delta: delta of the guarantee, in [0, 1).

    Raises:
        InputError: for numbers outside these ranges.
    """
    from scipy.special import betainc, expit

    _check_counts(canaries, guesses, correct)
    check_delta(delta)
    if not epsilon >= 0.0:
        raise InputError(f"epsilon: {epsilon!r} is not at least 0")
    if correct == 0:
        return 1.0
    q = float(expit(epsilon))
    beta = float(betainc(correct, guesses - correct + 1, q))
    if delta == 0.0 or beta == 1.0:
        return beta
    at_least = np.arange(correct - 1, 0, -1)
    tails = np.append(betainc(at_least, guesses - at_least + 1, q), 1.0)
    alpha = float(np.max((tails - beta) / np.arange(1, correct + 1)))
    return min(1.0, beta + 2.0 * canaries * delta * alpha)


def f_dp_excess(
    canaries: int,
    guesses: int,
    correct: int,
    least: Callable[[float], float],
    significance: float,
) -> float:
    """Margin by which a curve makes `correct` right guesses less likely than `significance`.

    The masses of "exactly i right" and of its wrong guesses are bounded from below, from i =
    correct down; where they would add up to more than all the guesses, the hypothesis is refuted.

    Args:
        canaries: number of canaries, each in with probability 1/2, independently.
        guesses: number of canaries that the attacker guessed on, at most all.
        correct: number of right guesses, at least 1.
        least: function from an event's probability with one neighbour to its least probability with
            the other: convex, increasing, and the same in both directions.
        significance: significance of the test.

    Returns:
        A number above 0 where the curve is refuted.
    """
    right = significance * correct / canaries
    wrong = significance * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        implied = least(right)
        if implied <= wrong:
            break  # Neither can change any more.
        right = min(1.0, right + i / (guesses - i) * (implied - wrong))
        wrong = implied
    return right + wrong - guesses / canaries


# ---------------------------------------------------------------------------- input


def check_delta(delta: float, method: str = "") -> None:
    """Refuse a delta outside [0, 1), and 0 for a `method` that fits a Gaussian.

    Raises:
        InputError: naming the value and what is allowed.
    """
    if not 0.0 <= delta < 1.0:
        raise InputError(f"delta: {delta!r} is not in [0, 1)")
    if method and delta == 0.0:
        raise InputError(
            f"delta: 0 with {method}: a Gaussian has no finite epsilon at delta = 0; "
            "use one-run or clopper-pearson, or a delta above 0"
        )


def significance_of(confidence: float) -> float:
    """One minus the confidence.

    Raises:
        InputError: unless 0 < confidence < 1.
    """
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence: {confidence!r} is not between 0 and 1")
    return 1.0 - confidence


def _check_counts(canaries: int, guesses: int, correct: int) -> None:
    named = {"canaries": canaries, "guesses": guesses, "correct": correct}
    for name, value in named.items():
        if value != int(value) or value < (name == "canaries"):
            raise InputError(f"{name}: {value!r} is not a number of {name}")
    if guesses > MOST_GUESSES:
        raise InputError(f"guesses: {guesses:,} is more than {MOST_GUESSES:,}")
    if guesses > canaries:
        raise InputError(f"guesses: {guesses} is more than the {canaries} canaries")
    if correct > guesses:
        raise InputError(f"correct: {correct} is more than the {guesses} guesses")
