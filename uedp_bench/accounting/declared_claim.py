"""The guarantee that users declare for what somebody made elsewhere: repeated, and never proven."""

from __future__ import annotations

from pydantic import Field, model_validator

from uedp_bench.accounting.event_contract import Adjacency, PrivacyUnit
from uedp_bench.accounting.events import DECLARED, ApproximateDP, Claim, NonPrivate, PrivacyEvent
from uedp_bench.component import Params

MADE_ELSEWHERE = "made elsewhere: no event here describes what was done with private text"
"""Why nothing is proven of it."""


class DeclaredClaim(Params):
    """Parameters by which a user says what is claimed of a model or a file made elsewhere.

    Parameters of a mechanism derive from this class; `claims` and `events` are what the mechanism
    answers to `Mechanism.claims` and `Mechanism.plan`. Results print the claim with the accountant
    "declared by the user". An attack can refute it, and nothing here proves it.
    """

    claimed_epsilon: float | None = Field(
        default=None,
        ge=0.0,
        description="epsilon that its maker claims; none by default: nothing is claimed then",
    )
    claimed_delta: float = Field(default=0.0, ge=0.0, lt=1.0, description="delta of the claim")
    claimed_unit: PrivacyUnit = Field(
        default="user", description="privacy unit of the claim: what one change of the data is"
    )
    claimed_adjacency: Adjacency = Field(
        default="add-or-remove", description="how neighbouring data sets of the claim differ"
    )
    claimed_source: str = Field(
        default="", max_length=500, description="where the claim stands: a paper, a model card"
    )

    @model_validator(mode="after")
    def _claims_something_or_nothing(self) -> DeclaredClaim:
        if self.claimed_unit == "computation":
            raise ValueError(
                "claimed_unit is 'computation', which is no unit of data; name what is protected: "
                "record, user, client, entity, user-entity, sentence, word or attribute"
            )
        named = ("claimed_delta", "claimed_unit", "claimed_adjacency", "claimed_source")
        changed = [n for n in named if getattr(self, n) != type(self).model_fields[n].default]
        if self.claimed_epsilon is None and changed:
            raise ValueError(
                f"{changed[0]} is given, but no claimed_epsilon: give it, or leave {changed[0]} out"
            )
        return self

    def claims(self) -> tuple[Claim, ...]:
        """The declared claim; none where no epsilon is declared."""
        if self.claimed_epsilon is None:
            return ()
        return (
            Claim(
                unit=self.claimed_unit,
                adjacency=self.claimed_adjacency,
                event=ApproximateDP(epsilon=self.claimed_epsilon, delta=self.claimed_delta),
                accountant=DECLARED,
                source=self.claimed_source,
                note=f"{DECLARED}: nothing here has checked it, and attacks can only refute it",
            ),
        )

    def events(self) -> tuple[PrivacyEvent, ...]:
        """Private text was used, and nothing is proven of how; of the unit of the claim."""
        event = NonPrivate(reason=MADE_ELSEWHERE)
        return (
            PrivacyEvent(unit=self.claimed_unit, adjacency=self.claimed_adjacency, event=event),
        )
