"""What happened, as frozen values: mechanisms emit events, accountants say what they are worth.

An event says enough to write an accountant without seeing the mechanism. Meanings never change:
a new situation is a new class. No guarantee is an event too (`NonPrivate`). The classes mirror
those of dp-accounting where it has one (`accounting.convert` translates), because importing that
library takes longer than `uedp-bench list` may.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PrivacyUnit = Literal[
    "record", "user", "entity", "user-entity", "sentence", "word", "attribute", "computation"
]
Adjacency = Literal["add-or-remove", "replace-one", "zero-out"]
Rate = Annotated[float, Field(ge=0.0, le=1.0)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NonPrivate(_Frozen):
    """Private data was used without protection: epsilon is infinite."""

    kind: Literal["non-private"] = "non-private"
    reason: str


class Gaussian(_Frozen):
    """A sum of unit vectors plus N(0, s^2 I): `noise_multiplier` is s over the clip bound."""

    kind: Literal["gaussian"] = "gaussian"
    noise_multiplier: float = Field(ge=0.0)


class PoissonSampled(_Frozen):
    """Every unit takes part independently with probability `rate`, then `event` happens."""

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Rate
    event: Gaussian


class FixedSizeSampled(_Frozen):
    """Exactly `sample` of `population` units, drawn without replacement, then `event` happens."""

    kind: Literal["fixed-size-sampled"] = "fixed-size-sampled"
    population: int = Field(ge=1)
    sample: int = Field(ge=1)
    event: Gaussian


class UserEntityGaussian(_Frozen):
    """One round of user sampling with one-level clipping, for the unit user-entity.

    Every user takes part independently with probability `rate`; its update, whatever its data, has
    norm at most 1; noise of standard deviation `noise_multiplier` is added to the sum. Adjacent
    data differ in one user and in all sentences, of any user, that mention one entity. `users` is
    the public number of users: the largest spread is `users - 1`.
    """

    kind: Literal["user-entity-gaussian"] = "user-entity-gaussian"
    rate: Rate
    noise_multiplier: float = Field(ge=0.0)
    users: int = Field(ge=1)


class Repeated(_Frozen):
    """`event` happens `count` times, each adaptively after the last."""

    kind: Literal["repeated"] = "repeated"
    count: int = Field(ge=0)
    event: Annotated[
        PoissonSampled | FixedSizeSampled | UserEntityGaussian | Gaussian,
        Field(discriminator="kind"),
    ]


AnyEvent = Annotated[
    NonPrivate | Gaussian | PoissonSampled | FixedSizeSampled | UserEntityGaussian | Repeated,
    Field(discriminator="kind"),
]


class PrivacyEvent(_Frozen):
    """An event with the unit and the adjacency that it speaks of.

    Attributes:
        unit: what one change of the data replaces.
        adjacency: how neighbouring data sets differ.
        event: what happened.
        assumptions: conditions of the analysis that the code which emitted this event meets.
    """

    unit: PrivacyUnit
    adjacency: Adjacency = "add-or-remove"
    event: AnyEvent
    assumptions: tuple[str, ...] = ()


class Claim(_Frozen):
    """A guarantee as a paper computes it: the event it has in mind and the accountant it uses.

    Attributes:
        accountant: "moments" (Abadi et al. 2016, integer orders 1 to 64), "rdp" or "pld".
        source: paper, section or equation.
        note: where the claim departs from what the algorithm gives.
    """

    unit: PrivacyUnit
    adjacency: Adjacency = "add-or-remove"
    event: AnyEvent
    accountant: Literal["moments", "rdp", "pld"]
    source: str
    assumptions: tuple[str, ...] = ()
    note: str = ""
