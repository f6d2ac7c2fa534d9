"""Guarantee that users declare for what was made elsewhere: repeated, and never proven."""

from __future__ import annotations

from pydantic import Field, model_validator

from uedp_bench.accounting.event_contract import Adjacency, Count, PrivacyUnit
from uedp_bench.accounting.events import (
    DECLARED,
    ApproximateDP,
    Claim,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from uedp_bench.components.component import Params, equals

MADE_ELSEWHERE = "made elsewhere: no event here describes what was done with private text"
"""Reason why nothing is proven of it."""

UNCHECKED = f"{DECLARED}: nothing here has checked it, and attacks can only refute it"


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
        if changed and not self.claims():
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
                note=UNCHECKED,
            ),
        )

    def events(self) -> tuple[PrivacyEvent, ...]:
        """Unprotected use of private text, for the unit of the claim: nothing is proven of it."""
        event = NonPrivate(reason=MADE_ELSEWHERE)
        return (
            PrivacyEvent(unit=self.claimed_unit, adjacency=self.claimed_adjacency, event=event),
        )


class DeclaredTraining(DeclaredClaim):
    """Declared claim of a training with noise: also by noise, sampling rate and steps.

    Such a claim says epsilon at every delta, as the accountant of privacy losses computes it, so
    that audits test its whole trade-off curve and not one point.
    """

    claimed_noise_multiplier: float | None = Field(
        default=None,
        gt=0.0,
        exclude_if=equals(None),
        description="noise of a step over the clip bound that its maker claims; none by default",
    )
    claimed_sampling_rate: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        exclude_if=equals(1.0),
        description="probability of a unit to take part in a step, of that claim",
    )
    claimed_steps: Count = Field(
        default=1, exclude_if=equals(1), description="steps of the training, of that claim"
    )

    @model_validator(mode="after")
    def _claims_noise_or_nothing_of_it(self) -> DeclaredTraining:
        for name, needed in (
            ("claimed_sampling_rate", "claimed_noise_multiplier"),
            ("claimed_steps", "claimed_noise_multiplier"),
            ("claimed_delta", "claimed_epsilon"),
        ):
            changed = getattr(self, name) != type(self).model_fields[name].default
            if changed and getattr(self, needed) is None:
                raise ValueError(f"{name} is given, but no {needed}: give it, or leave {name} out")
        return self

    def claims(self) -> tuple[Claim, ...]:
        """The declared claims: by epsilon, by noise, or both."""
        if self.claimed_noise_multiplier is None:
            return super().claims()
        step: Gaussian | PoissonSampled = Gaussian(noise_multiplier=self.claimed_noise_multiplier)
        if self.claimed_sampling_rate < 1.0:
            step = PoissonSampled(rate=self.claimed_sampling_rate, event=step)
        by_noise = Claim(
            unit=self.claimed_unit,
            adjacency=self.claimed_adjacency,
            event=Repeated(count=self.claimed_steps, event=step),
            accountant="pld",
            source=self.claimed_source,
            note=UNCHECKED,
        )
        return (*super().claims(), by_noise)
