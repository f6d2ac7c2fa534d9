"""Queries to accountants, and their answers: a number and its origin, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from uedp_bench.accounting.event_contract import Adjacency, Event, Notion, Protected
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
