"""Declarations of users that no event describes: claims of what was made elsewhere, selections.

A declared claim is repeated, and never proven. A declared selection says in which way the
hyper-parameters of a benchmark were chosen.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

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


# --------------------------------------------------------------------------------------- selections


MOST_SETTINGS = 10_000
"""Most settings of a grid that was tried; each of them is accounted for."""


class Selection(BaseModel):
    """Hyper-parameters that were chosen by comparing trained models.

    Every trial saw the training split, so the choice says something about it even where scores were
    computed on public text. What the ledger adds for it is in `accounting.selection`.

    Attributes:
        tried: by the name of a setting (`mechanism.NAME.x`, `model.x`, `task.x`), all values that
            were tried; a grid where there are several names. No value twice: equal trials of one
            seed draw the same noise.
        seeds: trainings of each setting that the choice looked at; each is a trial. None: as many
            as the benchmark has seeds. A choice by the mean over three seeds is three trainings.
        scores: the text on which trained models were compared: "public"; "validation": private text
            of users who are not in the training split; "training": the training split itself.
        repetitions: law of the number of trials. "fixed": each setting of the grid, with each of
            the seeds. Otherwise the number was drawn at random and kept secret, each trial took a
            setting of the grid uniformly at random and trained it with `seeds` seeds, and the best
            trial was released.
        mean: expected number of trials, where it is random.
        eta: shape of the truncated negative binomial distribution; 1 is geometric, 0 logarithmic.
        charge: False leaves every guarantee as for settings fixed in advance, and says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    tried: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    scores: Literal["public", "validation", "training"] = "validation"
    seeds: int | None = Field(default=None, ge=1, le=1000)
    repetitions: Literal["fixed", "poisson", "truncated-negative-binomial"] = "fixed"
    mean: float | None = Field(default=None, ge=1.0, allow_inf_nan=False)
    eta: float | None = Field(default=None, gt=-1.0, allow_inf_nan=False)
    charge: bool = True

    @field_validator("tried")
    @classmethod
    def _names(cls, tried: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name in tried:
            parts = name.split(".")
            if (parts[0], len(parts)) not in {("mechanism", 3), ("model", 2), ("task", 2)}:
                raise ValueError(f"{name!r} is none of mechanism.NAME.x, model.x, task.x")
        for name, values in tried.items():
            seen = [json.dumps(value, sort_keys=True, default=str) for value in values]
            for number, value in enumerate(seen):
                if value in seen[:number]:
                    raise ValueError(f"{name}: {value} stands twice; give every value once")
        return tried

    @model_validator(mode="after")
    def _numbers(self) -> Selection:
        if self.size > MOST_SETTINGS:
            raise ValueError(f"tried: the grid has more than {MOST_SETTINGS:,} settings")
        for name, needed in (
            ("mean", self.repetitions != "fixed"),
            ("eta", self.repetitions == "truncated-negative-binomial"),
        ):
            is_set = getattr(self, name) is not None
            if is_set != needed:
                verb = "needed" if needed else "not used"
                raise ValueError(f"{name} is {verb} where repetitions is {self.repetitions!r}")
        return self

    @property
    def size(self) -> int:
        """Number of settings in the grid."""
        return math.prod(len(values) for values in self.tried.values())

    @property
    def each(self) -> int:
        """Trainings of one setting that the choice looked at."""
        return self.seeds or 1

    @property
    def random(self) -> bool:
        """True if chance decided how many trials there were."""
        return self.repetitions != "fixed"

    @property
    def trainings(self) -> int:
        """Trained models that the choice looked at, where their number is fixed."""
        return self.size * self.each

    def declared(self) -> dict[str, Any]:
        """Part of a run's identity; runs of older versions recorded no seeds."""
        fields = self.model_dump(mode="json")
        if self.seeds is None:
            del fields["seeds"]
        return fields

    def settings(self) -> Iterator[dict[str, Any]]:
        """All settings of the grid: the value of every name."""
        for values in itertools.product(*self.tried.values()):
            yield dict(zip(self.tried, values, strict=True))

    def concerning(self, mechanisms: set[str]) -> Selection | None:
        """The part that concerns a run of these mechanisms; None if nothing does."""
        tried = {
            name: values
            for name, values in self.tried.items()
            if not name.startswith("mechanism.") or name.split(".")[1] in mechanisms
        }
        return self.model_copy(update={"tried": tried}) if tried else None
