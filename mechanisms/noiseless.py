"""Training without protection: the upper end of utility, and of leakage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.component import Params
from uedp_bench.mechanism import CorpusStats, Events, TrainingMechanism

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.corpus import Corpus
    from uedp_bench.learner import Learner
    from uedp_bench.run import Run


_EVENTS = (PrivacyEvent(unit="user", event=NonPrivate(reason="trained without noise")),)


class NoiselessParams(Params):
    """Parameters of ordinary minibatch training with Adam."""

    epochs: int = Field(default=10, ge=1, description="passes over the training rows")
    batch_size: int = Field(default=64, ge=1, description="rows a step")
    learning_rate: float = Field(default=5e-3, gt=0, description="learning rate of Adam")
    weight_decay: float = Field(default=0.0, ge=0, description="decoupled (AdamW)")


class Noiseless(TrainingMechanism[NoiselessParams]):
    """Ordinary training: shuffled minibatches, Adam, no clipping, no noise."""

    name = "noiseless"
    version = 2
    source = "baseline"
    Params = NoiselessParams

    def plan(self, stats: CorpusStats) -> Events:
        """Private text is used without protection."""
        return _EVENTS

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains a copy of the learner's module."""
        from uedp_bench.learner import Schedule
        from uedp_bench.training.plain import train_plain

        schedule = Schedule(**self.params.model_dump())
        return train_plain(schedule, learner, run), _EVENTS
