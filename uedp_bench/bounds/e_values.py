"""Evidence that grows with every retraining, and may be looked at after each: e-values.

A fair coin puts a canary into each of several independent trainings, and the attacker guesses it.
Under (epsilon, delta)-DP a guess is right with probability q = (e^epsilon + delta)/(1 + e^epsilon)
at most. A bet on it at the chance p > q multiplies the evidence by p / q where the guess is right,
and by (1 - p) / (1 - q) where it is not. By Ville's inequality the product ever reaches 1 / alpha
with probability alpha at most, however the number of trainings is chosen.

Sources: arXiv:2509.07055 and arXiv:2602.06518, with thresholds that are fixed before each training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, FloatArray

STEP = 0.01
"""Step between the epsilons that are tested; a bound is the last of those that are refuted."""

LARGEST_LOG = 700.0
"""More evidence than this says nothing more, and would overflow."""

MOST = 30.0
"""Epsilons above this are not looked at."""


class Bets(NamedTuple):
    """Bets on guesses, one a training, in the order of the trainings.

    Attributes:
        chances: (n,) probability at which each is bet to be right, fixed before its training; 0
            for no bet.
        right: (n,) True for a right guess.
    """

    chances: FloatArray
    right: BoolArray


def place_bets(scores: FloatArray, included: BoolArray) -> Bets:
    """Guess from scores: included if above the middle of the means of earlier trainings' sides.

    The chance of a bet is the share of right guesses so far, by Laplace's rule. Threshold and
    chance of a training thus depend on those before it alone. There is no bet before both sides
    were seen.

    Args:
        scores: (n,) scores of the canary after each training, high where it is included.
        included: (n,) coins of the trainings.
    """
    chances, right = np.zeros(len(scores)), np.zeros(len(scores), dtype=bool)
    guesses = hits = 0
    for number in range(1, len(scores)):
        before, coins = scores[:number], included[:number]
        if coins.all() or not coins.any():
            continue
        middle = (before[coins].mean() + before[~coins].mean()) / 2.0
        # The side that scores higher is that of included ones, by the meaning of scores.
        right[number] = bool(scores[number] > middle) == bool(included[number])
        chances[number] = (hits + 1.0) / (guesses + 2.0)
        guesses, hits = guesses + 1, hits + int(right[number])
    return Bets(chances, right)


def e_values(bets: Bets, fair_coin: float) -> FloatArray:
    """(n,) evidence after each training against guesses that are right with `fair_coin` at most.

    Args:
        bets: bets on the guesses; those at a chance of `fair_coin` or less are not placed.
        fair_coin: largest probability of a right guess that is tested, in [1/2, 1].
    """
    if fair_coin >= 1.0:
        return np.ones(len(bets.right))
    placed = np.maximum(bets.chances, fair_coin)
    wins, losses = placed / fair_coin, (1.0 - placed) / (1.0 - fair_coin)
    grown = np.cumsum(np.log(np.where(bets.right, wins, losses)))
    return np.asarray(np.exp(np.minimum(grown, LARGEST_LOG)), dtype=np.float64)


def e_value_bound(bets: Bets, delta: float, confidence: float) -> float:
    """The largest epsilon up to which all are refuted at `delta`, after any of the trainings.

    Args:
        bets: bets on the guesses.
        delta: delta of the bound, in [0, 1).
        confidence: one minus the probability that it ever exceeds the true epsilon.
    """
    largest, needed = 0.0, 1.0 / (1.0 - confidence)
    for epsilon in np.arange(1, round(MOST / STEP)) * STEP:
        if e_values(bets, right_at_most(float(epsilon), delta)).max(initial=0.0) < needed:
            break
        largest = float(epsilon)
    return largest


def right_at_most(epsilon: float, delta: float) -> float:
    """Largest probability of guessing a fair coin right under (epsilon, delta)-DP."""
    return float((1.0 + delta * np.exp(-epsilon)) / (1.0 + np.exp(-epsilon)))
