"""Uses of private data as frozen values: mechanisms emit events, accountants bound epsilon.

An event says enough to write an accountant without seeing the mechanism. Meanings never change:
a new situation is a new class. No guarantee is an event too (`NonPrivate`). These are the kinds of
this package, registered as those of anybody are (`event_contract`). The classes mirror those of
dp-accounting where it has one (`accountants.dp_accounting` translates), because importing
that library takes longer than `uedp-bench list` may.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from uedp_bench.accounting.event_contract import (
    Adjacency,
    AnyEvent,
    Count,
    Event,
    Frozen,
    Notion,
    PrivacyUnit,
    Protected,
    Rate,
)
from uedp_bench.components.component import equals

__all__ = [
    "Adjacency", "AnyEvent", "ApproximateDP", "Claim", "FixedSizeSampled", "Gaussian", "GroupRound",
    "LaplaceVector", "MetricPrivacy", "NonPrivate", "PoissonSampled", "PrivacyEvent", "PrivacyUnit",
    "Protected", "PureDP", "Repeated", "SentenceSampledGaussian", "TwoLevelUserEntityGaussian",
    "UserEntityGaussian", "one_and_count",
]  # fmt: skip


class NonPrivate(Event):
    """Private data was used without protection: epsilon is infinite."""

    kind: Literal["non-private"] = "non-private"
    reason: str

    def refusal(self, adjacency: Adjacency) -> str:
        """The reason that it gives."""
        return self.reason

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence that nothing protected it, with the reason."""
        return f"private data was used without protection: {self.reason}"


class NoisySum(Event):
    """Base of sums over units with Gaussian noise."""

    draws_gaussian: ClassVar[bool] = True


class Gaussian(NoisySum):
    """A sum of unit vectors plus N(0, s^2 I): `noise_multiplier` is s over the clip bound."""

    kind: Literal["gaussian"] = "gaussian"
    noise_multiplier: float = Field(ge=0.0)

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about the release and its noise."""
        return (
            "a sum of clipped vectors is released with Gaussian noise of "
            f"{self.noise_multiplier:g} times the clip bound"
        )


class PoissonSampled(NoisySum):
    """Every unit takes part independently with probability `rate`, then `event` happens."""

    kind: Literal["poisson-sampled"] = "poisson-sampled"
    rate: Rate
    event: Gaussian

    @property
    def noise_multiplier(self) -> float:
        """Noise of the round over its clip bound."""
        return self.event.noise_multiplier

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about participation and release."""
        takes = f"each {unit} takes part with probability {self.rate:g}"
        return f"{takes}; {self.event.text(unit)}"


class FixedSizeSampled(NoisySum):
    """Exactly `sample` of `population` units, drawn without replacement, then `event` happens."""

    kind: Literal["fixed-size-sampled"] = "fixed-size-sampled"
    population: Count
    sample: Count
    event: Gaussian

    @property
    def noise_multiplier(self) -> float:
        """Noise of the round over its clip bound."""
        return self.event.noise_multiplier

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """Nothing is known of a user together with an entity."""
        if unit != "user-entity":
            return ""
        return (
            "no bound is known for a user together with an entity in fixed-size rounds: who else "
            "takes part depends on whether the user does"
        )

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about the size of the sample and the release."""
        drawn = f"{self.sample:,} of {self.population:,}"
        return f"{drawn} are drawn without replacement (unit {unit}); {self.event.text(unit)}"


class _OfUserEntity(NoisySum):
    """Base of all rounds for a user together with an entity."""

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """They speak of one unit under one adjacency."""
        if (unit, adjacency) == ("user-entity", "add-or-remove"):
            return ""
        return (
            "user-entity rounds speak of the unit user-entity under add-or-remove, "
            f"not of {unit} under {adjacency}"
        )


def _noise_on_sum(multiplier: float) -> str:
    return f"Gaussian noise of {multiplier:g} times it is added to the sum"


def _round_text(event: UserEntityGaussian | TwoLevelUserEntityGaussian, clipped: str) -> str:
    takes = f"each of {event.users:,} users takes part with probability {event.rate:g}"
    return f"{takes}; {clipped}, and {_noise_on_sum(event.noise_multiplier)}"


class UserEntityGaussian(_OfUserEntity):
    """One round of user sampling with one-level clipping, for the unit user-entity.

    Every user takes part independently with probability `rate`; its update, whatever its data, has
    norm at most 1; noise of standard deviation `noise_multiplier` is added to the sum. Adjacent
    data differ in one user and in all sentences, of any user, that mention one entity. `users` is
    the public number of users: the largest spread is `users - 1`.
    """

    kind: Literal["user-entity-gaussian"] = "user-entity-gaussian"
    rate: Rate
    noise_multiplier: float = Field(ge=0.0)
    users: Count

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about participation and clipping."""
        return _round_text(self, "its update is clipped to a norm")


class TwoLevelUserEntityGaussian(_OfUserEntity):
    """One round of user sampling with two-level clipping, for the unit user-entity.

    Every user takes part independently with probability `rate`. Its update is the sum over its
    sentences of gradients clipped to norm c, clipped again to norm beta = 1; noise of standard
    deviation `noise_multiplier` is added to the sum. `sentence_bound` is c / beta. Adjacency and
    `users` are those of `UserEntityGaussian`.
    """

    kind: Literal["two-level-user-entity-gaussian"] = "two-level-user-entity-gaussian"
    rate: Rate
    noise_multiplier: float = Field(ge=0.0)
    users: Count
    sentence_bound: float = Field(gt=0.0)

    def assumptions_of(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """Assumption that points of the curve count sentences."""
        if unit != "user-entity":
            return ()
        return (
            "at a point of the curve with so many sentences, no other user mentions the entity "
            "in more than sentences / spread of them",
        )

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about participation and clipping."""
        return _round_text(
            self,
            f"its sentences' gradients are clipped to {self.sentence_bound:g} times a norm, and "
            "their sum to the norm",
        )


class SentenceSampledGaussian(_OfUserEntity):
    """One round of sentence sampling, for the unit user-entity.

    Every sentence takes part independently with probability `rate`; its gradient, which depends on
    it and the weights alone, has norm at most 1; noise of standard deviation `noise_multiplier` is
    added to the sum. No user has more than `sentences_per_user` sentences, and there are at most
    `users` users, both public. Adjacency is that of `UserEntityGaussian`.
    """

    kind: Literal["sentence-sampled-gaussian"] = "sentence-sampled-gaussian"
    rate: Rate
    noise_multiplier: float = Field(ge=0.0)
    sentences_per_user: Count
    users: Count

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about sampled sentences and clipping."""
        return (
            f"each sentence of {self.users:,} users, at most {self.sentences_per_user:,} of each, "
            f"takes part with probability {self.rate:g}; its gradient is clipped to a norm, and "
            f"{_noise_on_sum(self.noise_multiplier)}"
        )


class PureDP(Event):
    """Any mechanism that is (epsilon, 0)-DP (the exponential mechanism, ...)."""

    kind: Literal["pure-dp"] = "pure-dp"
    epsilon: float = Field(ge=0.0)

    def text(self, unit: PrivacyUnit) -> str:
        """Its promise."""
        return f"a mechanism that is ({self.epsilon:g}, 0)-DP"


class ApproximateDP(Event):
    """Any mechanism that is (epsilon, delta)-DP for a change of one element.

    `group` such elements change at once between neighbours (group privacy).
    """

    kind: Literal["approximate-dp"] = "approximate-dp"
    epsilon: float = Field(ge=0.0)
    delta: Rate = 0.0
    group: Count = 1

    def text(self, unit: PrivacyUnit) -> str:
        """Its promise, and for how many elements."""
        group = f", of which {self.group:,} change at once" if self.group > 1 else ""
        return f"a mechanism that is ({self.epsilon:g}, {self.delta:g})-DP for one element{group}"


class LaplaceVector(Event):
    """Independent Laplace noise of scale `scale` on every coordinate of a vector.

    `sensitivity` is the l1 distance between the vectors of neighbours, at most, and no coordinate
    moves by more than `sensitivity / coordinates`. With probability `dropout` the element that
    neighbours differ in is dropped first (word dropout).
    """

    kind: Literal["laplace-vector"] = "laplace-vector"
    scale: float = Field(gt=0.0)
    sensitivity: float = Field(ge=0.0)
    dropout: Rate = 0.0
    coordinates: Count = Field(default=1, exclude_if=equals(1))

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about noise and the largest move of a vector."""
        dropped = f"; the element is dropped with probability {self.dropout:g}, first"
        most = self.sensitivity / self.coordinates
        each = f", none of {self.coordinates:,} by more than {most:g}"
        return (
            f"Laplace noise of scale {self.scale:g} on every coordinate, where neighbours are at "
            f"most {self.sensitivity:g} apart (l1{each if self.coordinates > 1 else ''})"
            f"{dropped if self.dropout else ''}"
        )


class MetricPrivacy(Event):
    """Metric DP: epsilon is per unit of distance (Chatzikokolakis et al. 2013)."""

    notion: ClassVar[Notion] = "metric-dp"
    kind: Literal["metric-privacy"] = "metric-privacy"
    epsilon: float = Field(ge=0.0)
    metric: str

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about epsilon and its distance."""
        return f"metric privacy: ε = {self.epsilon:g} per unit of distance ({self.metric})"


def _inside(event: Event) -> Event:
    """Refuse events that other events cannot hold."""
    if isinstance(event, NonPrivate | Repeated):
        raise ValueError(f"{event.kind!r} stands by itself, and not inside of another event")
    return event


class Repeated(Event):
    """`event` happens `count` times, each adaptively after the last."""

    kind: Literal["repeated"] = "repeated"
    count: int = Field(ge=0)
    event: Annotated[AnyEvent, AfterValidator(_inside)]

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about the repetitions and the repeated event."""
        return f"{self.count:,} times, one after the other: {self.event.text(unit)}"


GroupRound = UserEntityGaussian | TwoLevelUserEntityGaussian | SentenceSampledGaussian
"""Events of one round whose epsilon is a curve over others that mention the entity."""


def one_and_count(event: Event) -> tuple[Event, int]:
    """An event and its count: of `Repeated`, the repeated event."""
    return (event.event, event.count) if isinstance(event, Repeated) else (event, 1)


class PrivacyEvent(Frozen):
    """An event with the unit and the adjacency that it speaks of.

    Attributes:
        unit: privacy unit.
        adjacency: difference between neighbouring data sets.
        event: use of private data.
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


DECLARED: Literal["declared by the user"] = "declared by the user"
"""The accountant of claims that no paper computes: the user of this package vouches for them."""


class Claim(Frozen):
    """A guarantee as a paper computes it: the event it has in mind and the accountant it uses.

    Attributes:
        accountant: "moments" (Abadi et al. 2016, integer orders 1 to 64), "tf-privacy-rdp" (the
            orders and the conversion of TensorFlow Privacy in 2020), "rdp" and "pld" (those of
            today's dp-accounting), "basic" (epsilons as stated; sums under composition), or
            `DECLARED` (the promise of `event` as it stands, at its own delta).
        source: paper, section or equation.
        note: departure of the claim from the guarantee of the algorithm.
    """

    unit: PrivacyUnit
    adjacency: Adjacency = "add-or-remove"
    event: AnyEvent
    accountant: Literal["moments", "tf-privacy-rdp", "rdp", "pld", "basic", "declared by the user"]
    source: str
    assumptions: tuple[str, ...] = ()
    note: str = ""
