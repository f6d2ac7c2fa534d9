"""Training without protection: the upper end of utility, and of leakage."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, Params, TrainingMechanism, equals
from uedp_bench.api.events import NonPrivate, PrivacyEvent

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner


TRAINED_WITHOUT_NOISE: Events = (
    PrivacyEvent(unit="user", event=NonPrivate(reason="trained without noise")),
)
"""The event of whoever learns from private text as it is."""


class MinibatchParams(Params):
    """Parameters of steps on minibatches."""

    epochs: int = Field(default=10, ge=1, description="passes over the training rows")
    batch_size: int = Field(default=64, ge=1, description="rows a step")
    learning_rate: float = Field(default=5e-3, gt=0, description="learning rate of the optimiser")
    weight_decay: float = Field(
        default=0.0, ge=0, description="decoupled for adamw, added to the gradient for sgd"
    )
    optimizer: Literal["adamw", "sgd"] = Field(
        default="adamw", description="steps with this", exclude_if=equals("adamw")
    )
    momentum: float = Field(
        default=0.0, ge=0, lt=1, description="momentum of sgd", exclude_if=equals(0.0)
    )

    @model_validator(mode="after")
    def _momentum_is_of_sgd(self) -> MinibatchParams:
        if self.optimizer != "sgd" and self.momentum > 0.0:
            raise ValueError(
                f"momentum is {self.momentum:g}, but it is that of sgd, and optimizer is "
                f"{self.optimizer!r}; leave it out"
            )
        return self


class NoiselessParams(MinibatchParams):
    """Parameters of ordinary minibatch training."""

    order: Literal["shuffled", "by-user"] = Field(
        default="shuffled",
        description="shuffled: every epoch shuffles all rows; by-user: it shuffles users, whose "
        "rows come one after the other, so that a batch holds rows of one user or a few",
        exclude_if=equals("shuffled"),
    )
    keep: Literal["best-on-valid", "last"] = Field(
        default="best-on-valid",
        description="best-on-valid: of all epochs (and learning rates), the network that does best "
        "on rows of the split valid is kept (classes: least expected error; else: least loss), and "
        "the last where there are no such rows; last: that of the last epoch",
        exclude_if=equals("best-on-valid"),
    )
    learning_rate_factors: tuple[Annotated[float, Field(gt=0)], ...] = Field(
        default=(1.0,),
        min_length=1,
        description="learning_rate times each of these is tried from the same initial weights, and "
        "the best on rows of the split valid is kept; several multiply the time of training",
        exclude_if=equals((1.0,)),
    )

    @model_validator(mode="after")
    def _rates_are_compared_on_valid(self) -> NoiselessParams:
        if self.keep == "last" and len(self.learning_rate_factors) > 1:
            raise ValueError(
                "keep is 'last', but several learning_rate_factors are compared on rows of the "
                "split valid; set keep to 'best-on-valid', or give one factor"
            )
        return self


class Noiseless(TrainingMechanism[NoiselessParams]):
    """Ordinary training: shuffled minibatches, AdamW or SGD, no clipping, no noise.

    The strongest network that rows of the split `valid` can tell is kept: private rows in a table
    are compared with what could be had without protection. Where training text was published under
    a guarantee, so were the rows of `valid`; elsewhere nothing is promised that the choice could
    break.
    """

    name = "noiseless"
    version = 4
    source = "baseline"
    unprotected = True
    Params = NoiselessParams

    def plan(self, stats: CorpusStats) -> Events:
        """Private text is used without protection."""
        return TRAINED_WITHOUT_NOISE

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains a copy of the learner's module."""
        from uedp_bench.api.networks import Schedule
        from uedp_bench.api.text import users_of
        from uedp_bench.api.training import train_plain
        from uedp_bench.training.plain import BestOnValid

        p = self.params
        if p.order == "by-user":
            users_of(learner.corpus)  # or else says that a row has no user
        names = (field.name for field in fields(Schedule))
        schedule = Schedule(**{name: getattr(p, name) for name in names})
        keep = None if p.keep == "last" else BestOnValid(p.learning_rate_factors)
        return train_plain(schedule, learner, run, keep=keep), TRAINED_WITHOUT_NOISE
