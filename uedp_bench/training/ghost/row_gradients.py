"""One forward and backward pass over rows, and the gradients of all weights by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from uedp_bench.learner import Batch, Learner, Losses
from uedp_bench.training.ghost import operations, recurrent  # noqa: F401 - what is known
from uedp_bench.training.ghost.gradients import WeightGradients
from uedp_bench.training.ghost.watched import Tape, UnknownUse, WatchedWeight
from uedp_bench.training.local import LossModule
from uedp_bench.training.vector import FlatModule

Gradients = Mapping[str, WeightGradients]
"""By name of the weight; those that the loss does not depend on are left out."""

_COMPARED = 3
_AGREES = 1e-3
"""Of the norm of a row's gradient: two float32 passes that add in another order differ by less."""


class Units(NamedTuple):
    """Which rows make up which unit, and what they weigh in its loss.

    Attributes:
        owner: (rows,) number of the unit.
        number: of units.
        weights: (rows,).
    """

    owner: Tensor
    number: int
    weights: Tensor

    def coefficients(self, losses: Losses, reduction: Literal["mean", "sum"]) -> Tensor:
        """(rows,) so that a unit's loss is the sum of coefficient times nats over its rows."""
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
        reduction: of the losses of a unit's rows to its own.
    """

    def __init__(
        self, learner: Learner, flat: FlatModule, reduction: Literal["mean", "sum"]
    ) -> None:
        self._flat, self._reduction = flat, reduction
        self._network = LossModule(learner, flat.module)
        self._compared = False

    def of(self, theta: Tensor, batch: Batch, units: Units) -> tuple[Gradients, Tensor]:
        """Gradients of the loss of each row's unit, as far as they come from the row.

        Args:
            theta: (d,) weights.
            batch: of the rows.
            units: that they belong to.

        Returns:
            The gradients, gathered; (units,) losses.

        Raises:
            UnknownUse: naming the weight, and the use of it that is not known, or that is not the
                use that it seemed to be.
        """
        self._compared = self._compared or self._compare(theta, batch)
        if self._compared or len(units.owner) == 1:
            return self._recorded(theta, batch, units)
        return self._one_by_one(theta, batch, units)

    def _one_by_one(self, theta: Tensor, batch: Batch, units: Units) -> tuple[Gradients, Tensor]:
        """Each row in a pass of its own: of rows that tell too little, none meets another.

        Nothing else changes, or one unit that can be told from others would change what they add.
        """
        with torch.no_grad():
            shares = units.coefficients(
                self._losses(self._flat.named(theta), batch), self._reduction
            )
        parts: list[Gradients] = []
        losses = []
        for i in range(len(units.owner)):
            row = {name: value[i : i + 1] for name, value in batch.items()}
            found, loss = self._backward(theta, row, lambda _, i=i: shares[i : i + 1])  # type: ignore[misc]
            parts.append(found)
            losses.append(loss)
        names = dict.fromkeys(name for part in parts for name in part)
        if any(name not in part for name in names for part in parts):
            raise UnknownUse(f"{next(iter(names))}, or another weight, in some rows alone")
        joined = {name: WeightGradients.of_rows([part[name] for part in parts]) for name in names}
        return joined, units.sums(torch.cat(losses))

    def _recorded(self, theta: Tensor, batch: Batch, units: Units) -> tuple[Gradients, Tensor]:
        found, parts = self._backward(
            theta, batch, lambda losses: units.coefficients(losses, self._reduction)
        )
        return found, units.sums(parts)

    def _backward(
        self, theta: Tensor, batch: Batch, coefficients: Callable[[Losses], Tensor]
    ) -> tuple[Gradients, Tensor]:
        """One pass: gradients of coefficient times nats, summed over rows; (rows,) each of them."""
        tape = Tape(len(next(iter(batch.values()))), theta)
        weights = {
            name: WatchedWeight.of(value, tape, name)
            for name, value in self._flat.named(theta).items()
        }
        losses = self._losses(weights, batch)
        parts = coefficients(losses) * losses.nats
        if parts.requires_grad:
            torch.autograd.backward(parts.sum(), inputs=[tape.anchor])
        used = {name: found.gathered() for name, found in tape.gradients.items() if found.tensors()}
        return used, parts.detach()

    def _losses(self, weights: Mapping[str, Tensor], batch: Batch) -> Losses:
        named = {f"module.{name}": value for name, value in weights.items()}
        found: Losses = torch.func.functional_call(self._network, named, (batch,))
        return found

    def _compare(self, theta: Tensor, batch: Batch) -> bool:
        """Compares gradients of a few rows side by side with those of each row alone.

        Which numbers belong to which row is read from the order of dimensions. Where a network
        lays them out in another way, or uses a weight behind the back of torch's functions, the
        two differ: this is the net below the rules of `operations`.

        Returns:
            False where the rows tell too little: gradients that are equal or not finite.
        """
        rows = len(next(iter(batch.values())))
        some = sorted({0, rows // 2, rows - 1})[:_COMPARED]
        chosen = torch.tensor(some, device=theta.device)
        few = {name: value[chosen] for name, value in batch.items()}
        each = torch.arange(len(some), device=theta.device)
        found, _ = self._recorded(theta, few, Units(each, len(some), theta.new_ones(len(some))))
        seen: list[Tensor] = []
        for i in range(len(some)):
            alone = self._alone(theta, {name: value[i : i + 1] for name, value in few.items()})
            whole = torch.cat([part.reshape(-1) for part in alone.values()])
            length = float(torch.linalg.vector_norm(whole, dtype=torch.float64))
            if not 0.0 < length < float("inf"):
                continue
            seen.append(whole / length)
            for name, expected in alone.items():
                self._check(name, found.get(name), i, expected, length)
        return any(bool((a - b).abs().amax() > _AGREES) for a in seen for b in seen)

    @staticmethod
    def _check(
        name: str, found: WeightGradients | None, row: int, expected: Tensor, length: float
    ) -> None:
        got = torch.zeros_like(expected)
        if found is not None:
            got = found.some(slice(row, row + 1)).each()[0]
        wrong = torch.linalg.vector_norm(got - expected, dtype=torch.float64)
        own = torch.linalg.vector_norm(expected, dtype=torch.float64)
        if not float(wrong) <= _AGREES * float(own) + 1e-6 * length:
            raise UnknownUse(f"{name} in a way that gives rows side by side other gradients than "
                             "each row alone")  # fmt: skip

    def _alone(self, theta: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The gradients of one row, by autograd alone."""
        self._flat.load(theta)
        self._flat.grad.zero_()
        losses: Losses = self._network(batch)
        one = Units(torch.zeros(1, dtype=torch.int64, device=theta.device), 1, theta.new_ones(1))
        value = (one.coefficients(losses, self._reduction) * losses.nats).sum()
        if value.requires_grad:
            torch.autograd.backward(value)
        return self._flat.named(self._flat.grad.clone())
