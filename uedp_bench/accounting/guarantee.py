"""The value that an accountant returns; infinity and refusal are values too."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.accounting.event_contract import COMPUTATION
from uedp_bench.accounting.events import Adjacency, PrivacyUnit, Protected
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
            (`components.review`), or of a list that somebody wrote; "proven": computed by an
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
