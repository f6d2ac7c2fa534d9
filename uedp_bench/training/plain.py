"""Ordinary minibatch training, for the noiseless mechanism and for stages on public data."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import nn

from uedp_bench.errors import InputError
from uedp_bench.learner import Learner, Schedule, on_device, row_seeds
from uedp_bench.run import Run


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
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay
    )
    rng = run.rng(phase, "batches") if rng is None else rng
    rows = np.flatnonzero(learner.corpus.where("train"))
    steps = -(-len(rows) // schedule.batch_size)
    for epoch in range(schedule.epochs):
        order = rng.permutation(rows)
        nats, targets = 0.0, 0
        for step in range(steps):
            chosen = order[step * schedule.batch_size : (step + 1) * schedule.batch_size]
            batch = on_device(learner.batch(chosen, row_seeds(rng, chosen.shape)), run.device)
            losses = learner.losses(module, batch)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(losses.nats.sum() / losses.targets.sum())
            optimizer.step()
            nats += float(losses.nats.detach().sum())
            targets += int(losses.targets.sum())
            run.progress(phase, epoch * steps + step + 1, schedule.epochs * steps)
        if not np.isfinite(nats):
            raise InputError("training diverged: the loss is not finite; lower learning_rate")
        run.log(f"{phase}_loss", epoch + 1, nats / max(targets, 1))
    run.count({f"rows_{phase}": schedule.epochs * len(rows)})
    return module.eval()
