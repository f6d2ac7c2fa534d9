"""What a unit (a user, a record) computes from the shared weights: its update.

Users whose networks allow it train side by side: `torch.func.vmap` over their weights, with one
padded batch for all. Padding rows weigh nothing, and a user without rows left in a step does not
move, so the result is that of training each user alone (a test compares).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uedp_bench.corpus import IntArray
from uedp_bench.learner import Batch, Learner, Losses
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.vector import FlatModule


class UnitTrainer(Protocol):
    """Computes updates where the rows are: one for each process.

    Attributes:
        flat: the network, its weights laid out flat.
        losses: of units before their first step; whoever computes updates adds to it.
    """

    flat: FlatModule
    losses: list[float]

    def updates(self, theta: Tensor, cohort: Cohort) -> Tensor:
        """(units, d) what each unit sends, given the shared weights `theta` (d,).

        Row i depends on unit i's rows, weights, keys and seeds alone: a bound on what a unit sends
        is one on what it knows only then.
        """
        ...


class LocalWork(Protocol):
    """Policy: what a unit does with its own rows. It is pickled for other processes."""

    @property
    def epochs(self) -> int:
        """Passes over a unit's rows: so many seeds are drawn for each row."""
        ...

    @property
    def batch_size(self) -> int | None:
        """Rows a step, None for all: decides whether an order is drawn."""
        ...

    def trainer(self, learner: Learner, device: str) -> UnitTrainer:
        """The trainer that computes updates for this learner."""
        ...


@dataclass(frozen=True)
class LocalTraining:
    """How a unit trains on its own rows.

    Attributes:
        epochs: passes over the unit's rows.
        batch_size: rows a step; None for all of them.
        learning_rate: of `optimizer`.
        momentum: of "sgd", as `torch.optim.SGD` has it (no dampening); it starts at zero in every
            round.
        reduction: "mean" over the tokens of a batch, or "sum" of the rows' mean losses.
        gradient_clip: bound on the norm of every local gradient, or None (updates are clipped
            elsewhere).
    """

    epochs: int = 1
    batch_size: int | None = None
    learning_rate: float = 1.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    reduction: Literal["mean", "sum"] = "mean"
    gradient_clip: float | None = None
    momentum: float = 0.0

    def __post_init__(self) -> None:
        """Refuses what no optimiser would do.

        Raises:
            ValueError: if momentum is outside [0, 1), or is set where the optimiser is not sgd.
        """
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum is {self.momentum}: it must lie in [0, 1)")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is of sgd alone, and the optimizer is {self.optimizer}")

    def one_sgd_step(self, rows: int) -> bool:
        """True if a unit of so many rows sends its gradient, times the learning rate."""
        whole = self.batch_size is None or self.batch_size >= rows
        return whole and self.epochs == 1 and self.optimizer == "sgd"

    def trainer(self, learner: Learner, device: str) -> LocalTrainer:
        """See `LocalWork.trainer`."""
        return LocalTrainer(learner, self, device)


class LossModule(nn.Module):
    """Gives `torch.func.functional_call` a forward pass that ends in losses."""

    def __init__(self, learner: Learner, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self._learner = learner

    def forward(self, batch: Batch) -> Losses:
        """Losses of the rows of a batch."""
        return self._learner.losses(self.module, batch)


class LocalTrainer:
    """Computes the updates of units from shared weights.

    Args:
        learner: what to train.
        local: how.
        device: torch device.
    """

    def __init__(self, learner: Learner, local: LocalTraining, device: str) -> None:
        self.flat = FlatModule(learner.module, device)
        self.flat.module.train()
        self._learner, self._local, self._device = learner, local, device
        self._wrapped = LossModule(learner, self.flat.module)
        self.losses: list[float] = []

    def updates(self, theta: Tensor, cohort: Cohort) -> Tensor:
        """(units, d) weights after local training minus `theta` (d,)."""
        if self._learner.vectorised:
            return self._side_by_side(theta, cohort)
        alone = [self._alone(theta, cohort.take(np.array([i]))) for i in range(len(cohort.rows))]
        return torch.stack(alone) if alone else theta.new_zeros((0, len(theta)))

    def _loss(self, losses: Losses, weights: Tensor) -> Tensor:
        if self._local.reduction == "mean":
            return (weights * losses.nats).sum() / (weights * losses.targets).sum().clamp(min=1e-9)
        return (weights * losses.nats / losses.targets.clamp(min=1)).sum()

    def _side_by_side(self, theta: Tensor, cohort: Cohort) -> Tensor:
        units = len(cohort.rows)

        def loss(params: dict[str, Tensor], batch: Batch, weights: Tensor) -> Tensor:
            named = {f"module.{name}": value for name, value in params.items()}
            return self._loss(torch.func.functional_call(self._wrapped, named, (batch,)), weights)

        gradient = torch.func.grad_and_value(loss)
        steps: _Steps | None = None
        for step, (rows, weights, seeds) in enumerate(_schedule(cohort, self._local)):
            batch = self._batch(rows, seeds)
            weight = torch.as_tensor(weights, dtype=theta.dtype, device=self._device)
            # All units start from the same weights: the first step is one product over all rows.
            shared = steps is None
            at = self.flat.named(theta if steps is None else steps.weights)
            grads, values = torch.func.vmap(
                gradient, in_dims=(None if shared else 0, 0, 0), randomness="error"
            )(at, batch, weight)
            flat = torch.cat([grads[n].reshape(units, -1) for n in self.flat.names], dim=1).detach()
            active = weight.sum(dim=1) > 0
            if step == 0:
                self.losses.extend(values.detach()[active].tolist())
                if self._local.one_sgd_step(cohort.rows.shape[1]):
                    # Moving weights and subtracting them again would only cost time and digits.
                    return _sgd_move(flat, active, self._local)
            steps = steps or _Steps(self._local, theta, units)
            steps.move(flat, active)
        return torch.zeros_like(theta).expand(units, -1) if steps is None else steps.weights - theta

    def _alone(self, theta: Tensor, cohort: Cohort) -> Tensor:
        steps = _Steps(self._local, theta, 1)
        for step, (rows, weights, seeds) in enumerate(_schedule(cohort, self._local)):
            if not weights.any():
                continue
            self.flat.load(steps.weights[0])
            self.flat.grad.zero_()
            batch = {name: value[0] for name, value in self._batch(rows, seeds).items()}
            weight = torch.as_tensor(weights[0], dtype=theta.dtype, device=self._device)
            value = self._loss(self._wrapped(batch), weight)
            torch.autograd.backward(value)
            if step == 0:
                self.losses.append(float(value.detach()))
            steps.move(self.flat.grad[None], torch.ones(1, dtype=torch.bool, device=self._device))
        return steps.weights[0] - theta

    def _batch(self, rows: IntArray, seeds: IntArray) -> dict[str, Tensor]:
        batch = self._learner.batch(rows.reshape(-1), seeds.reshape(-1))
        return {
            name: value.reshape(*rows.shape, *value.shape[1:]).to(self._device)
            for name, value in batch.items()
        }


class _Steps:
    """Optimiser states of units side by side; a unit that is not active does not move."""

    def __init__(self, local: LocalTraining, theta: Tensor, units: int) -> None:
        self._local = local
        self.weights = theta.expand(units, -1).clone()
        if local.optimizer == "adam":
            self._first = torch.zeros_like(self.weights)
            self._second = torch.zeros_like(self.weights)
            self._count = torch.zeros(units, 1, dtype=theta.dtype, device=theta.device)
        elif local.momentum:
            self._velocity = torch.zeros_like(self.weights)

    def move(self, gradient: Tensor, active: Tensor) -> None:
        """One step with gradients (units, d)."""
        local = self._local
        if local.optimizer == "sgd" and not local.momentum:
            self.weights += _sgd_move(gradient, active, local)
            return
        if local.optimizer == "sgd":
            moved = self._velocity * local.momentum + _clipped(gradient, local.gradient_clip)
            # A unit without rows in this step keeps the velocity that its next step builds on.
            self._velocity = torch.where(active[:, None], moved, self._velocity)
            move = local.learning_rate * active[:, None].to(moved.dtype)
            self.weights -= move * moved
            return
        gradient = _clipped(gradient, local.gradient_clip)
        mask = active[:, None].to(gradient.dtype)
        first = 0.9 * self._first + 0.1 * gradient
        second = 0.999 * self._second + 0.001 * gradient**2
        self._count += mask
        keep = active[:, None]
        self._first = torch.where(keep, first, self._first)
        self._second = torch.where(keep, second, self._second)
        mean = self._first / (1 - 0.9**self._count).clamp(min=1e-12)
        variance = self._second / (1 - 0.999**self._count).clamp(min=1e-12)
        step = mean / (variance.sqrt() + 1e-8)
        self.weights -= local.learning_rate * mask * step


def _clipped(gradient: Tensor, bound: float | None) -> Tensor:
    if bound is None:
        return gradient
    norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient * torch.clamp(bound / (norms + 1e-6), max=1.0)


def _sgd_move(gradient: Tensor, active: Tensor, local: LocalTraining) -> Tensor:
    """(units, d) the moves of one step of sgd; overwrites the gradients."""
    factor = -local.learning_rate * active[:, None].to(gradient.dtype)
    return _clipped(gradient, local.gradient_clip).mul_(factor)


def _schedule(
    cohort: Cohort, local: LocalTraining
) -> Iterator[tuple[IntArray, NDArray[np.float64], IntArray]]:
    """Rows, weights, seeds (units, batch) of each local step: shuffled batches, epoch by epoch."""
    width = cohort.rows.shape[1]
    size = min(local.batch_size or width, width)
    here = cohort.weights > 0
    for epoch in range(local.epochs):
        if size == width:  # one step sees every row: the order does not matter
            yield cohort.rows, cohort.weights, cohort.seeds_of_rows[epoch]
            continue
        if cohort.keys is None:
            raise RuntimeError("a cohort with several batches needs an order: call drawn()")
        keys = np.where(here, cohort.keys[epoch], np.inf)
        order = np.argsort(keys, axis=1, kind="stable")
        for start in range(0, math.ceil(width / size) * size, size):
            pick = order[:, start : start + size]
            yield (
                np.take_along_axis(cohort.rows, pick, axis=1),
                np.take_along_axis(cohort.weights, pick, axis=1),
                np.take_along_axis(cohort.seeds_of_rows[epoch], pick, axis=1),
            )
