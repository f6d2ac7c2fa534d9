"""Federated averaging without noise (McMahan, Moore, Ramage, Hampson, Aguera y Arcas 2017)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, TrainingMechanism
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.api.text import users_of
from uedp_bench.mechanisms.private_training.parameters import (
    ClipParams,
    LocalParams,
    RoundParams,
    ServerParams,
    UnitParams,
)
from uedp_bench.mechanisms.private_training.users import check_round, dealt_anew

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.sampling import Sampler
    from uedp_bench.api.training import Bound


class FedAvgParams(ServerParams, LocalParams, ClipParams, RoundParams, UnitParams):
    """Parameters of federated averaging, of its one-step case, and of clipping alone."""

    algorithm: Literal["fedavg", "fedsgd"] = Field(
        default="fedavg",
        description="fedavg: users train on their own rows and the server averages what they send; "
        "fedsgd: every user sends one gradient of all its rows, and server_learning_rate is the "
        "learning rate",
    )
    sampling: Literal["fixed", "poisson"] = Field(
        default="fixed", description="exactly users_per_round users, or independent coins"
    )
    weighting: Literal["rows", "users"] = Field(
        default="rows",
        description="rows: a user counts by the number of its rows; users: everybody counts alike",
    )
    clip: float | None = Field(
        default=None, gt=0,
        description="l2 bound on a user's update, without any noise; default: nothing is clipped",
    )  # fmt: skip
    iid: bool = Field(
        default=False,
        description="deal the training rows anew among the users, at random, so that everybody "
        "keeps its number of rows and nobody its own text",
    )

    @model_validator(mode="after")
    def _fits(self) -> FedAvgParams:
        if self.clip is None and self.clip_policy != "flat":
            raise ValueError(
                f"clip_policy is {self.clip_policy!r}, but nothing is clipped; give clip"
            )
        if self.iid and self.unit == "client":
            raise ValueError(
                "iid deals rows anew among users, and unit is 'client'; deal them among clients "
                "with clients.by=random"
            )
        if self.clip_count_noise is not None:
            raise ValueError("clip_count_noise: there is no noise here, on counts or on sums")
        if self.algorithm == "fedsgd":
            for name, field in LocalParams.model_fields.items():
                if (value := getattr(self, name)) != field.default:
                    raise ValueError(
                        f"{name} is {value!r}, but users of fedsgd send one gradient; leave it "
                        "out, or take algorithm='fedavg'"
                    )
        return self

    def bounded(self) -> Bound:
        """Bound to which a user's update is clipped."""
        from uedp_bench.api.training import Unbounded

        if self.clip is None:
            return Unbounded()
        return self.bound(self.clip, 0.0, self.users_per_round)

    def sampler(self, population: int) -> Sampler:
        """The sampler of so many users, who are enough for a round."""
        from uedp_bench.api.sampling import FixedSizeSampler, PoissonSampler

        if self.sampling == "fixed":
            return FixedSizeSampler(population, self.users_per_round)
        return PoissonSampler(population, self.users_per_round / population)


class FedAvg(TrainingMechanism[FedAvgParams]):
    """Federated averaging without noise: the upper end of what a federation can learn.

    It promises nothing, with clipping or without. Its rounds are those of `user-dp`, but the server
    divides by the weights of the users who came, as published, and not by a public constant.
    """

    name = "fedavg"
    source = "McMahan et al. 2017 (arXiv:1602.05629), Algorithm 1"
    Params = FedAvgParams

    def plan(self, stats: CorpusStats) -> Events:
        """Private text is used without protection.

        Raises:
            InputError: if a round needs more clients than the spec has.
        """
        if self.params.unit == "client" and stats.clients:
            self._check_round(len(stats.clients), is_public=True)
        return self._unprotected()

    def _check_round(self, units: int, *, is_public: bool) -> None:
        p = self.params
        check_round(p.users_per_round, units, self.name, is_public=is_public, unit=p.unit)

    def _unprotected(self) -> Events:
        event = NonPrivate(reason="trained without noise")
        return (PrivacyEvent(unit=self.params.unit, event=event),)

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains on the users of the training split."""
        from uedp_bench.api.training import Federation, IndependentGaussian, train_federated

        p = self.params
        if p.iid:
            learner = dealt_anew(learner, run, self.name)
        units = users_of(learner.corpus, p.unit)
        self._check_round(len(units), is_public=False)
        counts = units.counts
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=units,
                sampler=p.sampler(len(units)),
                local=p.local("mean"),
                bound=p.bounded(),
                noise=IndependentGaussian(0.0),
                denominator=None,
                server=p.server(),
                unit_weights=counts / counts.max() if p.weighting == "rows" else None,
                rows_per_unit=p.rows_per_user,
                clients=True,
                group=p.unit,
            ),
            learner,
            run,
        )
        return trained.module, self._unprotected()
