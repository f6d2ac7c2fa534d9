"""User-level DP by DP-FedAvg (McMahan, Ramage, Talwar, Zhang 2018, arXiv:1710.06963)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, PublicUnits, equals
from uedp_bench.api.events import AnyEvent, Claim, Gaussian, PrivacyEvent, Repeated
from uedp_bench.api.text import Unit, users_of
from uedp_bench.mechanisms.private_training.parameters import CLIPPED, FederatedParams, UnitParams
from uedp_bench.mechanisms.private_training.target import TargetMechanism, TargetParams
from uedp_bench.mechanisms.private_training.users import (
    CLAIM_OF_RELEASED,
    RELEASED_TAKES,
    NoiseVariant,
    as_released,
    capped_weights,
    check_released,
    check_round,
    dealt_anew,
    nothing_proven,
    public_users,
    size_refusals,
    sizes_of,
    units_of,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.sampling import Sampler

ASSUMPTIONS = (
    "number of users, sampling rate, clip bound, weights' cap and noise are public constants",
    "every user's update is clipped after local training, whatever its data",
    "vocabulary and initial weights do not depend on private text",
)


class UserDPParams(FederatedParams, UnitParams, TargetParams):
    """Parameters of DP-FedAvg."""

    noise_multiplier: float | None = Field(
        default=0.9, ge=0, description="z: noise on the sum of clipped updates over the clip bound"
    )
    sampling: Literal["poisson", "fixed"] = Field(
        default="poisson", description="independent coins, or exactly users_per_round users"
    )
    iid: bool = Field(
        default=False,
        exclude_if=equals(False),
        description="deal the training rows anew among the users, at random, and protect whoever "
        "holds rows then: the guarantee is of a client, and of no user who wrote them",
    )
    noise: NoiseVariant = Field(
        default="published", exclude_if=equals("published"), description=RELEASED_TAKES
    )

    @model_validator(mode="after")
    def _iid_is_of_users(self) -> UserDPParams:
        if self.iid and self.unit == "client":
            raise ValueError(
                "iid deals rows anew among users, and unit is 'client'; deal them among clients "
                "with clients.by=random"
            )
        return self

    @model_validator(mode="after")
    def _fits_the_noise(self) -> UserDPParams:
        if self.noise == "released":
            check_released(self.clip_policy)
            if self.epsilon is not None:
                raise ValueError(
                    f"epsilon is {self.epsilon:g}, but nothing is proven of noise='released'; give "
                    "noise_multiplier"
                )
            if self.sampling != "poisson":
                raise ValueError(
                    f"sampling is {self.sampling!r}, but the claim of noise='released' is that of "
                    "independent coins; take sampling='poisson'"
                )
        return self


class UserDP(TargetMechanism[UserDPParams]):
    """DP-FedAvg: estimator f_f (fixed denominator q W), flat, per-layer or adaptive clipping."""

    name = "user-dp"
    version = 2
    unit = "user"
    fresh_noise = True
    source = "McMahan et al. 2018, Algorithm 1"
    Params = UserDPParams

    @property
    def protects(self) -> Unit:
        """A user, or a client with all its rows: whoever holds rows that are dealt at random."""
        return "client" if self.params.iid else self.params.unit

    def plan(self, stats: CorpusStats) -> Events:
        """One sampled Gaussian a round."""
        noise = self.noise(stats)
        self.params.count_noise(noise, self.params.users_per_round)
        return self.planned(stats, noise)

    def planned(self, stats: CorpusStats, noise: float) -> Events:
        """See `TargetMechanism`."""
        return self._events((self._rounds(stats, noise),))

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Poisson: the moments accountant; fixed-size rounds: as the federated secret sharer."""
        z = self.noise(stats)
        if self.params.sampling == "poisson":
            return (
                Claim(
                    unit=self.protects,
                    event=self._rounds(stats, z),
                    accountant="moments",
                    source="McMahan et al. 2018, Theorem 1",
                    note=CLAIM_OF_RELEASED if self.params.noise == "released" else "",
                ),
            )
        # Their accountant is given z, as if replacing a user moved the sum by the clip bound once.
        return (
            Claim(
                unit=self.protects,
                adjacency="add-or-remove",
                event=self._rounds(stats, 2.0 * z),
                accountant="rdp",
                source="Thakkar et al. 2021, Appendices A.2 and A.3",
                note="does not follow from the cited analysis: in a round of a fixed size, a user "
                "who is added takes the place of another, which moves the sum by up to twice the "
                "clip bound; and the paper's experiments sampled with replacement (footnote 7), "
                "which the analysis does not cover",
            ),
        )

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Users (or clients) of the train split."""
        p = self.params
        poisson = self.params.sampling == "poisson"
        # Coins fall at their rate whoever is there; rounds of a fixed size know their number.
        units = units_of(p, self._sizes(stats), self.name, p.unit)
        return replace(units, independent=poisson, at_least_all=not poisson)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """The number of users must be public."""
        return size_refusals(self.params.users, self._sizes(stats), self.name)

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains on the users of the training split."""
        from uedp_bench.api.training import Federation, IndependentGaussian, train_federated

        p = self.params
        if p.iid:
            learner = dealt_anew(learner, run, self.name)
        units = users_of(learner.corpus if p.iid else corpus, p.unit)
        users = public_users(p, self._sizes(run.stats), self.name, p.unit)
        # q W with W <= |U|, a public constant whatever the cap.
        denominator = float(p.users_per_round)
        local, std = p.local("mean"), self.noise(run.stats)
        bound = p.bound(p.clip, std, p.users_per_round)
        if p.noise == "released":
            local, bound, std = as_released(local, p.clip, std * p.clip, denominator)
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=units,
                sampler=self._sampler(users, len(units)),
                local=local,
                bound=bound,
                noise=IndependentGaussian(std),
                denominator=denominator,
                server=p.server(),
                unit_weights=capped_weights(units.counts, p.user_cap),
                rows_per_unit=p.rows_per_user,
                clients=True,
                group=p.unit,
            ),
            learner,
            run,
        )
        return trained.module, self._events(trained.rounds)

    def _sizes(self, stats: CorpusStats) -> CorpusStats:
        """Public sizes, with clients in the place of users where they are the unit."""
        if self.params.users is not None and not stats.clients:
            return stats
        return sizes_of(stats, self.params.unit, self.name)

    def _sampler(self, users: int, population: int | None) -> Sampler:
        """The sampler of `users` public users; `population` are present, if that may be known."""
        from uedp_bench.api.sampling import FixedSizeSampler, PoissonSampler

        p = self.params
        if p.sampling == "fixed":
            present = population or users
            check_round(p.users_per_round, present, self.name, is_public=False, unit=p.unit)
            return FixedSizeSampler(present, p.users_per_round)
        return PoissonSampler(population or users, self.params.users_per_round / users)

    def _rounds(self, stats: CorpusStats, noise_multiplier: float) -> Repeated:
        """All rounds, with this noise on the sum over the clip bound."""
        users = public_users(self.params, self._sizes(stats), self.name, self.params.unit)
        event = self._sampler(users, None).event(Gaussian(noise_multiplier=noise_multiplier))
        return Repeated(count=self.params.rounds, event=event)

    def _events(self, rounds: Sequence[AnyEvent]) -> Events:
        poisson = self.params.sampling == "poisson"
        unit = self.protects
        if self.params.noise == "released":
            return nothing_proven(unit)
        assumed = tuple(assumption.replace("user", unit) for assumption in ASSUMPTIONS)
        return tuple(
            PrivacyEvent(
                unit=unit,
                adjacency="add-or-remove" if poisson else "replace-one",
                event=event,
                assumptions=(*assumed, *CLIPPED[self.params.clip_policy]),
            )
            for event in rounds
        )
