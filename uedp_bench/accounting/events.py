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
"""What one change of the data replaces."""

Adjacency = Literal["add-or-remove", "replace-one", "zero-out"]
"""How two neighbouring data sets differ."""

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


class TwoLevelUserEntityGaussian(_Frozen):
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


class SentenceSampledGaussian(_Frozen):
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


class PureDP(_Frozen):
    """Any mechanism that is (epsilon, 0)-DP (the exponential mechanism, ...)."""

    kind: Literal["pure-dp"] = "pure-dp"
    epsilon: float = Field(ge=0.0)


class ApproximateDP(_Frozen):
    """Any mechanism that is (epsilon, delta)-DP for a change of one element.

    `group` such elements change at once between neighbours (group privacy).
    """

    kind: Literal["approximate-dp"] = "approximate-dp"
    epsilon: float = Field(ge=0.0)
    delta: Rate = 0.0
    group: int = Field(default=1, ge=1)


class LaplaceVector(_Frozen):
    """Independent Laplace noise of scale `scale` on every coordinate of a vector.

    `sensitivity` is the l1 distance between the vectors of neighbours, at most. With probability
    `dropout` the element that neighbours differ in is dropped first (word dropout).
    """

    kind: Literal["laplace-vector"] = "laplace-vector"
    scale: float = Field(gt=0.0)
    sensitivity: float = Field(ge=0.0)
    dropout: Rate = 0.0


class MetricPrivacy(_Frozen):
    """Metric DP: epsilon is per unit of distance (Chatzikokolakis et al. 2013)."""

    kind: Literal["metric-privacy"] = "metric-privacy"
    epsilon: float = Field(ge=0.0)
    metric: str


class Repeated(_Frozen):
    """`event` happens `count` times, each adaptively after the last."""

    kind: Literal["repeated"] = "repeated"
    count: int = Field(ge=0)
    event: Annotated[
        PoissonSampled
        | FixedSizeSampled
        | Gaussian
        | UserEntityGaussian
        | TwoLevelUserEntityGaussian
        | SentenceSampledGaussian
        | PureDP
        | ApproximateDP
        | LaplaceVector
        | MetricPrivacy,
        Field(discriminator="kind"),
    ]


GroupRound = UserEntityGaussian | TwoLevelUserEntityGaussian | SentenceSampledGaussian
"""Events of one round whose epsilon is a curve over who else mentions the entity."""

AnyEvent = Annotated[
    NonPrivate
    | Gaussian
    | PoissonSampled
    | FixedSizeSampled
    | UserEntityGaussian
    | TwoLevelUserEntityGaussian
    | SentenceSampledGaussian
    | PureDP
    | ApproximateDP
    | LaplaceVector
    | MetricPrivacy
    | Repeated,
    Field(discriminator="kind"),
]


class Protected(_Frozen):
    """A point of the curve of user-entity guarantees: who else mentions the entity.

    Attributes:
        spread: other users that mention it, at most.
        sentences_per_user: sentences in which each of them does, at most; one-level clipping
            protects any number.
    """

    spread: int = Field(ge=0)
    sentences_per_user: int = Field(default=1, ge=1)

    @property
    def sentences(self) -> int:
        """Sentences of other users that mention the entity, at most."""
        return self.spread * self.sentences_per_user


class PrivacyEvent(_Frozen):
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


class Claim(_Frozen):
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
