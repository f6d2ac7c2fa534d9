"""One forward and backward pass over rows, and the gradients of all weights by row."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.training.ghost import (  # noqa: F401 - what is known
    convolutions,
    operations,
    recurrent,
)
from uedp_bench.training.ghost.gradients import WeightGradients
from uedp_bench.training.ghost.watched import Tape, WatchedWeight
from uedp_bench.training.local import LossModule
from uedp_bench.training.vector import FlatModule

Gradients = dict[str, WeightGradients]
"""By name of the weight; those that the loss does not depend on are left out."""


class Units(NamedTuple):
    """Units of rows, and the weights of rows in a unit's loss.

    Attributes:
        owner: (rows,) number of each row's unit.
        number: number of units.
        weights: (rows,) weights of rows in their unit's loss.
    """

    owner: Tensor
    number: int
    weights: Tensor

    def coefficients(self, losses: Losses, reduction: Literal["mean", "sum"]) -> Tensor:
        """(rows,) coefficients of nats in the loss of each row's unit, which is their sum."""
        targets = losses.targets.detach()
        if reduction == "sum":
            return self.weights / targets.clamp(min=1)
        weighted = self.weights * targets
        return self.weights / self.sums(weighted).clamp(min=1e-9)[self.owner]

    def sums(self, values: Tensor) -> Tensor:
        """(units,) sums of (rows,) values."""
        return values.new_zeros(self.number).index_add_(0, self.owner, values)


class RowGradients:
    """Computes gradients by row.

    Args:
        learner: gives the losses.
        flat: the network, in the mode that it is trained in.
        reduction: reduction of the losses of a unit's rows to its own.
    """

    def __init__(
        self, learner: Learner, flat: FlatModule, reduction: Literal["mean", "sum"]
    ) -> None:
        self.flat, self._reduction = flat, reduction
        self._network = LossModule(learner, flat)

    def compute(
        self, theta: Tensor, batch: Batch, units: Units, scales: Tensor | None = None
    ) -> tuple[Gradients, Tensor]:
        """Compute gradients of the loss of each row's unit, as far as they come from the row.

        The order of dimensions tells which numbers belong to a row. Example rows show that a
        network lays them out so, before any other row (`probe`).

        Args:
            theta: (d,) weights.
            batch: batch of the rows.
            units: units of the rows.
            scales: (rows,) factors of the gradients; None for 1.

        Returns:
            Merged gradients; (units,) losses.

        Raises:
            UnknownUse: naming the weight, and its unknown use.
        """
        tape = Tape(len(units.owner), theta)
        named = self.flat.named(theta).items()
        weights = {name: WatchedWeight.watch(value, tape, name) for name, value in named}
        losses = self._network.with_weights(weights, batch)
        parts = units.coefficients(losses, self._reduction) * losses.nats
        if parts.requires_grad:
            scaled = parts if scales is None else parts * scales
            torch.autograd.backward(scaled.sum(), inputs=[tape.anchor])
        used = {name: each.merged() for name, each in tape.gradients.items() if each.tensors()}
        return used, units.sums(parts.detach())

    def alone(self, theta: Tensor, batch: Batch) -> dict[str, Tensor]:
        """Gradients of a batch of one row, by name of the weight: by autograd, without a tape."""
        self.flat.load(theta)
        losses: Losses = self._network(batch)
        one = Units(torch.zeros(1, dtype=torch.int64, device=theta.device), 1, theta.new_ones(1))
        value = (one.coefficients(losses, self._reduction) * losses.nats).sum()
        if not value.requires_grad:
            return self.flat.named(torch.zeros_like(theta))
        gradients = torch.autograd.grad(value, self.flat.weights, materialize_grads=True)
        return dict(zip(self.flat.names, gradients, strict=True))
