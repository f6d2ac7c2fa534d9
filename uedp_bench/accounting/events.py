"""What happened, as frozen values: mechanisms emit events, accountants say what they are worth.

An event says enough to write an accountant without seeing the mechanism. Meanings never change:
a new situation is a new class. No guarantee is an event too (`NonPrivate`). These are the kinds of
this package, registered as those of anybody are (`event_contract`). The classes mirror those of
dp-accounting where it has one (`accountants.dp_accounting_events` translates), because importing
that library takes longer than `uedp-bench list` may.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from uedp_bench.accounting.event_contract import (
    Adjacency as Adjacency,
)
from uedp_bench.accounting.event_contract import (
    AnyEvent as AnyEvent,
)
from uedp_bench.accounting.event_contract import (
    Event as Event,
)
from uedp_bench.accounting.event_contract import (
    Frozen,
)
from uedp_bench.accounting.event_contract import (
    PrivacyUnit as PrivacyUnit,
)
from uedp_bench.accounting.event_contract import (
    Protected as Protected,
)
from uedp_bench.accounting.event_contract import (
    Rate as Rate,
)
from uedp_bench.accounting.event_contract import (
    UnknownEvent as UnknownEvent,
)


class NonPrivate(Event):
    """Private data was used without protection: epsilon is infinite."""

    kind: Literal["non-private"] = "non-private"
    reason: str


class Gaussian(Event):
    """A sum of unit vectors plus N(0, s^2 I): `noise_multiplier` is s over the clip bound."""

    kind: Literal["gaussian"] = "gaussian"
    noise_multiplier: float = Field(ge=0.0)


class PoissonSampled(Event):
    """Every unit takes part independently with probability `rate`, then `event` happens."""

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Rate
    event: Gaussian


class FixedSizeSampled(Event):
    """Exactly `sample` of `population` units, drawn without replacement, then `event` happens."""

    kind: Literal["fixed-size-sampled"] = "fixed-size-sampled"
    population: int = Field(ge=1)
    sample: int = Field(ge=1)
    event: Gaussian


class UserEntityGaussian(Event):
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


class TwoLevelUserEntityGaussian(Event):
    """One round of user sampling with two-level clipping, for the unit user-entity.

    Every user takes part independently with probability `rate`. Its update is the sum over its
    sentences of gradients clipped to norm c, clipped again to norm beta = 1; noise of standard
    deviation `noise_multiplier` is added to the sum. `sentence_bound` is c / beta. Adjacency and
    `users` are those of `UserEntityGaussian`.
    """

    kind: Literal["two-level-user-entity-gaussian"] = "two-level-user-entity-gaussian"
    rate: Rate
    noise_multiplier: float = Field(ge=0.0)
    users: int = Field(ge=1)
    sentence_bound: float = Field(gt=0.0)


class SentenceSampledGaussian(Event):
    """One round of sentence sampling, for the unit user-entity.

    Every sentence takes part independently with probability `rate`; its gradient, which depends on
    it and the weights alone, has norm at most 1; noise of standard deviation `noise_multiplier` is
    added to the sum. No user has more than `sentences_per_user` sentences, and there are at most
    `users` users, both public. Adjacency is that of `UserEntityGaussian`.
    """

    kind: Literal["sentence-sampled-gaussian"] = "sentence-sampled-gaussian"
    rate: Rate
    noise_multiplier: float = Field(ge=0.0)
    sentences_per_user: int = Field(ge=1)
    users: int = Field(ge=1)


class PureDP(Event):
    """Any mechanism that is (epsilon, 0)-DP (the exponential mechanism, ...)."""

    kind: Literal["pure-dp"] = "pure-dp"
    epsilon: float = Field(ge=0.0)


class ApproximateDP(Event):
    """Any mechanism that is (epsilon, delta)-DP for a change of one element.

    `group` such elements change at once between neighbours (group privacy).
    """

    kind: Literal["approximate-dp"] = "approximate-dp"
    epsilon: float = Field(ge=0.0)
    delta: Rate = 0.0
    group: int = Field(default=1, ge=1)


class LaplaceVector(Event):
    """Independent Laplace noise of scale `scale` on every coordinate of a vector.

    `sensitivity` is the l1 distance between the vectors of neighbours, at most. With probability
    `dropout` the element that neighbours differ in is dropped first (word dropout).
    """

    kind: Literal["laplace-vector"] = "laplace-vector"
    scale: float = Field(gt=0.0)
    sensitivity: float = Field(ge=0.0)
    dropout: Rate = 0.0


class MetricPrivacy(Event):
    """Metric DP: epsilon is per unit of distance (Chatzikokolakis et al. 2013)."""

    kind: Literal["metric-privacy"] = "metric-privacy"
    epsilon: float = Field(ge=0.0)
    metric: str


def _inside(event: Event) -> Event:
    """Refuses what other events cannot hold."""
    if isinstance(event, NonPrivate | Repeated):
        raise ValueError(f"{event.kind!r} stands by itself, and not inside of another event")
    return event


class Repeated(Event):
    """`event` happens `count` times, each adaptively after the last."""

    kind: Literal["repeated"] = "repeated"
    count: int = Field(ge=0)
    event: Annotated[AnyEvent, AfterValidator(_inside)]


GroupRound = UserEntityGaussian | TwoLevelUserEntityGaussian | SentenceSampledGaussian
"""Events of one round whose epsilon is a curve over who else mentions the entity."""


def one_and_count(event: Event) -> tuple[Event, int]:
    """The event that happens, and how often: of `Repeated`, what it repeats."""
    return (event.event, event.count) if isinstance(event, Repeated) else (event, 1)


class PrivacyEvent(Frozen):
    """An event with the unit and the adjacency that it speaks of.

    Attributes:
        unit: what one change of the data replaces.
        adjacency: how neighbouring data sets differ.
        event: what happened.
        assumptions: conditions of the analysis that the code which emitted this event meets.
        protected: the declared point of a user-entity curve; None for everybody.
        stage: the mechanism that emitted it, filled in by the pipeline. A unit is protected only
            if every stage protects it.
    """

    unit: PrivacyUnit
    adjacency: Adjacency = "add-or-remove"
    event: AnyEvent
    assumptions: tuple[str, ...] = ()
    protected: Protected | None = None
    stage: str = ""


class Claim(Frozen):
    """A guarantee as a paper computes it: the event it has in mind and the accountant it uses.

    Attributes:
        accountant: "moments" (Abadi et al. 2016, integer orders 1 to 64), "rdp", "pld", or "basic"
            (epsilons as stated; sums under composition).
        source: paper, section or equation.
        note: where the claim departs from what the algorithm gives.
    """

    unit: PrivacyUnit
    adjacency: Adjacency = "add-or-remove"
    event: AnyEvent
    accountant: Literal["moments", "rdp", "pld", "basic"]
    source: str
    assumptions: tuple[str, ...] = ()
    note: str = ""
