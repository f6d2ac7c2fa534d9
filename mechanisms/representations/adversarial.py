"""Adversarial training: a classifier whose representation is to mislead attackers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from uedp_bench.api import CorpusStats, Events, InputError, Params, TrainingMechanism
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.errors import nearest

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, IntArray, Run
    from uedp_bench.api.networks import Learner, Losses
    from uedp_bench.mechanisms.representations.split_training import Draws

_EVENTS = (
    PrivacyEvent(
        unit="record", event=NonPrivate(reason="trained against attackers, without noise")
    ),
)


class AdversarialParams(Params):
    """Private variables to hide, weight of hiding them, and training of the classifier."""

    attributes: tuple[str, ...] = Field(
        default=(),
        description="private variables of the source to hide; none given: all but what is "
        "predicted",
    )
    adversary_weight: float = Field(
        default=1.0,
        ge=0,
        description="weight of misleading an attacker, beside 1 for the main task",
    )
    attacker_hidden: int = Field(
        default=512, ge=1, description="hidden units (ReLU) of each attacker"
    )
    attacker_steps: int = Field(
        default=1, ge=1, description="steps of the attackers for one of the classifier"
    )
    attacker_learning_rate: float = Field(
        default=1e-3, gt=0, description="learning rate of the attackers' Adam"
    )
    epochs: int = Field(default=4, ge=1, description="passes over the training rows")
    batch_size: int = Field(default=64, ge=1, description="rows a step")
    learning_rate: float = Field(
        default=5e-5,
        gt=0,
        description="learning rate of AdamW; the default is for a pretrained encoder",
    )
    weight_decay: float = Field(default=0.0, ge=0, description="decoupled (AdamW)")


class Adversarial(TrainingMechanism[AdversarialParams]):
    """Main classifier and attackers of the private variables take steps in turn.

    Attackers minimise their cross-entropy -log P(z | r) on the representation r, which is fixed for
    them. Encoder and head minimise -log P(y | r) - weight sum over variables of log P(not z | r),
    the attackers being fixed; P(not z | r) is 1 - P(z | r). Nothing is promised.
    """

    name = "adversarial"
    version = 2
    source = "Coavoux, Narayan, Cohen 2018, adversarial classification (multidetasking)"
    Params = AdversarialParams

    def plan(self, stats: CorpusStats) -> Events:
        """Private text is used without protection, in training and at inference."""
        return _EVENTS

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains a copy of the learner's module; the epoch with the least main loss is kept.

        Raises:
            CapabilityError: if the learner's network is not in two parts.
            InputError: if the corpus has no such private variable, or one with a single class.
        """
        from uedp_bench.api.networks import on_device, row_seeds
        from uedp_bench.mechanisms.representations.split_training import (
            Attackers,
            SplitTraining,
            in_two_parts,
            train_split,
        )

        p = self.params
        split = in_two_parts(learner, self.name)
        truth, classes = self._private(corpus, split.target)
        attackers = Attackers(
            split.width, classes, p.attacker_hidden, run.shared_seed(self.name, "attackers")
        ).to(run.device)
        attackers.start(p.attacker_learning_rate)

        def main(module: nn.Module, rows: IntArray, draws: Draws) -> Losses:
            batch = on_device(split.batch(rows, row_seeds(draws.rng, rows.shape)), run.device)
            return split.head_losses(module, split.encode(module, batch), batch)

        def misleading(module: nn.Module, rows: IntArray, draws: Draws) -> Losses:
            batch = on_device(split.batch(rows, row_seeds(draws.rng, rows.shape)), run.device)
            z, private = split.encode(module, batch), attackers.truth(truth, rows)
            for _ in range(p.attacker_steps):
                attackers.step(z, private)
            losses = split.head_losses(module, z, batch)
            fooled = attackers.fooling_nats(z, private)
            return losses._replace(nats=losses.nats + p.adversary_weight * fooled)

        plan = SplitTraining(p.epochs, p.batch_size, p.learning_rate, p.weight_decay)
        module = train_split(
            plan, split, run, misleading, main, attackers=attackers,
            optimizer_of_attackers=attackers.optimizer,
        )  # fmt: skip
        return module, _EVENTS

    def _private(
        self, corpus: Corpus, target: str
    ) -> tuple[Mapping[str, IntArray], Mapping[str, int]]:
        """Values (rows,) of each private variable, -1 for unknown, and its number of classes."""
        names_of = {name: names for name, names in corpus.attribute_names.items() if name != target}
        if target in self.params.attributes:
            raise InputError(
                f"{self.name}.attributes: {target!r} is what the task predicts (task.target); it "
                "cannot be hidden"
            )
        if not names_of:
            raise InputError(f"{self.name} needs a source with attributes; this one has none")
        for name in self.params.attributes:
            if name not in names_of:
                near = nearest(name, names_of)
                hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(names_of)}"
                raise InputError(f"{self.name}.attributes: no attribute is named {name!r}; {hint}")
        chosen = tuple(dict.fromkeys(self.params.attributes)) or tuple(names_of)
        train = corpus.where("train")
        for name in chosen:
            values = corpus.attributes[name]
            present = np.unique(values[train & (values >= 0)])
            if len(present) < 2:
                classes = ", ".join(names_of[name][value] for value in present) or "none"
                raise InputError(
                    f"{self.name}.attributes: {name!r} has fewer than two classes among the "
                    f"training rows: {classes}; nothing is there to hide"
                )
        return (
            {name: corpus.attributes[name] for name in chosen},
            {name: len(names_of[name]) for name in chosen},
        )
