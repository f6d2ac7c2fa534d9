"""A model that was trained before the run, by whoever: released as it is, and attacked."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from uedp_bench.accounting.declarations import DeclaredTraining
from uedp_bench.api import CorpusStats, Elsewhere, Events, MayBePath, TrainingMechanism
from uedp_bench.api.events import Claim

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner


class TrainedElsewhereParams(DeclaredTraining):
    """Guarantee claimed of the training, and canaries planted before it."""

    coins: Annotated[str | None, MayBePath()] = Field(
        default=None,
        description="the file coins.json of `uedp-bench plant`, where the model was trained on the "
        "corpus that stands beside it; without it nothing was planted: rows of the split train are "
        "members, rows of held_out are not",
    )


class TrainedElsewhere(TrainingMechanism[TrainedElsewhereParams]):
    """Releases the model `checkpoint` as somebody trained it, on rows of the split `train`.

    Every row of that split is a member: none becomes valid or test. Utility is that of the test
    rows, or, where there are none, of the rows of held_out. Nothing is trained here, and nothing is
    known of how it was trained: what the user declares is printed as a claim, and nothing is
    proven. Attacks that planted nothing before that training have nothing to look for and are
    skipped; none may ask for models trained in the same way.
    """

    name = "trained-elsewhere"
    version = 2
    source = "a model of the user's own"
    Params = TrainedElsewhereParams

    @property
    def elsewhere(self) -> Elsewhere:
        """The coins of what was planted before, if anything was."""
        coins = self.params.coins
        return Elsewhere(None if coins is None else Path(coins))

    def plan(self, stats: CorpusStats) -> Events:
        """Private text was used, and nothing is proven of how."""
        return self.params.events()

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Guarantee that the user declares."""
        return self.params.claims()

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """A copy of the learner's module, as it stands."""
        return copy.deepcopy(learner.module).to(run.device).eval(), self.params.events()
