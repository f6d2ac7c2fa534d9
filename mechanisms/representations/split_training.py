"""Training of a network in two parts, and of attackers that it is trained against.

The weights that were best on `valid` rows are kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.api import CapabilityError, InputError, Run, Stream
from uedp_bench.api.networks import Learner, Losses, SplitLearner
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.corpus import IntArray
from uedp_bench.training.plain import ValidLosses


class Draws(NamedTuple):
    """Random numbers of a pass over rows: `rng` for order and dropout, `noise` of its own."""

    rng: np.random.Generator
    noise: np.random.Generator


RowLosses = Callable[[nn.Module, IntArray, Draws], Losses]
"""Losses of rows under a module; training minimises them."""


@dataclass(frozen=True)
class SplitTraining:
    """Epochs of shuffled minibatches with AdamW on the mean loss a row."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.0


def in_two_parts(learner: Learner, name: str) -> SplitLearner:
    """The learner as one of a network in two parts.

    Args:
        learner: any.
        name: name of the mechanism, for the message.

    Raises:
        CapabilityError: if it is none.
    """
    if not isinstance(learner, SplitLearner):
        raise CapabilityError(
            f"{name} trains a network in two parts (an encoder and a head), and a "
            f"{type(learner).__name__} is none: use it for text-classification"
        )
    return learner


def train_split(
    settings: SplitTraining,
    learner: SplitLearner,
    run: Run,
    losses: RowLosses,
    held: RowLosses,
    **learns_too: Any,
) -> nn.Module:
    """Train a copy of the learner's module, and return it in evaluation mode.

    After each epoch the rows of the split `valid` are scored, always with the same noise, and the
    weights of the epoch with the least `ValidLosses.badness` are returned; those of the last epoch
    where there are no such rows.

    Args:
        settings: settings of the training.
        learner: rows and module.
        run: run that logs the series `train_loss` and those of `ValidLosses.log`, and notes
            `best_epoch`.
        losses: losses of training rows.
        held: losses of `valid` rows.
        learns_too: objects that `losses` changes beside the module and the draws, by name, for
            `Run.checkpointed`.

    Raises:
        InputError: if a loss stops being finite.
    """
    module = copy.deepcopy(learner.module).to(run.device).train()
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    rows, valid = (np.flatnonzero(learner.corpus.where(name)) for name in ("train", "valid"))
    draws, of_valid = _draws(run.fresh("train")), run.fresh("valid")
    progress = _Progress(rows, copy.deepcopy(module.state_dict()))
    steps = max(-(-len(rows) // settings.batch_size), 1)
    for at in run.checkpointed(
        "train", settings.epochs * steps, module=module, optimizer=optimizer, rng=draws.rng,
        noise=draws.noise, now=progress, corpus=learner.corpus, **learns_too,
    ):  # fmt: skip
        epoch, step = divmod(at, steps)
        if step == 0:
            progress.begin(draws.rng.permutation(rows))
        chosen = progress.order[step * settings.batch_size : (step + 1) * settings.batch_size]
        if len(chosen):
            row_losses = losses(module, chosen, draws)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(row_losses.nats.sum() / row_losses.targets.sum())
            optimizer.step()
            progress.total += float(row_losses.nats.detach().sum())
            progress.count += len(chosen)
            run.progress("train", epoch * len(rows) + progress.count, settings.epochs * len(rows))
        if step + 1 < steps:
            continue
        run.log("train_loss", epoch + 1, _finite(progress.total / max(progress.count, 1)))
        badness = float(-epoch)
        if len(valid):
            noise = _draws(of_valid)
            batches = np.split(valid, range(settings.batch_size, len(valid), settings.batch_size))
            scored = ValidLosses.in_evaluation(
                module, (held(module, chosen, noise) for chosen in batches)
            )
            badness = _finite(scored.badness)
            scored.log(run, epoch + 1)
        if badness < progress.least:
            progress.best, progress.least = copy.deepcopy(module.state_dict()), badness
            run.note(best_epoch=epoch + 1, simulation_only=["best_epoch"])
    module.load_state_dict(progress.best)
    run.count({"rows_train": settings.epochs * len(rows)})
    return module.eval()


@dataclass
class _Progress(AttributeState):
    """A pass over the rows so far, and the weights of the best pass before."""

    changing: ClassVar[tuple[str, ...]] = ("order", "best", "least", "total", "count")
    order: IntArray
    best: dict[str, Any]
    least: float = float("inf")
    total: float = 0.0
    count: int = 0

    def begin(self, order: IntArray) -> None:
        self.order, self.total, self.count = order, 0.0, 0


def _draws(streams: Stream) -> Draws:
    return Draws(streams.rng("batches"), streams.rng("noise"))


def _finite(loss: float) -> float:
    if not np.isfinite(loss):
        raise InputError("training diverged: the loss is not finite; lower learning_rate")
    return loss


class Attackers(nn.Module):
    """One multilayer perceptron a private variable, each from the representation alone.

    Args:
        width: d, size of the representation.
        classes: number of classes by name of the variable.
        hidden: units of the hidden layer, ReLU.
        seed: seed of the initial weights.
    """

    def __init__(self, width: int, classes: Mapping[str, int], hidden: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.networks = nn.ModuleList(
                nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, count))
                for count in classes.values()
            )

    def start(self, learning_rate: float) -> None:
        """Make the optimiser; call it when the weights are on their device."""
        self.optimizer = torch.optim.Adam(self.parameters(), lr=learning_rate)

    def truth(self, values: Mapping[str, IntArray], rows: IntArray) -> list[Tensor]:
        """(rows,) values of each variable on the device, -1 for unknown."""
        device = next(self.parameters()).device
        return [torch.from_numpy(each[rows]).to(device) for each in values.values()]

    def step(self, z: Tensor, private: list[Tensor]) -> None:
        """One step on the mean cross-entropy of the known values; `z` gets no gradient."""
        fixed = z.detach()
        loss = fixed.new_zeros(())
        for network, truth in zip(self.networks, private, strict=True):
            has_value = truth >= 0
            if has_value.any():
                loss = loss + nn.functional.cross_entropy(
                    network(fixed[has_value]), truth[has_value]
                )
        if not loss.requires_grad:
            return
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()

    def fooling_nats(self, z: Tensor, private: list[Tensor]) -> Tensor:
        """(rows,) sums over variables of -log P(not z | r), 0 for unknown values.

        Its gradient reaches `z` and, unused, the attackers: `step` clears theirs.
        """
        total = z.new_zeros(len(z))
        for network, truth in zip(self.networks, private, strict=True):
            logits = network(z)
            others = logits.scatter(1, truth.clamp(min=0)[:, None], float("-inf"))
            nats = torch.logsumexp(logits, dim=1) - torch.logsumexp(others, dim=1)
            total = total + torch.where(truth >= 0, nats, 0.0)
        return total
