"""User-entity DP by sampling sentences and accounting for the group: our own mechanism.

Statement, proof and limits: `docs/mechanisms/uedp-group.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from uedp_bench.api import CorpusStats, Events, PublicUnits, TrainingMechanism
from uedp_bench.api.events import (
    AnyEvent,
    PrivacyEvent,
    Protected,
    Repeated,
    SentenceSampledGaussian,
)
from uedp_bench.api.text import users_of
from uedp_bench.mechanisms.private_training.parameters import (
    CLIPPED,
    ClipParams,
    ServerOptimizer,
    ServerParams,
)
from uedp_bench.mechanisms.private_training.users import (
    as_group_rounds,
    capped_units,
    size_refusals,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner

ASSUMPTIONS = (
    "every sentence is drawn with an independent coin; its gradient depends on it and the weights "
    "alone and is clipped",
    "the data set is that after keeping at most sentences_per_user sentences of every user",
    "number of users, rate, cap, clip bound, noise and the server's step are public constants",
    "vocabulary and initial weights do not depend on private text",
)


class UeDPGroupParams(ServerParams, ClipParams):
    """Parameters of sentence sampling, and the point of the curve that the noise is chosen for."""

    users: int | None = Field(
        default=None, ge=1, description="public number of users; default: documented by the source"
    )
    sampling_rate: float = Field(
        default=0.1, gt=0, le=1, description="q: probability of every sentence, each round"
    )
    rounds: int = Field(default=60, ge=1, description="rounds T")
    sentences_per_user: int = Field(
        default=6, ge=1, description="n: cap; further sentences of a user are dropped beforehand"
    )
    clip: float = Field(default=0.1, gt=0, description="c: l2 bound on a sentence's gradient")
    epsilon: float = Field(
        default=8.0, gt=0, description="target at the protected point; chooses the noise"
    )
    delta: float = Field(default=1e-5, gt=0, lt=1, description="delta of the target")
    protected_sentences: int | None = Field(
        default=None,
        ge=0,
        description="e: sentences of other users that mention the protected entity, at most; "
        "default: protected_spread times protected_sentences_per_user",
    )
    protected_spread: int = Field(
        default=3, ge=0, description="other users that mention the protected entity, at most"
    )
    protected_sentences_per_user: int = Field(
        default=1, ge=1, description="sentences in which each of them does, at most"
    )
    noise_multiplier: float | None = Field(
        default=None,
        ge=0,
        description="noise over clip; default: the smallest that meets the target",
    )
    server_learning_rate: float = Field(
        default=0.05, gt=0, description="public constant that the noisy mean is multiplied by"
    )
    server_optimizer: ServerOptimizer = Field(
        default="adam", description="what the server steps with; sgd is federated averaging"
    )


class UeDPGroup(TrainingMechanism[UeDPGroupParams]):
    """Poisson-sampled sentences, per-sentence clipping, noise calibrated to the group."""

    name = "uedp-group"
    version = 3
    unit = "user-entity"
    fresh_noise = True
    data_set = ("sentences_per_user",)
    takes_delta = True
    source = "docs/mechanisms/uedp-group.md"
    Params = UeDPGroupParams

    def plan(self, stats: CorpusStats) -> Events:
        """One round of sentence sampling a round."""
        p, users, noise = self.params, self._users(stats), self.noise(stats)
        p.count_noise(noise, self._expected(users))
        event = self._round(users)(p.sampling_rate, noise)
        return self._events((Repeated(count=p.rounds, event=event),))

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Users of the train split."""
        # Rounds draw sentences, not users.
        return PublicUnits("users", self._users(stats), None)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """The number of users, with which the curve ends, must be public."""
        return size_refusals(self.params.users, stats, self.name)

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """A sentence is a unit of one row whose local training is one gradient."""
        from uedp_bench.api import Index
        from uedp_bench.api.sampling import PoissonSampler
        from uedp_bench.api.training import (
            Federation,
            IndependentGaussian,
            LocalTraining,
            train_federated,
        )

        p, units = self.params, users_of(corpus)
        capped = capped_units(units, p.sentences_per_user, corpus)
        rows, users = np.sort(capped.rows), self._users(run.stats)
        run.note(sentences_dropped_by_cap=len(units.rows) - len(rows))
        # A public constant: the expected number of sentences of a round, at most.
        expected, noise = self._expected(users), self.noise(run.stats)
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=Index(np.arange(len(rows) + 1), rows),
                sampler=PoissonSampler(len(rows), p.sampling_rate),
                local=LocalTraining(),
                bound=p.bound(p.clip, noise, expected),
                noise=IndependentGaussian(noise),
                denominator=expected,
                server=p.server(),
            ),
            learner,
            run,
        )
        # If more users train than declared, the curve would end too early.
        rounds = as_group_rounds(trained.rounds, self._round(max(users, len(units))))
        return trained.module, self._events(rounds)

    @property
    def point(self) -> Protected:
        """The protected point of the curve."""
        p = self.params
        if p.protected_sentences is not None:
            # In e sentences there are at most e users.
            return Protected(spread=p.protected_sentences)
        return Protected(
            spread=p.protected_spread, sentences_per_user=p.protected_sentences_per_user
        )

    def _users(self, stats: CorpusStats) -> int:
        return stats.users if self.params.users is None else self.params.users

    def _expected(self, users: int) -> float:
        return self.params.sampling_rate * self.params.sentences_per_user * users

    def noise(self, stats: CorpusStats) -> float:
        """Noise on the sum, in units of the clip bound of one sentence."""
        from uedp_bench.accounting.noise_search import sentence_noise

        p = self.params
        if p.noise_multiplier is not None:
            return p.noise_multiplier
        target = (p.epsilon, p.delta)
        return sentence_noise(p.sampling_rate, p.rounds, p.sentences_per_user, self.point, target)

    def _round(self, users: int) -> Callable[[float, float], SentenceSampledGaussian]:
        """Makes a round of its rate and its noise; `users` of them may mention anything."""
        return lambda rate, noise: SentenceSampledGaussian(
            rate=rate,
            noise_multiplier=noise,
            sentences_per_user=self.params.sentences_per_user,
            users=users,
        )

    def _events(self, rounds: Sequence[AnyEvent]) -> Events:
        assumptions = (*ASSUMPTIONS, *CLIPPED[self.params.clip_policy])
        return tuple(
            PrivacyEvent(
                unit="user-entity", event=event, assumptions=assumptions, protected=self.point
            )
            for event in rounds
        )
