"""Ordinary minibatch training, for the noiseless mechanism and for stages on public data."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError
from uedp_bench.learner import Learner, Schedule, on_device, row_seeds
from uedp_bench.run_context import Run
from uedp_bench.training import denormals
from uedp_bench.training.chunks import batches_of_like_length
from uedp_bench.training.diagnostics import count_weights


def train_plain(
    schedule: Schedule,
    learner: Learner,
    run: Run,
    phase: str = "train",
    rng: np.random.Generator | None = None,
) -> nn.Module:
    """A trained copy of the learner's module, in evaluation mode.

    Args:
        schedule: how.
        learner: rows and module.
        run: the series `PHASE_loss` is its.
        phase: names series and progress.
        rng: draws the order of rows, and dropout; a secret one of the run by default.

    Raises:
        InputError: if the loss stops being finite.
    """
    module = copy.deepcopy(learner.module).to(run.device).train()
    optimizer = optimizer_for(schedule, module)
    rng = run.rng(phase, "batches") if rng is None else rng
    rows = np.flatnonzero(learner.corpus.where("train"))
    steps = max(-(-len(rows) // schedule.batch_size), 1)
    now = _Epoch(rows)
    for at in run.checkpointed(
        phase, schedule.epochs * steps, module=module, optimizer=optimizer, rng=rng, epoch=now,
        corpus=learner.corpus,
    ):  # fmt: skip
        epoch, step = divmod(at, steps)
        if step == 0:
            now.order, now.nats, now.targets = rng.permutation(rows), 0.0, 0
            if schedule.order == "by-user":
                now.order = one_user_after_another(now.order, learner.corpus.users, rng)
            elif learner.row_lengths is not None:
                now.order = batches_of_like_length(
                    now.order, learner.row_lengths, schedule.batch_size, rng
                )
        chosen = now.order[step * schedule.batch_size : (step + 1) * schedule.batch_size]
        if len(chosen):
            seeds = row_seeds(rng, chosen.shape)
            nats, targets = plain_step(learner, module, optimizer, (chosen, seeds), run.device)
            now.nats += nats
            now.targets += targets
            run.progress(phase, at + 1, schedule.epochs * steps)
        if step + 1 == steps:
            if not np.isfinite(now.nats):
                raise InputError("training diverged: the loss is not finite; lower learning_rate")
            run.log(f"{phase}_loss", epoch + 1, now.nats / max(now.targets, 1))
    run.count({f"rows_{phase}": schedule.epochs * len(rows)})
    weights = sum(one.numel() for one in module.parameters() if one.requires_grad)
    count_weights(run, f"weights_{phase}", weights)
    return module.eval()


@denormals.as_zeros()
def plain_step(
    learner: Learner,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[IntArray, IntArray],
    device: str,
) -> tuple[float, int]:
    """One step on the mean loss of a batch.

    Args:
        learner: gives rows and losses.
        module: trained in place.
        optimizer: of its weights.
        batch: rows, and the seeds of their dropout.
        device: torch device of the module.

    Returns:
        The sum of losses in nats, before the step, and how many targets they are of.
    """
    losses = learner.losses(module, on_device(learner.batch(*batch), device))
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(losses.nats.sum() / losses.targets.sum())
    optimizer.step()
    return float(losses.nats.detach().sum()), int(losses.targets.sum())


def one_user_after_another(order: IntArray, users: IntArray, rng: np.random.Generator) -> IntArray:
    """The rows of an order with those of each user together, users in an order that is drawn.

    A user's rows keep their order.

    Args:
        order: rows.
        users: (rows of the corpus,) whose each is.
        rng: draws the order of users.
    """
    _, user = np.unique(users[order], return_inverse=True)
    places = rng.permutation(int(user.max(initial=-1)) + 1)
    found: IntArray = order[np.argsort(places[user], kind="stable")]
    return found


@dataclass
class _Epoch:
    """A pass over the rows: their order, and the sums of its losses so far."""

    order: IntArray
    nats: float = 0.0
    targets: int = 0


def optimizer_for(schedule: Schedule, module: nn.Module) -> torch.optim.Optimizer:
    """The optimiser of a schedule, on the trainable weights of a module."""
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    rate, decay = schedule.learning_rate, schedule.weight_decay
    if schedule.optimizer == "sgd":
        return torch.optim.SGD(weights, lr=rate, momentum=schedule.momentum, weight_decay=decay)
    return torch.optim.AdamW(weights, lr=rate, weight_decay=decay)
