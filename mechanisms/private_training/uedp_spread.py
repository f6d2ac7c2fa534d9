"""User-entity DP where users are sampled, its noise chosen for entities of a declared spread.

Our own mechanism. Statement, proof and limits: `docs/mechanisms/uedp-spread.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, PublicUnits, TrainingMechanism
from uedp_bench.api.events import (
    AnyEvent,
    PrivacyEvent,
    Protected,
    Repeated,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.api.text import users_of
from uedp_bench.mechanisms.private_training.parameters import CLIPPED, FederatedParams
from uedp_bench.mechanisms.private_training.users import (
    as_group_rounds,
    capped_units,
    capped_weights,
    public_users,
    size_refusals,
    units_of,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Index, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.training import Federation

ASSUMPTIONS = (
    "every user is drawn with an independent coin; every update is clipped, whatever its data",
    "number of users, rate, clip bounds, noise, denominator and the server's step are public "
    "constants",
    "the data set is that after sentences_per_user, where it is set, was applied",
    "vocabulary and initial weights do not depend on private text; a row belongs to one user",
)

ONE_LEVEL = "weights are functions of the user's own data"
TWO_LEVEL = (
    "one local step with weights 1: a sentence's clipped gradient depends on it and the shared "
    "weights alone"
)

Round = UserEntityGaussian | TwoLevelUserEntityGaussian


class UeDPSpreadParams(FederatedParams):
    """Parameters of user sampling, and the point of the curve that the noise is chosen for."""

    clipping: Literal["one-level", "two-level"] = Field(
        default="two-level",
        description="one-level: clip users' updates after any local training; two-level: clip "
        "every sentence's gradient too (one local step), so that an entity moves others less",
    )
    sentences_per_user: int | None = Field(
        default=6, ge=1,
        description="n: cap; further sentences of a user are dropped before training; null: none",
    )  # fmt: skip
    sentence_clip: float | None = Field(
        default=None, gt=0,
        description="c: l2 bound on a sentence's gradient; two-level only; "
        "default: clip / sentences_per_user",
    )  # fmt: skip
    protected_spread: int = Field(
        default=3, ge=0, description="k: other users that mention the protected entity, at most"
    )
    protected_sentences_per_user: int = Field(
        default=1, ge=1,
        description="m: sentences in which each of them does, at most; one-level protects any",
    )  # fmt: skip
    epsilon: float = Field(
        default=8.0, gt=0, description="target at the protected point; chooses the noise"
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="delta of the target")
    noise_multiplier: float | None = Field(
        default=None, ge=0,
        description="noise on the sum over clip; default: the smallest that meets the target",
    )  # fmt: skip

    @model_validator(mode="after")
    def _fits_the_clipping(self) -> UeDPSpreadParams:
        if self.clipping == "one-level":
            if self.sentence_clip is not None:
                raise ValueError("sentence_clip needs clipping='two-level'")
            return self
        if self.sentence_clip is None and self.sentences_per_user is None:
            raise ValueError(
                "two-level clipping needs sentence_clip, or sentences_per_user to derive it from"
            )
        if self.two_level_clip > self.clip:
            raise ValueError(
                f"sentence_clip is {self.sentence_clip}; choose at most clip={self.clip}"
            )
        # Theorem B: a sentence counts with weight 1, alone, in the only step, in every round.
        allowed = {"local_epochs": 1, "local_batch_size": None, "local_optimizer": "sgd",
                   "local_momentum": 0.0, "user_cap": 1, "rows_per_user": None,
                   "clip_policy": "flat"}  # fmt: skip
        for name, value in allowed.items():
            if (own := getattr(self, name)) != value:
                raise ValueError(
                    f"{name} is {own!r}, but two-level clipping is proven for {value!r} only; "
                    "take clipping='one-level'"
                )
        return self

    @property
    def two_level_clip(self) -> float:
        """c, given or derived."""
        if self.sentence_clip is not None:
            return self.sentence_clip
        return self.clip / (self.sentences_per_user or 1)


class UeDPSpread(TrainingMechanism[UeDPSpreadParams]):
    """Poisson-sampled users, one- or two-level clipping, noise for a protected spread."""

    name = "uedp-spread"
    version = 4
    unit = "user-entity"
    fresh_noise = True
    data_set = ("sentences_per_user",)
    takes_delta = True
    source = "docs/mechanisms/uedp-spread.md"
    Params = UeDPSpreadParams

    def plan(self, stats: CorpusStats) -> Events:
        """One round of user sampling a round."""
        users = public_users(self.params, stats, self.name)
        rate, noise = self.params.users_per_round / users, self._noise(users)
        self.params.count_noise(noise, self.params.users_per_round)
        event = self._round(users)(rate, noise)
        return self._events((Repeated(count=self.params.rounds, event=event),))

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Users of the train split."""
        return units_of(self.params, stats, self.name)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """The number of users must be public."""
        return size_refusals(self.params.users, stats, self.name)

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains on the users of the training split."""
        from uedp_bench.api.training import train_federated

        p, everything = self.params, users_of(corpus)
        units = capped_units(everything, p.sentences_per_user, corpus)
        run.note(sentences_dropped_by_cap=len(everything.rows) - len(units.rows))
        users = public_users(p, run.stats, self.name)
        trained = train_federated(self._federation(units, users), learner, run)
        # If more users train than declared, more than users - 1 others might mention an entity.
        rounds = as_group_rounds(trained.rounds, self._round(max(users, len(units))))
        return trained.module, self._events(rounds)

    def _federation(self, units: Index, users: int) -> Federation:
        from uedp_bench.api.sampling import PoissonSampler
        from uedp_bench.api.training import Federation, IndependentGaussian, TwoLevelBound

        p, noise = self.params, self._noise(users)
        two_level = p.clipping == "two-level"
        return Federation(
            rounds=p.rounds,
            units=units,
            sampler=PoissonSampler(len(units), p.users_per_round / users),
            local=p.local("mean"),
            bound=TwoLevelBound(p.clip, p.two_level_clip)
            if two_level
            else p.bound(p.clip, noise, p.users_per_round),
            noise=IndependentGaussian(noise),
            # q |U|, a public constant whatever the weights.
            denominator=float(p.users_per_round),
            server=p.server(),
            unit_weights=None if two_level else capped_weights(units.counts, p.user_cap),
            rows_per_unit=p.rows_per_user,
            clients=True,
        )

    @property
    def point(self) -> Protected:
        """The protected point of the curve."""
        p = self.params
        return Protected(
            spread=p.protected_spread, sentences_per_user=p.protected_sentences_per_user
        )

    def noise(self, stats: CorpusStats) -> float:
        """Noise on the sum, in units of the clip bound of a user."""
        return self._noise(public_users(self.params, stats, self.name))

    def _noise(self, users: int) -> float:
        from uedp_bench.accounting.noise_search import group_noise

        p = self.params
        if p.noise_multiplier is not None:
            return p.noise_multiplier
        event = self._round(users)(p.users_per_round / users, 0.0)
        return group_noise(event, p.rounds, self.point, (p.epsilon, p.delta))

    def _round(self, users: int) -> Callable[[float, float], Round]:
        """Makes a round of its rate and its noise; `users` of them may mention anything."""
        p = self.params
        if p.clipping == "one-level":
            return lambda rate, noise: UserEntityGaussian(
                rate=rate, noise_multiplier=noise, users=users
            )
        return lambda rate, noise: TwoLevelUserEntityGaussian(
            rate=rate, noise_multiplier=noise, users=users, sentence_bound=p.two_level_clip / p.clip
        )

    def _events(self, rounds: Sequence[AnyEvent]) -> Events:
        own = ONE_LEVEL if self.params.clipping == "one-level" else TWO_LEVEL
        return tuple(
            PrivacyEvent(
                unit="user-entity",
                event=event,
                assumptions=(*ASSUMPTIONS, own, *CLIPPED[self.params.clip_policy]),
                protected=self.point,
            )
            for event in rounds
        )
