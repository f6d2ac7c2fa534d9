"""Nothing private is used: the model as public text left it, the floor of every other mechanism."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from uedp_bench.api import CorpusStats, Events, Params, TrainingMechanism
from uedp_bench.api.events import PrivacyEvent, PureDP

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner

ASSUMPTIONS = ("vocabulary and initial weights do not depend on private text",)

# What does not depend on the data is (0, 0)-DP for every unit; most mechanisms speak of users.
_EVENTS = (PrivacyEvent(unit="user", event=PureDP(epsilon=0.0), assumptions=ASSUMPTIONS),)


class PublicOnlyParams(Params):
    """It has no parameters: public pre-training belongs to the task and the model."""


class PublicOnly(TrainingMechanism[PublicOnlyParams]):
    """Trains on no private row and releases the module as it was before.

    After public pre-training (`task.pretraining_epochs`, or a pretrained model) that is the public
    model, which every mechanism that spends privacy must beat. Without any it is the network at its
    initial weights, which has learnt nothing.
    """

    name = "public-only"
    unit = "user"
    source = "baseline"
    Params = PublicOnlyParams

    def plan(self, stats: CorpusStats) -> Events:
        """Nothing about private text is released."""
        return _EVENTS

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """A copy of the learner's module, as it stands."""
        return copy.deepcopy(learner.module).to(run.device).eval(), _EVENTS
