"""Record-level DP-SGD (Abadi et al. 2016, Algorithm 1): Poisson records, per-example clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, Index, InputError, PublicUnits, equals
from uedp_bench.api.events import AnyEvent, Claim, Gaussian, PoissonSampled, PrivacyEvent, Repeated
from uedp_bench.mechanisms.private_training.parameters import CLIPPED, WEIGHT_DECAY, ClipParams
from uedp_bench.mechanisms.private_training.target import TargetMechanism, TargetParams

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.training import ServerStep

ASSUMPTIONS = (
    "number of records, sampling rate, clip bound and noise are public constants",
    "every record is drawn with an independent coin; per-example gradients are clipped",
    "vocabulary and initial weights do not depend on private text",
)


class DPSGDParams(ClipParams, TargetParams):
    """Parameters of DP-SGD."""

    records: int | None = Field(
        default=None, ge=1, description="public number of records; default: documented"
    )
    batch_size: int = Field(default=512, ge=1, description="expected records a step")
    steps: int = Field(default=300, ge=1, description="steps")
    noise_multiplier: float | None = Field(
        default=0.8, ge=0, description="noise over the clip bound"
    )
    clip: float = Field(default=1.0, gt=0, description="l2 bound on a record's gradient")
    learning_rate: float = Field(default=0.01, gt=0, description="learning rate of the optimiser")
    optimizer: Literal["sgd", "adam", "adamw", "lamb"] = Field(
        default="adam", description="steps with this"
    )
    weight_decay: float | None = Field(
        default=None, ge=0,
        description="part of each weight, times the learning rate, that a step of adamw takes off "
        "it, or that lamb takes off before it scales a layer's step; default: 0.01 of both",
        exclude_if=equals(None),
    )  # fmt: skip

    @model_validator(mode="after")
    def _decay_is_of_the_optimizer(self) -> DPSGDParams:
        if self.weight_decay is not None and self.optimizer not in ("adamw", "lamb"):
            raise ValueError(
                f"weight_decay is {self.weight_decay:g}, but it is that of adamw and lamb, and the "
                f"optimizer is {self.optimizer!r}; leave it out"
            )
        return self

    def server(self) -> ServerStep:
        """The step along the noisy mean gradient."""
        from uedp_bench.api.training import AdamServer, LambServer, SgdServer

        rate = self.learning_rate
        decay = WEIGHT_DECAY if self.weight_decay is None else self.weight_decay
        if self.optimizer == "lamb":
            return LambServer(rate, weight_decay=decay)
        if self.optimizer == "adamw":
            return AdamServer(rate, weight_decay=decay)
        return AdamServer(rate) if self.optimizer == "adam" else SgdServer(rate)


class DPSGD(TargetMechanism[DPSGDParams]):
    """DP-SGD on Poisson-sampled rows; the noisy sum is divided by the expected batch size."""

    name = "dp-sgd"
    version = 2
    unit = "record"
    fresh_noise = True
    source = "Abadi et al. 2016, Algorithm 1"
    Params = DPSGDParams

    def plan(self, stats: CorpusStats) -> Events:
        """One Poisson-sampled Gaussian a step."""
        noise = self.noise(stats)
        self.params.count_noise(noise, self.params.batch_size)
        return self.planned(stats, noise)

    def planned(self, stats: CorpusStats, noise: float) -> Events:
        """See `TargetMechanism`."""
        step = PoissonSampled(rate=self._rate(stats), event=Gaussian(noise_multiplier=noise))
        return self._events((Repeated(count=self.params.steps, event=step),))

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """The moments accountant, as in the paper."""
        event = self.plan(stats)[0].event
        return (
            Claim(
                unit="record", event=event, accountant="moments", source="Abadi et al. 2016, Thm 2"
            ),
        )

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Rows of the train split; coins fall at their rate whoever is there."""
        p = self.params
        declared = stats.rows if p.records is None else p.records
        return PublicUnits("records", declared, p.batch_size, at_least_all=False)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """The number of records must be public."""
        if stats.public or self.params.records is not None:
            return ()
        return (
            "the number of records was counted from private data; declare a public one with --set "
            "mechanism.dp-sgd.records=N, where N is not below the real number",
        )

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """A record is a unit of one row whose local training is one gradient."""
        from uedp_bench.api.sampling import PoissonSampler
        from uedp_bench.api.training import (
            Federation,
            IndependentGaussian,
            LocalTraining,
            train_federated,
        )

        p, noise = self.params, self.noise(run.stats)
        rows = np.flatnonzero(corpus.where("train"))
        trained = train_federated(
            Federation(
                rounds=p.steps,
                units=Index(np.arange(len(rows) + 1), rows),
                sampler=PoissonSampler(len(rows), self._rate(run.stats)),
                local=LocalTraining(),
                bound=p.bound(p.clip, noise, p.batch_size),
                noise=IndependentGaussian(noise),
                denominator=float(p.batch_size),
                server=p.server(),
            ),
            learner,
            run,
        )
        return trained.module, self._events(trained.rounds)

    def _rate(self, stats: CorpusStats) -> float:
        p = self.params
        records = stats.rows if p.records is None else p.records
        if p.batch_size > records:
            is_public = stats.public or p.records is not None
            count = f"there are only {records}" if is_public else "there are fewer"
            raise InputError(
                f"dp-sgd.batch_size is {p.batch_size}, but {count} training records; choose fewer"
            )
        return p.batch_size / records

    def _events(self, rounds: Sequence[AnyEvent]) -> Events:
        assumptions = (*ASSUMPTIONS, *CLIPPED[self.params.clip_policy])
        return tuple(
            PrivacyEvent(unit="record", event=event, assumptions=assumptions) for event in rounds
        )
