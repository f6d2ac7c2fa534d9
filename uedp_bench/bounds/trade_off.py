"""Trade-off curves of guarantees, and evidence of audits that a curve does not allow.

An (epsilon, delta) is one point of what a guarantee says. A Gaussian mechanism of (5.17, 1e-5) lets
a fair coin be guessed right with probability 0.718, while (5.17, 0) alone allows 0.994: its whole
curve is refuted by far fewer right guesses than its point (Mahloujifar, Melis, Chaudhuri 2024,
arXiv:2410.22235).

E-values are evidence that grows with every retraining, and may be looked at after each. A fair coin
puts a canary into each of several independent trainings, and the attacker guesses it. Under
(epsilon, delta)-DP a guess is right with probability q = (e^epsilon + delta)/(1 + e^epsilon) at
most. A bet on it at the chance p > q multiplies the evidence by p / q where the guess is right, and
by (1 - p) / (1 - q) where it is not. By Ville's inequality the product ever reaches 1 / alpha with
probability alpha at most, however the number of trainings is chosen (arXiv:2509.07055 and
arXiv:2602.06518, with thresholds that are fixed before each training).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.bounds.one_run import f_dp_excess

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from uedp_bench.contracts.results import CurveEvidence
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


# --------------------------------------------------------------------------------- trade-off curves


DELTAS = (
    *(1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03),
    *(0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""Deltas at which a curve is sampled. Fewer make it weaker, and never wrong."""

LARGEST = 500.0
"""Epsilons above this say nothing that scores could refute."""


CELLS = 1 << 14
"""Steps of the upper sum that an area is taken from: less than 1e-4 too large."""


class TradeOffCurve(NamedTuple):
    """Trade-off curve of several (epsilon, delta) of one guarantee, for both directions.

    Audits ask it in probabilities of one unit (`least`, `fair_coin`), ceilings in rates of tests
    about a group of units (`true_positives`, `area`): 1 - `least(1 - rate)` is the largest rate of
    true positives of a test about one.

    Attributes:
        epsilons: (points,) finite epsilons.
        deltas: (points,) their deltas, in [0, 1].
    """

    epsilons: FloatArray
    deltas: FloatArray

    @classmethod
    def from_points(cls, points: Iterable[tuple[float, float]]) -> TradeOffCurve:
        """The curve of such (epsilon, delta); where none is finite, one that allows all."""
        finite = [point for point in points if point[0] <= LARGEST] or [(0.0, 1.0)]
        epsilons, deltas = np.array(finite, dtype=np.float64).T
        return cls(epsilons, deltas)

    @classmethod
    def sampled(cls, epsilon_at: Callable[[float], float]) -> TradeOffCurve:
        """The curve of an accountant that says epsilon at a delta."""
        return cls.from_points((epsilon_at(delta), delta) for delta in DELTAS)

    def least(self, probability: float) -> float:
        """Least probability with one neighbour of what has `probability` with the other."""
        low = np.exp(-self.epsilons) * (probability - self.deltas)
        high = 1.0 - self.deltas - np.exp(self.epsilons) * (1.0 - probability)
        return max(0.0, float(np.max(low)), float(np.max(high)))

    @property
    def fair_coin(self) -> float:
        """Largest probability of guessing right which neighbour a fair coin chose."""
        grown = np.exp(self.epsilons)
        return float(np.min((grown + self.deltas) / (1.0 + grown)))

    def true_positives(self, rates: ArrayLike, group: int = 1) -> FloatArray:
        """Largest true-positive rates of all tests.

        Args:
            rates: (n,) false-positive rates.
            group: units that a test asks about at once.

        Returns:
            (n,) rates.
        """
        most = np.atleast_1d(np.asarray(rates, dtype=np.float64))
        for _ in range(group):
            before, most = most, self._of_one(most)
            if np.array_equal(before, most):
                break
        return most

    def _of_one(self, rates: FloatArray) -> FloatArray:
        most = np.ones_like(rates)
        for epsilon, delta in zip(self.epsilons, self.deltas, strict=True):
            least = math.exp(-epsilon)
            steep = delta + math.exp(min(epsilon, 700.0)) * rates
            most = np.minimum(most, np.minimum(steep, 1.0 - least * (1.0 - delta - rates)))
        return np.asarray(np.maximum(most, rates))

    def area(self, group: int = 1) -> float:
        """Largest area under a curve of true over false positives, rounded up."""
        ends = np.arange(1, CELLS + 1) / CELLS
        return float(self.true_positives(ends, group).mean())


PERFECT = TradeOffCurve.from_points([(0.0, 0.0)])
"""Curve under which nothing is learned: what does not refute it refutes nothing."""


def refutes(evidence: CurveEvidence, curve: TradeOffCurve) -> bool:
    """True if the scores behind the evidence have a probability below its `error` under the curve.

    Args:
        evidence: evidence of canaries of the unit that the curve protects.
        curve: curve of the guarantee.
    """
    return any(_refuted(evidence, curve))


def _refuted(evidence: CurveEvidence, curve: TradeOffCurve) -> Iterable[bool]:
    each = evidence.error / (1 + bool(evidence.rates or evidence.bets))
    share = each / max(1, len(evidence.guesses))
    for guesses, right in evidence.guesses:
        yield right > 0 and f_dp_excess(evidence.canaries, guesses, right, curve.least, share) > 0.0
    for likely, rare in evidence.rates:
        yield rare < curve.least(likely)
    if evidence.bets:
        chances, hits = zip(*evidence.bets, strict=True)
        bets = Bets(np.array(chances), np.array(hits))
        yield float(e_values(bets, curve.fair_coin).max()) >= 1.0 / each
