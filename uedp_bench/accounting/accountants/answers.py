"""Queries to accountants, and their answers: a number, its origin and its curve, or a refusal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from uedp_bench.accounting.banded_factorization import BandedFactorization, WithCurve
from uedp_bench.accounting.event_contract import MOST_COUNT, Adjacency, Event, Notion, Protected
from uedp_bench.accounting.events import SentenceSampledGaussian, TwoLevelUserEntityGaussian
from uedp_bench.accounting.guarantee import CurvePoint

SOURCES = {
    "pld": "privacy loss distribution, connect-the-dots (dp-accounting; arXiv:2207.04380)",
    "rdp": "Renyi accountant (dp-accounting; arXiv:1702.07476, arXiv:1908.10530)",
    "fixed-size-pld": "the pair of a replaced unit, connect-the-dots (docs/proofs.md, A.2)",
    "user-entity-pld": "opposed binomial mixtures, connect-the-dots (docs/accounting.md)",
    "gaussian": "Gaussian mechanism, exact (Balle and Wang 2018, arXiv:1805.06530, Theorem 8)",
    "pairs-pld": "pairs that events declare or promises allow (docs/accounting.md)",
    "basic": "basic composition and group privacy (Dwork et al. 2006)",
    "metric": "metric differential privacy, per unit of distance (Chatzikokolakis et al. 2013)",
    "simulation": "simulation security; failures add up (Goldreich 2004, chapter 7)",
}
"""Source of each accountant."""

Rounds = Sequence[tuple[Event, int]]
"""Events of one round, each with the number of times it happens."""


class Refusal(Exception):  # noqa: N818 - an answer of an accountant, caught by the ledger
    """The accountant does not understand the events; the message is the reason."""


@dataclass(frozen=True)
class Asked:
    """Query for points of the user-entity curve.

    Attributes:
        declared: point of the guarantee; None for everybody.
        points: points of the curve; None for the standard spreads, the declared one and everybody.
        alone: True if the user alone is meant (the point 0, and no curve).
    """

    declared: Protected | None = None
    points: tuple[Protected, ...] | None = None
    alone: bool = False


@dataclass(frozen=True)
class Answer:
    """Answer of an accountant.

    Attributes:
        epsilon: the smallest valid value.
        accountant: the accountant that gave it, "none" where none could; two joined by " + " where
            two did.
        values: epsilon by every accountant that is valid for these events.
        curve: curve of user-entity events.
        reason: reason why epsilon is infinite, if it is.
        notion: meaning of epsilon.
        used: the delta that epsilon holds at; None for that of the query.
        pure: epsilon at delta 0, where that is known and epsilon is of a larger delta.
    """

    epsilon: float
    accountant: str
    values: dict[str, float] = field(default_factory=dict)
    curve: tuple[CurvePoint, ...] = ()
    reason: str = ""
    notion: Notion = "dp"
    used: float | None = None
    pure: float | None = None

    @property
    def source(self) -> str:
        """Sources of the accountants; none for accountants that a plug-in brings."""
        return "; ".join(filter(None, (SOURCES.get(n, "") for n in self.accountant.split(" + "))))


Accountant = Callable[[Rounds, Adjacency, float, Asked], Answer]
"""Function of rounds of events that all have it, adjacency, delta, and the points of a curve."""

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
