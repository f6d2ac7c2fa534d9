"""Update that a unit (a user, a record) computes from the shared weights.

Users whose networks allow it train side by side: `torch.func.vmap` over their weights, with one
padded batch for all. Padding rows weigh nothing, and a user without rows left in a step does not
move, so the result is that of training each user alone (a test compares).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.corpus import BoolArray, FloatArray, IntArray
from uedp_bench.models.fast.products import descending, in_place
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.vector import FlatModule


class Steps:
    """Optimiser states of units side by side; a unit that is not active does not move.

    Args:
        local: the optimiser.
        weights: (units, d) that the steps move, in place.
    """

    def __init__(self, local: LocalTraining, weights: Tensor) -> None:
        self._local, self.weights = local, weights
        if local.optimizer == "adam":
            self._first = torch.zeros_like(self.weights)
            self._second = torch.zeros_like(self.weights)
            self._count = weights.new_zeros(len(weights), 1)
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
            self.weights -= _of_active(local.learning_rate * moved, active)
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
        self.weights -= _of_active(local.learning_rate * step, active)


def _clipped(gradient: Tensor, bound: float | None) -> Tensor:
    if bound is None:
        return gradient
    norms = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient * torch.clamp(bound / (norms + 1e-6), max=1.0)


def _sgd_move(gradient: Tensor, active: Tensor, local: LocalTraining) -> Tensor:
    """(units, d) the moves of one step of sgd; overwrites the gradients."""
    moves = _clipped(gradient, local.gradient_clip).mul_(-local.learning_rate)
    return _of_active(moves, active)


def _of_active(moves: Tensor, active: Tensor) -> Tensor:
    """Moves (units, d), in place, with 0 for units that are not active.

    They are computed beside units of more steps, at weights where their gradients may be no
    numbers: no factor would silence these, and longer units would decide what they send.
    """
    return moves.masked_fill_(~active[:, None], 0.0)


def schedule(
    cohort: Cohort, local: LocalTraining
) -> Iterator[tuple[IntArray, NDArray[np.float64], IntArray]]:
    """Rows, weights, seeds (units, batch) of each local step: shuffled batches, epoch by epoch.

    Where a unit has fewer rows than a batch, its first row of that batch stands in for the others
    with weight 0. A row of another batch might have a loss that is no number here.
    """
    width = cohort.rows.shape[1]
    size = min(local.batch_size or width, width)
    has_row = cohort.weights > 0
    for epoch in range(local.epochs):
        if size == width:  # one step sees every row: the order does not matter
            yield cohort.rows, cohort.weights, cohort.seeds_of_rows[epoch]
            continue
        if cohort.keys is None:
            raise RuntimeError("a cohort with several batches needs an order: call drawn()")
        keys = np.where(has_row, cohort.keys[epoch], np.inf)
        order = np.argsort(keys, axis=1, kind="stable")
        for start in range(0, math.ceil(width / size) * size, size):
            pick = order[:, start : start + size]
            weights = np.take_along_axis(cohort.weights, pick, axis=1)
            pick = np.where(weights > 0, pick, pick[:, :1])
            yield (
                np.take_along_axis(cohort.rows, pick, axis=1),
                weights,
                np.take_along_axis(cohort.seeds_of_rows[epoch], pick, axis=1),
            )


class UnitTrainer(Protocol):
    """Computes updates where the rows are: one for each process.

    Attributes:
        flat: the network, its weights laid out flat.
        losses: losses of units before their first step; whoever computes updates adds to it.
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
    """Policy: what a unit does with its own rows. It is pickled for other ranks."""

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
    """Settings of a unit's training on its own rows.

    Attributes:
        epochs: passes over the unit's rows.
        batch_size: rows a step; None for all of them.
        learning_rate: learning rate of `optimizer`.
        momentum: momentum of "sgd", as `torch.optim.SGD` has it (no dampening); it starts at zero
            in every round.
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
        """Refuse what no optimiser would do.

        Raises:
            ValueError: if momentum is outside [0, 1), or is set where the optimiser is not sgd.
        """
        if not 0.0 <= self.momentum < 1.0:
            raise ValueError(f"momentum is {self.momentum}: it must lie in [0, 1)")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is of sgd alone, and the optimizer is {self.optimizer}")

    def one_sgd_step(self, rows: int) -> bool:
        """True if a unit of so many rows sends its gradient, times the learning rate."""
        return bool(self.of_one_step(np.array([rows]))[0])

    def of_one_step(self, rows: IntArray) -> BoolArray:
        """(units,) True for units of so many rows that send their gradient, times the rate."""
        most = np.inf if self.batch_size is None else self.batch_size
        one: BoolArray = (rows <= most) & (self.epochs == 1 and self.optimizer == "sgd")
        return one

    def trainer(self, learner: Learner, device: str) -> LocalTrainer:
        """See `LocalWork.trainer`."""
        return LocalTrainer(learner, self, device)


class LossModule(nn.Module):
    """A forward pass that ends in losses, with the network's own weights or with others."""

    def __init__(self, learner: Learner, flat: FlatModule) -> None:
        super().__init__()
        self.module = flat.module
        self._learner, self._flat = learner, flat

    def forward(self, batch: Batch) -> Losses:
        """Losses of the rows of a batch."""
        return self._learner.losses(self.module, batch)

    def with_weights(self, weights: Mapping[str, Tensor], batch: Batch) -> Losses:
        """Losses for weights by name (`FlatModule.named`); the network keeps its own."""
        named = {f"module.{k}": value for k, value in self._flat.at_all_places(weights).items()}
        losses: Losses = torch.func.functional_call(self, named, (batch,), tie_weights=False)
        return losses


class LocalTrainer:
    """Computes the updates of units from shared weights.

    Small networks train side by side: their time goes into calls, and one call serves all units.
    Large ones train one after the other, for their time goes into products, and from the second
    step on each unit's weights are its own: a call serves few units before their tables leave the
    cache.

    Args:
        learner: learner to train.
        local: how.
        device: torch device.
    """

    def __init__(self, learner: Learner, local: LocalTraining, device: str) -> None:
        self.flat = FlatModule(learner.module, device)
        self.flat.module.train()
        self._learner, self._local, self._device = learner, local, device
        self._wrapped = LossModule(learner, self.flat)
        self._first_losses: list[Tensor] = []
        self._in_place: bool | None = None

    @property
    def losses(self) -> list[float]:
        """See `UnitTrainer`; a device that computes on its own is waited for here, not before."""
        return torch.cat(self._first_losses).tolist() if self._first_losses else []

    @losses.setter
    def losses(self, values: list[float]) -> None:
        self._first_losses = [torch.tensor(values)] if values else []

    def updates(self, theta: Tensor, cohort: Cohort) -> Tensor:
        """(units, d) weights after local training minus `theta` (d,)."""
        if side_by_side(self._learner, len(theta), self._device):
            return self._side_by_side(theta, cohort)
        if len(cohort.rows) == 1:
            return self._alone(theta, cohort)[None]
        updates = theta.new_empty(len(cohort.rows), len(theta))
        for unit, update in enumerate(updates):
            update.copy_(self._alone(theta, cohort.take(np.array([unit]))))
        return updates

    def _loss(self, losses: Losses, weights: Tensor) -> Tensor:
        if self._local.reduction == "mean":
            return (weights * losses.nats).sum() / (weights * losses.targets).sum().clamp(min=1e-9)
        return (weights * losses.nats / losses.targets.clamp(min=1)).sum()

    def _side_by_side(self, theta: Tensor, cohort: Cohort) -> Tensor:
        units = len(cohort.rows)

        def loss(params: dict[str, Tensor], batch: Batch, weights: Tensor) -> Tensor:
            return self._loss(self._wrapped.with_weights(params, batch), weights)

        # A unit of one step sends its gradient, whoever computes beside it: moving weights and
        # subtracting them again would cost time, and digits that depend on the weights.
        single = self._local.of_one_step((cohort.weights > 0).sum(axis=1))
        moves: Tensor | None = None
        steps: Steps | None = None
        for step, (rows, weights, seeds) in enumerate(schedule(cohort, self._local)):
            batch = self._batch(rows, seeds)
            weight = torch.as_tensor(weights, dtype=theta.dtype, device=self._device)
            # All units start from the same weights: layers that see so compute all rows at once.
            at = theta.expand(units, -1) if steps is None else steps.weights
            at = at.detach().requires_grad_()
            values = torch.func.vmap(loss, randomness="error")(self.flat.named(at), batch, weight)
            # No unit's loss depends on another's weights: the gradient of the sum has all of them.
            (flat,) = torch.autograd.grad(values.sum(), at)
            has_rows = (weights > 0).any(axis=1)
            active = torch.as_tensor(has_rows, device=self._device)
            if step == 0:
                trained = torch.as_tensor(np.flatnonzero(has_rows), device=self._device)
                self._first_losses.append(values.detach()[trained])
                if single.all():
                    return _sgd_move(flat, active, self._local)
                if single.any():
                    moves = _sgd_move(flat.clone(), active, self._local)
            steps = steps or Steps(self._local, theta.expand(units, -1).clone())
            steps.move(flat, active)
        if steps is None:
            return torch.zeros_like(theta).expand(units, -1)
        moved = steps.weights - theta
        if moves is None:
            return moved
        return torch.where(torch.as_tensor(single, device=self._device)[:, None], moves, moved)

    def _alone(self, theta: Tensor, cohort: Cohort) -> Tensor:
        """The update (d,) of a cohort of one, whose weights are those of the module."""
        local = self._local
        plain = local.optimizer == "sgd" and not local.momentum and local.gradient_clip is None
        update = None if plain else torch.empty_like(theta)  # until the end, memory of gradients
        steps = Steps(local, self.flat.vector[None])
        active = torch.ones(1, dtype=torch.bool, device=self._device)
        self.flat.load(theta)
        for step, (rows, row_weights, seeds) in enumerate(schedule(cohort, local)):
            if not row_weights.any():
                continue
            if update is None:
                value = self._descend(rows, row_weights, seeds)
            else:
                value = self._gradients(rows, row_weights, seeds, update)
                steps.move(update[None], active)
            if step == 0:
                self._first_losses.append(value[None])
        return torch.sub(self.flat.vector, theta, out=update)

    def _descend(self, rows: IntArray, row_weights: FloatArray, seeds: IntArray) -> Tensor:
        """Move one unit's weights by a step of SGD; its loss before."""
        rate = self._local.learning_rate
        with nullcontext() if self._in_place is False else descending(rate):
            value = self._value(rows, row_weights, seeds)
        if self._in_place is None:
            self._in_place = in_place(value)
            if not self._in_place:
                value = self._value(rows, row_weights, seeds)
        value.backward()  # type: ignore[no-untyped-call]
        left = [(w, w.grad) for w in self.flat.weights if w.grad is not None]
        if left:
            weights, gradients = zip(*left, strict=True)
            with torch.no_grad():
                torch._foreach_add_(weights, gradients, alpha=-rate)
            for weight in weights:
                weight.grad = None
        return value.detach()

    def _gradients(
        self, rows: IntArray, row_weights: FloatArray, seeds: IntArray, out: Tensor
    ) -> Tensor:
        """Fill `out` (d,) with the gradient of one unit's step; its loss."""
        value = self._value(rows, row_weights, seeds)
        gradients = torch.autograd.grad(value, self.flat.weights, materialize_grads=True)
        torch.cat([gradient.reshape(-1) for gradient in gradients], out=out)
        return value.detach()

    def _value(self, rows: IntArray, row_weights: FloatArray, seeds: IntArray) -> Tensor:
        batch = {name: value[0] for name, value in self._batch(rows, seeds).items()}
        weight = torch.as_tensor(row_weights[0], dtype=self.flat.vector.dtype, device=self._device)
        return self._loss(self._wrapped(batch), weight)

    def _batch(self, rows: IntArray, seeds: IntArray) -> dict[str, Tensor]:
        batch = self._learner.batch(rows.reshape(-1), seeds.reshape(-1))
        return {
            name: value.reshape(*rows.shape, *value.shape[1:]).to(self._device)
            for name, value in batch.items()
        }


SIDE_BY_SIDE_WEIGHTS = 2**17
"""On a CPU, networks of more weights train one unit after the other (`docs/performance.md`)."""

CACHED_WEIGHTS = 2**19
"""On a CPU, weights of units side by side: 2 MB in float32, and as much for their gradients."""


def side_by_side(learner: Learner, parameters: int, device: str) -> bool:
    """True where units train side by side: wherever they can on a GPU, if small on a CPU."""
    if not learner.vectorised:
        return False
    return torch.device(device).type != "cpu" or parameters <= SIDE_BY_SIDE_WEIGHTS


def units_at_once(learner: Learner, parameters: int, device: str, most: int) -> int:
    """Units whose updates are held at once, of `most`: those that train alone gain nothing."""
    if not side_by_side(learner, parameters, device):
        return 1
    if torch.device(device).type != "cpu":
        return most
    return min(most, max(CACHED_WEIGHTS // max(parameters, 1), 1))
