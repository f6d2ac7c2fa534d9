"""One forward and backward pass over rows, and the gradients of all weights by row."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from uedp_bench.learner import Batch, Learner, Losses
from uedp_bench.training.clipping import exact_norms
from uedp_bench.training.ghost import (  # noqa: F401 - what is known
    convolutions,
    operations,
    recurrent,
)
from uedp_bench.training.ghost.gradients import UnknownUse, WeightGradients, joined_rows
from uedp_bench.training.ghost.watched import Tape, WatchedWeight
from uedp_bench.training.local import LossModule
from uedp_bench.training.vector import FlatModule

Gradients = dict[str, WeightGradients]
"""By name of the weight; those that the loss does not depend on are left out."""

COMPARED = 3
SHORTEST, LONGEST = 1e-18, 1e18
"""Numbers of longer gradients overflow when they are multiplied, and of shorter ones too few digits
are left: they are compared to nothing, so that no row alone makes a network look unknown."""
_LOOKED_AT = 64
"""Rows whose gradients are looked at before a device is waited for, where the first do not do."""
AGREES = 1e-3
"""Two float32 passes over a row differ by less, as a fraction of its gradient's norm."""


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
        self._network = LossModule(learner, flat)
        self.compared = False

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
        if not self.compared:
            self.compared = self._compare(theta, batch)
        if self.compared or len(units.owner) == 1:
            return self._recorded(theta, batch, units)
        return self._one_by_one(theta, batch, units)

    def _recorded(
        self, theta: Tensor, batch: Batch, units: Units, given: Tensor | None = None
    ) -> tuple[Gradients, Tensor]:
        """Gradients and losses from one pass, with coefficients (rows,) where they are given."""
        tape = Tape(len(units.owner), theta)
        losses = self._network.with_weights(self._watched(theta, tape), batch)
        times = units.coefficients(losses, self._reduction) if given is None else given
        parts = times * losses.nats
        if parts.requires_grad:
            torch.autograd.backward(parts.sum(), inputs=[tape.anchor])
        used = {name: found.gathered() for name, found in tape.gradients.items() if found.tensors()}
        return used, units.sums(parts.detach())

    def _watched(self, theta: Tensor, tape: Tape) -> dict[str, Tensor]:
        """Weights by name whose uses are written on a tape."""
        return {
            name: WatchedWeight.of(value, tape, name)
            for name, value in self._flat.named(theta).items()
        }

    def _one_by_one(self, theta: Tensor, batch: Batch, units: Units) -> tuple[Gradients, Tensor]:
        """The same with a pass for each row, which needs no order of dimensions to tell rows apart.

        It is for batches whose gradients are 0, tiny or not finite but for one, before any other.

        Raises:
            UnknownUse: if rows use other weights, or other numbers of tokens.
        """
        with torch.no_grad():
            losses = self._network.with_weights(self._flat.named(theta), batch)
        times = units.coefficients(losses, self._reduction)
        found = []
        for row in range(len(times)):
            one = Units(torch.zeros_like(units.owner[:1]), 1, units.weights[row : row + 1])
            alone = {name: value[row : row + 1] for name, value in batch.items()}
            found.append(self._recorded(theta, alone, one, times[row : row + 1])[0])
        return joined_rows(found), units.sums(times * losses.nats)

    def _compare(self, theta: Tensor, batch: Batch) -> bool:
        """Compares gradients of a few rows side by side with those of each row alone.

        Which numbers belong to which row is read from the order of dimensions. Where a network
        lays them out in another way, or uses a weight behind the back of torch's functions, the
        two differ: this is the net below the rules of `operations`. Rows weigh 1, 2 and 4, so that
        even equal ones are told apart.

        Returns:
            False where less than two rows have gradients of a usual size.
        """
        rows = self._telling(theta, batch)
        if not rows:
            return False
        few = _some(batch, rows, theta)
        each = torch.arange(len(rows), device=theta.device)
        alike = Units(each, len(rows), torch.ones_like(each, dtype=theta.dtype))
        found = self._weighted(theta, few, alike, 2.0 ** each.to(theta.dtype))
        names, agree = [], []
        for i, row in enumerate(rows):
            alone = self._alone(theta, _some(batch, [row], theta))
            length = _length(alone.values())
            for name, expected in alone.items():
                got = torch.zeros_like(expected)
                if (by_row := found.get(name)) is not None:
                    got = by_row.some(slice(i, i + 1)).each()[0]
                wrong = _length([torch.sub(got, expected, alpha=2**i)])
                names.append(name)
                agree.append(wrong <= AGREES * 2**i * _length([expected]) + 1e-6 * length)
        for name, same in zip(names, torch.stack(agree).tolist(), strict=True):
            if not same:
                raise UnknownUse(f"{name} in a way that gives rows side by side other gradients "
                                 "than each row alone")  # fmt: skip
        return len(rows) > 1

    def _weighted(self, theta: Tensor, batch: Batch, units: Units, weights: Tensor) -> Gradients:
        """Gradients of rows that are units, each times its weight (rows,)."""
        with torch.no_grad():
            losses = self._network.with_weights(self._flat.named(theta), batch)
        times = units.coefficients(losses, self._reduction) * weights
        return self._recorded(theta, batch, units, times)[0]

    def _telling(self, theta: Tensor, batch: Batch) -> list[int]:
        """Up to three rows whose gradients are of a usual size; none of these is kept."""
        rows = len(next(iter(batch.values())))
        order = list(dict.fromkeys([0, rows // 2, rows - 1, *range(rows)]))
        found: list[int] = []
        for start, end in pairwise([0, COMPARED, *range(_LOOKED_AT, rows, _LOOKED_AT), rows]):
            if not (some := order[start:end]):
                break
            alone = (self._alone(theta, _some(batch, [row], theta)) for row in some)
            lengths = torch.stack([_length(gradients.values()) for gradients in alone]).tolist()
            usual = (SHORTEST < length < LONGEST for length in lengths)
            found += [row for row, tells in zip(some, usual, strict=True) if tells]
            if len(found) >= COMPARED:
                break
        return found[:COMPARED]

    def _alone(self, theta: Tensor, batch: Batch) -> dict[str, Tensor]:
        """The gradients of one row, by autograd alone."""
        self._flat.load(theta)
        losses: Losses = self._network(batch)
        one = Units(torch.zeros(1, dtype=torch.int64, device=theta.device), 1, theta.new_ones(1))
        value = (one.coefficients(losses, self._reduction) * losses.nats).sum()
        weights = self._flat.weights
        if not value.requires_grad:
            return self._flat.named(torch.zeros_like(theta))
        found = torch.autograd.grad(value, weights, materialize_grads=True)
        return dict(zip(self._flat.names, found, strict=True))


def _some(batch: Batch, rows: list[int], like: Tensor) -> Batch:
    """Some rows of a batch on the device of a tensor."""
    chosen = torch.tensor(rows, dtype=torch.int64, device=like.device)
    return {name: value[chosen] for name, value in batch.items()}


def _length(parts: Iterable[Tensor]) -> Tensor:
    """() the norm of all parts together, in float64."""
    norms = torch.cat([exact_norms(part.reshape(1, -1)) for part in parts])
    length: Tensor = torch.linalg.vector_norm(norms)
    return length
