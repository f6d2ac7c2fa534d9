"""The value that an accountant returns, infinity and refusal too, and what it always assumes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.accounting.event_contract import COMPUTATION, Adjacency, PrivacyUnit, Protected
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
