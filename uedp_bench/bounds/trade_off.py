"""Trade-off curves of guarantees, and scores of audits that a curve does not allow.

An (epsilon, delta) is one point of what a guarantee says. A Gaussian mechanism of (5.17, 1e-5) lets
a fair coin be guessed right with probability 0.718, while (5.17, 0) alone allows 0.994: its whole
curve is refuted by far fewer right guesses than its point (Mahloujifar, Melis, Chaudhuri 2024,
arXiv:2410.22235).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.bounds.e_values import Bets, e_values
from uedp_bench.bounds.one_run import f_dp_excess

if TYPE_CHECKING:
    from uedp_bench.contracts.results import CurveEvidence
    from uedp_bench.corpus import FloatArray

DELTAS = (
    *(1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03),
    *(0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""Deltas at which a curve is sampled. Fewer make it weaker, and never wrong."""

LARGEST = 500.0
"""Epsilons above this say nothing that scores could refute."""


class TradeOffCurve(NamedTuple):
    """Trade-off curve of several (epsilon, delta) of one guarantee, for both directions.

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
