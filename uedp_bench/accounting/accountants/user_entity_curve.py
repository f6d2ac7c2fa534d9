"""Shown points of the user-entity curve, and their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uedp_bench.accounting.accountants.answers import Asked
from uedp_bench.accounting.banded_factorization import BandedFactorization, WithCurve
from uedp_bench.accounting.event_contract import MOST_COUNT
from uedp_bench.accounting.events import (
    Event,
    Protected,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
)
from uedp_bench.accounting.guarantee import CurvePoint

SPREADS = (0, 1, 3, 10, 30, 100)
"""The points of the curve beside everybody: other users, or their sentences."""


@dataclass(frozen=True)
class Sizes:
    """Public sizes of the rounds of a run with a curve.

    Attributes:
        users: public number of users.
        sentences: of a user, at most, where sentences are sampled; else 0.
        whole: sentences of another user that count as all of its update, where clipping has two
            levels; else 0.
    """

    users: int
    sentences: int
    whole: int

    @staticmethod
    def from_rounds(rounds: Sequence[Event]) -> Sizes:
        """Read the sizes of rounds with a curve, which agree on the number of users."""
        return Sizes(
            users=max(users_of(r) for r in rounds if isinstance(r, WithCurve)),
            sentences=max(
                (r.sentences_per_user for r in rounds if isinstance(r, SentenceSampledGaussian)),
                default=0,
            ),
            whole=max(
                (
                    math.ceil(min(2.0 / r.sentence_bound, MOST_COUNT))
                    for r in rounds
                    if isinstance(r, TwoLevelUserEntityGaussian)
                ),
                default=0,
            ),
        )

    @property
    def everybody(self) -> Protected:
        """An entity that all others mention, in everything they wrote."""
        return Protected(
            spread=self.users - 1, sentences_per_user=max(self.sentences, self.whole, 1)
        )

    def points(self, declared: Protected | None) -> tuple[Protected, ...]:
        """`SPREADS`, the declared point and everybody."""
        most, each = self.users - 1, 1
        if self.sentences:
            most *= 1 if self.whole else self.sentences
        elif self.whole:
            each = declared.sentences_per_user if declared else self.whole
        standard = [Protected(spread=k, sentences_per_user=each) for k in SPREADS if k < most]
        return (*standard, *([declared] if declared else []), self.everybody)

    def shown(self, point: Protected, epsilon: float) -> CurvePoint:
        """The point with its value; nothing beyond everybody is claimed."""
        spread = min(point.spread, self.users - 1)
        each, sentences = point.sentences_per_user, None
        if self.sentences:
            most = self.sentences * (self.users - 1)
            # Two levels count users: more of their sentences than users have were not asked for.
            others = spread if self.whole else point.spread
            sentences = min(others * min(each, self.sentences), most)
        elif each < self.whole:
            sentences = spread * each
        return CurvePoint(spread=spread, sentences=sentences, epsilon=epsilon)


def users_of(event: WithCurve) -> int:
    """Public number of users, with which the curve ends."""
    return event.population if isinstance(event, BandedFactorization) else event.users


def curve_of(
    sizes: Sizes, query: Asked, epsilon_at: Callable[[Protected], float]
) -> tuple[float, tuple[CurvePoint, ...]]:
    """Epsilon at the point that the guarantee is given for, and the curve.

    Args:
        sizes: sizes of the rounds.
        query: points of the query.
        epsilon_at: function from a point to its epsilon.
    """
    if query.alone:
        return epsilon_at(Protected(spread=0)), ()
    points = sizes.points(query.declared) if query.points is None else query.points
    shown = {sizes.shown(point, epsilon_at(point)) for point in points}
    order = sorted(
        shown, key=lambda p: (p.spread, math.inf if p.sentences is None else p.sentences)
    )
    return epsilon_at(query.declared or sizes.everybody), tuple(order)
