"""User-entity DP (Lai, Phan, Sun, Jain, Dernoncourt, Gu, Barmpalios 2022), Algorithm 1.

What it claims and what can be proven for it differ; `docs/mechanisms/uedp.md` has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, InputError, PublicUnits, TrainingMechanism
from uedp_bench.api.events import (
    AnyEvent,
    Claim,
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.api.text import users_of
from uedp_bench.mechanisms.private_training.parameters import CLIPPED, FederatedParams
from uedp_bench.mechanisms.private_training.users import (
    CLAIM_OF_RELEASED,
    RELEASED_TAKES,
    NoiseVariant,
    as_group_rounds,
    as_released,
    capped_weights,
    check_released,
    nothing_proven,
    public_users,
    size_refusals,
    units_of,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, FloatArray, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.training.sampling import RowWeights

ASSUMPTIONS = (
    "number of users, rates, denominators, noise and server learning rate are public constants",
    "Poisson sampling of users; every update is clipped after local training, whatever its data",
    "weights are constants or functions of the user's own data",
    "vocabulary, initial weights and entity lists do not depend on private text",
)


CLAIM_NOTE = (
    "counts entity sampling as amplification and the sampled users as their expected number; the "
    "proven guarantee does neither"
)


class UeDPParams(FederatedParams):
    """Parameters of Algorithm 1, and two of ours: the server's step and the noise variant."""

    sentences: int | None = Field(default=None, ge=1, description="public number of sentences")
    sensitive_sentences: int | None = Field(
        default=None, ge=0, description="public number of sentences that mention an entity"
    )
    entities: int | None = Field(default=None, ge=0, description="public number of entities")
    entity_rate: float = Field(default=0.5, ge=0, le=1, description="q_e: rate of entities")
    sentence_rate: float = Field(
        default=1.0, ge=0, le=1, description="q_s: rate of extended entities (other sentences)"
    )
    noise_multiplier: float = Field(default=2.5, ge=0, description="z")
    clip: float = Field(default=0.1, gt=0, description="beta: l2 bound on a user's update")
    entity_cap: int = Field(default=1, ge=1, description="per-entity cap of w_e = min(n_e/cap, 1)")
    sentence_cap: int = Field(default=1, ge=1, description="cap of w_s = min(1/cap, 1)")
    estimator: Literal["f_E", "f_E+"] = Field(
        default="f_E+", description="f_E leaves sentences without entities out"
    )
    denominators: Literal["public", "data"] = Field(
        default="public", description="W_u, W_e, W_s from public sizes, or from the data (paper)"
    )
    noise: NoiseVariant = Field(default="published", description=RELEASED_TAKES)

    @model_validator(mode="after")
    def _fits(self) -> UeDPParams:
        most, sensitive = self.sentences, self.sensitive_sentences
        if most is not None and sensitive is not None and sensitive > most:
            raise ValueError(f"sensitive_sentences is {sensitive}; choose at most sentences={most}")
        if self.noise == "released":
            check_released(self.clip_policy)
        return self


class Sizes(NamedTuple):
    """|U| and the total weights of users, entities and extended entities."""

    users: int
    user_weight: float
    entity_weight: float
    sentence_weight: float


class UeDP(TrainingMechanism[UeDPParams]):
    """UeDP-Alg with the estimators f_E and f_E+."""

    name = "uedp"
    version = 2
    unit = "user-entity"
    fresh_noise = True
    source = "Lai et al. 2022, Algorithm 1"
    Params = UeDPParams

    def reads(self) -> frozenset[str]:
        """Entities: it samples them."""
        return frozenset({"entities"})

    def plan(self, stats: CorpusStats) -> Events:
        """One round of user sampling a round; noise z (q_u |U| + 1) on the sum."""
        p, users, noise = self.params, self._users(stats), self._noise_over_bound()
        p.count_noise(noise, p.users_per_round)
        event = self._round(users)(p.users_per_round / users, noise)
        return self._events((Repeated(count=self.params.rounds, event=event),))

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Theorem 1: as if entity sampling amplified and one user's update moved."""
        p = self.params
        rate = p.users_per_round / self._users(stats) * p.entity_rate
        if p.estimator == "f_E+":
            sensitive, sentences = self._sentences(stats)
            rate *= sensitive / max(sentences, 1)
        gaussian = Gaussian(noise_multiplier=p.noise_multiplier)
        return (
            Claim(
                unit="user-entity",
                event=Repeated(count=p.rounds, event=PoissonSampled(rate=rate, event=gaussian)),
                accountant="moments",
                source="Lai et al. 2022, Theorem 1",
                note=CLAIM_NOTE + (f"; {CLAIM_OF_RELEASED}" if p.noise == "released" else ""),
            ),
        )

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Users of the train split."""
        return units_of(self.params, stats, self.name)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """Conditions of the proof that these parameters break."""
        p, out = self.params, list(size_refusals(self.params.users, stats, self.name))
        if p.denominators == "data":
            out.append("denominators W_u, W_e, W_s are computed from private data without noise")
        elif not stats.public:
            names = ("entities", "sentences", "sensitive_sentences")
            needed = names if p.estimator == "f_E+" else names[:1]
            missing = [f"mechanism.uedp.{name}" for name in needed if getattr(p, name) is None]
            if missing:
                out.append(
                    "sizes in the denominator were counted from private data; declare "
                    + ", ".join(missing)
                )
        if p.entity_cap > 1:
            out.append("weights w_e = min(n_e / entity_cap, 1) count over all users' sentences")
        return tuple(out)

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains on the users of the training split."""
        from uedp_bench.api.sampling import PoissonSampler
        from uedp_bench.api.training import Federation, IndependentGaussian, train_federated

        p, units = self.params, users_of(corpus)
        users = self._users(run.stats)
        entity_weights = _entity_weights(corpus, p.entity_cap)
        user_weights = capped_weights(units.counts, p.user_cap)
        # max(w_u) is 1 in public; as published it is the data's own.
        heaviest = 1.0 if p.denominators == "public" else float(user_weights.max())
        sizes = self._sizes(run.stats, corpus, user_weights, entity_weights)
        denominator = self._denominator(sizes)
        std = self._noise_over_bound()
        local, bound = p.local("sum"), p.bound(p.clip, std, p.users_per_round)
        if p.noise == "released":
            local, bound, std = as_released(local, p.clip, std * p.clip * heaviest, denominator)
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=units,
                sampler=PoissonSampler(len(units), p.users_per_round / users),
                local=local,
                bound=bound,
                noise=IndependentGaussian(std),
                denominator=denominator,
                server=p.server(),
                unit_weights=user_weights,
                weight_bound=heaviest,
                row_weights=self._row_weights(corpus, entity_weights),
                rows_per_unit=p.rows_per_user,
                clients=True,
            ),
            learner,
            run,
        )
        # If more users train than declared, more than users - 1 others might mention an entity.
        rounds = as_group_rounds(trained.rounds, self._round(max(users, len(units))))
        return trained.module, self._events(rounds)

    def _users(self, stats: CorpusStats) -> int:
        return public_users(self.params, stats, self.name)

    def _sentences(self, stats: CorpusStats) -> tuple[int, int]:
        p = self.params
        sensitive = stats.sensitive_rows if p.sensitive_sentences is None else p.sensitive_sentences
        sentences = stats.rows if p.sentences is None else p.sentences
        if sensitive > sentences:
            raise InputError(
                f"{self.name}.sensitive_sentences is {sensitive}; choose at most the number of "
                "sentences"
            )
        return sensitive, sentences

    def _sizes(
        self, stats: CorpusStats, corpus: Corpus, user_weights: FloatArray, entities: FloatArray
    ) -> Sizes:
        """Lines 3 to 6 of Algorithm 1, from public sizes or from the data."""
        p = self.params
        users, per_sentence = self._users(stats), min(1.0 / p.sentence_cap, 1.0)
        if p.denominators == "data":
            plain = int((corpus.where("train") & ~corpus.sensitive).sum())
            return Sizes(users, user_weights.sum(), entities.sum(), plain * per_sentence)
        sensitive, sentences = self._sentences(stats)
        count = stats.entities if p.entities is None else p.entities
        return Sizes(users, users, count, max(sentences - sensitive, 0) * per_sentence)

    def _denominator(self, sizes: Sizes) -> float:
        """Denominator of equation 4 (f_E+), or of equation 7 (f_E).

        Raises:
            InputError: if it is 0, because these rates leave nothing to sample.
        """
        p = self.params
        inner = p.entity_rate * sizes.entity_weight
        if p.estimator == "f_E+":
            inner += p.sentence_rate * sizes.sentence_weight
        if inner <= 0.0:
            raise InputError(
                f"uedp.estimator is {p.estimator!r}: with {sizes.entity_weight:g} entities at "
                f"entity_rate={p.entity_rate} and {sizes.sentence_weight:g} other sentences at "
                f"sentence_rate={p.sentence_rate} no sentence is ever sampled"
            )
        return p.users_per_round / sizes.users * sizes.user_weight * inner

    def _noise_over_bound(self) -> float:
        """Equation 6 on the sum, z (q_u |U| + 1), in units of max(w_u) beta."""
        return self.params.noise_multiplier * (self.params.users_per_round + 1.0)

    def _round(self, users: int) -> Callable[[float, float], UserEntityGaussian]:
        """Makes a round of its rate and its noise; `users` of them may mention anything."""
        return lambda rate, noise: UserEntityGaussian(
            rate=rate, noise_multiplier=noise, users=users
        )

    def _row_weights(self, corpus: Corpus, entity_weights: FloatArray) -> RowWeights:
        """Line 10: the weight of a sentence is the sum of w_e over its sampled entities, or w_s."""
        p, pairs = self.params, corpus.entities_of_row
        row = np.repeat(np.arange(len(corpus)), pairs.counts)
        plain = ~corpus.sensitive
        rate = p.sentence_rate if p.estimator == "f_E+" else 0.0
        per_sentence = min(1.0 / p.sentence_cap, 1.0)

        def draw(rng: np.random.Generator) -> FloatArray:
            taken = entity_weights * (rng.random(len(entity_weights)) < p.entity_rate)
            weights = np.bincount(row, weights=taken[pairs.rows], minlength=len(corpus))
            return np.where(plain, per_sentence * (rng.random(len(corpus)) < rate), weights)

        return draw

    def _events(self, rounds: Sequence[AnyEvent]) -> Events:
        if self.params.noise == "released":
            return nothing_proven("user-entity")
        return tuple(
            PrivacyEvent(
                unit="user-entity",
                event=event,
                assumptions=(*ASSUMPTIONS, *CLIPPED[self.params.clip_policy]),
            )
            for event in rounds
        )


def _entity_weights(corpus: Corpus, cap: int) -> FloatArray:
    """(entities,) w_e = min(n_e / cap, 1) with n_e training sentences that mention the entity."""
    index = corpus.rows_of_entity
    entity = np.repeat(np.arange(len(index)), index.counts)
    counts = np.bincount(entity[corpus.where("train")[index.rows]], minlength=len(index))
    return capped_weights(counts, cap)
