"""Renyi divergences of releasing the best of a random, secret number of trials.

Papernot and Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy"
(arXiv:2110.03620), Theorems 2 and 6.
"""

from __future__ import annotations

import math

import numpy as np

from uedp_bench.accounting.accountants.renyi import ORDERS, Array, renyi_epsilon
from uedp_bench.errors import InputError
from uedp_bench.selection import Selection


def epsilon_of_best(divergences: Array, selection: Selection, delta: float) -> float:
    """Epsilon of releasing the best of a random number of trials.

    Args:
        divergences: (ORDERS.size,) Renyi divergences of one trial, in both directions.
        selection: `repetitions`, `mean` and `eta`.
        delta: in (0, 1).
    """
    return renyi_epsilon(best_of_random(divergences, selection), delta)


def best_of_random(divergences: Array, selection: Selection) -> Array:
    """Renyi divergences of the best of a random number of trials.

    Poisson (Theorem 6): with e^a <= 1 + 1/(order - 1) and d the delta of one trial at epsilon a,
    D + mean d + ln(mean) / (order - 1). With no trial at all, nothing of the data is released.
    Truncated negative binomial (Theorem 2): D + (1 + eta) min over other orders o of
    ((1 - 1/o) D(o) + ln(1/gamma) / o) + ln(mean) / (order - 1).

    Args:
        divergences: (ORDERS.size,) of one trial, in both directions.
        selection: with random `repetitions`.

    Returns:
        (ORDERS.size,).

    Raises:
        InputError: if the number of repetitions is not random.
    """
    if selection.mean is None:
        raise InputError(f"repetitions is {selection.repetitions!r}: their number must be random")
    extra = math.log(selection.mean) / (ORDERS - 1.0)
    if selection.eta is None:
        from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

        # dp-accounting takes no logarithm of what is nothing beside 1; more is the safe side.
        divergences = np.where(divergences > 0.0, np.maximum(divergences, 1e-15), 0.0)
        known = np.isfinite(divergences)
        if not known.any():
            return np.full(ORDERS.size, math.inf)
        deltas = [
            compute_delta(ORDERS[known], divergences[known], math.log1p(1.0 / (order - 1.0)))[0]
            for order in ORDERS
        ]
        return np.asarray(divergences + selection.mean * np.array(deltas) + extra)
    gamma = stopping_probability(selection.mean, selection.eta)
    other = np.min((1.0 - 1.0 / ORDERS) * divergences - math.log(gamma) / ORDERS)
    out = divergences + (1.0 + selection.eta) * other + extra
    # Divergences grow with the order: what holds for a larger order holds for a smaller one.
    return np.asarray(np.minimum.accumulate(out[::-1])[::-1])


def stopping_probability(mean: float, eta: float) -> float:
    """Gamma of the truncated negative binomial distribution of this mean (Definition 1).

    The mean is eta (1/gamma - 1) / (1 - gamma^eta); (1/gamma - 1) / ln(1/gamma) for eta 0.

    Returns:
        A value in (0, 1], rounded down, which is the safe side.
    """
    low, high = -745.0, 0.0  # of ln gamma
    while high - low > 1e-12 * max(1.0, -low):
        middle = (low + high) / 2.0
        if _mean(middle, eta) >= mean:
            low = middle
        else:
            high = middle
    return math.exp(low) if mean > 1.0 else 1.0


def _mean(log_gamma: float, eta: float) -> float:
    if log_gamma == 0.0:
        return 1.0
    if -log_gamma > 700.0 or -eta * log_gamma > 700.0:
        return math.inf if eta >= 0.0 else _tail_mean(log_gamma, eta)
    share = math.expm1(-log_gamma)
    if abs(eta * log_gamma) < 1e-12:
        return share / -log_gamma
    return eta * share / -math.expm1(eta * log_gamma)


def _tail_mean(log_gamma: float, eta: float) -> float:
    """The mean for a negative eta and so small a gamma that powers would overflow."""
    return -eta * math.exp(min(-log_gamma * (1.0 + eta), 700.0))
