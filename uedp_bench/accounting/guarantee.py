"""Guarantees: queries to an accountant, its answer or refusal, and the value that it makes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.accounting.banded_factorization import BandedFactorization, WithCurve
from uedp_bench.accounting.event_contract import (
    COMPUTATION,
    MOST_COUNT,
    Adjacency,
    Event,
    Notion,
    PrivacyUnit,
    Protected,
)
from uedp_bench.accounting.events import SentenceSampledGaussian, TwoLevelUserEntityGaussian
from uedp_bench.components.component import Number, equals


class CurvePoint(BaseModel):
    """Epsilon for an entity that at most `spread` other users mention.

    `sentences` bounds their sentences that mention it, all together; None for any number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    spread: int = Field(ge=0)
    sentences: int | None = None
    epsilon: Number = Field(ge=0.0)


class Guarantee(BaseModel):
    """(epsilon, delta) for a unit and an adjacency: claimed by a paper, stated, or proven here.

    Attributes:
        kind: "claimed": computed as the paper computed it, or declared by the user; "stated":
            computed by an accountant from events of a component that was not reviewed
            (`components.registry`), or of a list that somebody wrote; "proven": computed by an
            accountant whose assumptions this code meets, from events of reviewed components.
        notion: meaning of epsilon; "none" where nothing is promised (epsilon is infinite).
        epsilon: in nats; infinity for no guarantee; of a curve, the value at the declared
            protected point, else at everybody.
        pure: epsilon at delta 0, where that is promised too; None where it is not, or `delta` is 0.
        protected: the point of the curve that `epsilon` is at; None for everybody, or no curve.
        status: "given"; "refused" with `reason` (then epsilon is infinite); a claim, or
            what is stated, may be "refuted": an attack's lower bound exceeds it, as `reason` says.
        note: where a claim departs from what the algorithm gives; what was not reviewed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["claimed", "stated", "proven"]
    notion: Literal["dp", "metric-dp", "simulation", "none"] = "dp"
    unit: PrivacyUnit
    adjacency: Adjacency
    epsilon: Number = Field(ge=0.0)
    delta: float = Field(ge=0.0, le=1.0)
    pure: Number | None = Field(default=None, exclude_if=equals(None))
    accountant: str
    source: str = ""
    assumptions: tuple[str, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    protected: Protected | None = None
    status: Literal["given", "refused", "refuted"] = "given"
    reason: str = ""
    note: str = ""


def proves_something(guarantees: Iterable[Guarantee]) -> bool:
    """True if a guarantee of data is proven and finite: only then may others read the release.

    Computation that nobody sees promises nothing of what it computes with.
    """
    return any(
        one.kind == "proven"
        and one.status == "given"
        and math.isfinite(one.epsilon)
        and one.unit != COMPUTATION
        for one in guarantees
    )


# ------------------------------------------------------------------- assumptions of every guarantee


@dataclass(frozen=True)
class Condition:
    """Condition of guarantees beside their events: of the data, or of public choices about units.

    Attributes:
        text: the condition; where it is broken, what breaks it.
        units: units whose guarantees need it; None for all units but a computation.
        adjacency: adjacency whose guarantees need it; None for any.
        broken: True if nothing is proven; else the guarantee states it among its assumptions.
    """

    text: str
    units: frozenset[PrivacyUnit] | None = None
    adjacency: Adjacency | None = None
    broken: bool = False

    def concerns(self, unit: PrivacyUnit, adjacency: Adjacency) -> bool:
        """True if a guarantee of this unit and adjacency needs it."""
        if self.adjacency not in (None, adjacency):
            return False
        return unit != "computation" if self.units is None else unit in self.units


NoiseSource = Literal["seed", "os"]
"""Source of the numbers that protect: the run's seed, or the operating system."""

REAL_VALUED = (
    "noise and arithmetic are those of real numbers: rounding in floating point is not analysed"
)

FRESH = "every run draws fresh randomness, independent of all others on the same data"

SECRET: dict[NoiseSource, str] = {
    "seed": "the seed stays secret: whoever has it can draw the noise again and take it off",
    "os": "the randomness is that of the operating system's generator, and nobody has recorded it",
}
"""Assumption by noise source that nobody can draw the noise again."""

_ALWAYS = (REAL_VALUED, FRESH, *SECRET.values())


def general(source: NoiseSource = "seed", notion: str = "dp") -> tuple[str, ...]:
    """The assumptions of every proven guarantee.

    Args:
        source: source of the numbers that protect.
        notion: meaning of epsilon; a simulation computes with integers, not with real numbers.
    """
    always = (FRESH, SECRET[source])
    return always if notion == "simulation" else (REAL_VALUED, *always)


def missing(
    stated: Sequence[str], source: NoiseSource = "seed", notion: str = "dp"
) -> tuple[str, ...]:
    """General assumptions that a guarantee does not state."""
    return tuple(text for text in general(source, notion) if text not in stated)


def states_none(stated: Sequence[str]) -> bool:
    """True if no general assumption is stated, as in results of older versions."""
    return not any(text in stated for text in _ALWAYS)


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
