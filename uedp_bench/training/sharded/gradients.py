"""Clipped sums of units under sharded weights: one pass, and each rank has its part of the sum.

The factors of a unit's gradients are whole on the rank that computes the unit, so its norm and its
clipping factor are those of one process. The sums of all ranks are added weight by weight.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from uedp_bench.learner import Batch, Learner, on_device
from uedp_bench.training.ghost.gradients import UnknownUse
from uedp_bench.training.ghost.probe import (
    AGREES,
    LONGEST,
    MIXED,
    NO_EXAMPLES,
    NOTHING_TO_COMPARE,
    SHORTEST,
    disturbance,
)
from uedp_bench.training.ghost.row_gradients import Gradients, RowGradients, Units
from uedp_bench.training.ghost.single_pass import Clip, SinglePass
from uedp_bench.training.ghost.watched import Tape
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sharded.network import ShardedModule, Sums


class ShardedRowGradients(RowGradients):
    """Gradients by row, of weights that are gathered where they are used."""

    def __init__(
        self, learner: Learner, module: ShardedModule, reduction: Literal["mean", "sum"]
    ) -> None:
        super().__init__(learner, module, reduction)
        self._module = module

    def of(
        self, theta: Tensor, batch: Batch, units: Units, scales: Tensor | None = None
    ) -> tuple[Gradients, Tensor]:
        """See `RowGradients.of`."""
        with self._module.gathering_again():
            return super().of(theta, batch, units, scales)

    def compare(self, batch: Batch) -> None:
        """Compares gradients of example rows; see `ghost.probe.compare`.

        All ranks compute the same rows, so that each has its part of the same gradients.

        Raises:
            UnknownUse: naming the weight whose gradients differ, or its use that is not known.
        """
        vector = self._module.vector
        start = vector.clone()
        vector.add_(disturbance(len(vector), seed=self._module.lockstep.rank).to(vector))
        try:
            self._compare(batch)
        finally:
            vector.copy_(start)

    def _compare(self, batch: Batch) -> None:
        vector, number = self._module.vector, len(next(iter(batch.values())))
        lengths = [self._lengths(self._part_alone(batch, row)) for row in range(number)]
        wholes = [float(torch.linalg.vector_norm(of_row)) for of_row in lengths]
        usual = [row for row, norm in enumerate(wholes) if SHORTEST < norm < LONGEST]
        if len(usual) < 2:
            raise UnknownUse(NOTHING_TO_COMPARE)
        each = torch.arange(number, device=vector.device)
        ones = torch.ones_like(each, dtype=vector.dtype)
        scales = 2.0 ** each.to(vector.dtype)
        together, _ = self.of(vector, batch, Units(each, number, ones), scales)
        for row in usual:
            single = {name: value[row : row + 1] for name, value in batch.items()}
            unit = Units(each[:1], 1, ones[:1])
            by_itself, _ = self.of(vector, single, unit, scales[row : row + 1])
            alone = self._part_alone(batch, row)
            for gradients, at in ((together, row), (by_itself, 0)):
                wrong = self._lengths([
                    torch.sub(self._part(gradients, name, at, like), like, alpha=2**row)
                    for name, like in zip(self._module.names, alone, strict=True)
                ])  # fmt: skip
                allowed = AGREES * lengths[row] + 1e-6 * wholes[row]
                agree = (wrong <= allowed * 2**row).tolist()
                for name, same in zip(self._module.names, agree, strict=True):
                    if not same:
                        raise UnknownUse(f"{name} {MIXED}")

    def _part(self, gradients: Gradients, name: str, row: int, like: Tensor) -> Tensor:
        """This rank's part of the gradient of one weight by one row."""
        if (by_row := gradients.get(name)) is None:
            return torch.zeros_like(like)
        return self._module.mine(name, by_row.some(slice(row, row + 1)).each()[0])

    def _lengths(self, parts: list[Tensor]) -> Tensor:
        """(weights,) norms of gradients of which each rank has its parts."""
        squares = torch.stack([part.double().square().sum() for part in parts])
        return self._module.summed(Sums.COMPARED, squares).sqrt()

    def _watched(self, theta: Tensor, tape: Tape) -> dict[str, Tensor]:
        return self._module.watched(tape)

    def _part_alone(self, batch: Batch, row: int) -> list[Tensor]:
        """This rank's parts of the gradient of one row, by autograd alone."""
        one = {name: value[row : row + 1] for name, value in batch.items()}
        device = self._module.vector.device
        unit = Units(torch.zeros(1, dtype=torch.int64, device=device), 1,
                     self._module.vector.new_ones(1))  # fmt: skip
        weights, leaves = self._module.differentiable()
        with self._module.gathering_again():
            losses = self._network.with_weights(weights, one)
            value = (unit.coefficients(losses, self._reduction) * losses.nats).sum()
            if not value.requires_grad:
                return [torch.zeros_like(leaf) for leaf in leaves]
            return list(torch.autograd.grad(value, leaves, materialize_grads=True))


class ShardedPass(SinglePass):
    """Clipped sums of which each rank adds up its parts, share after share.

    Attributes:
        total: this rank's parts of the sum of all shares since `begin`, in float64.
    """

    def __init__(
        self, learner: Learner, local: LocalTraining, module: ShardedModule, device: str
    ) -> None:
        super().__init__(learner, local, module, device)
        self._module = module
        self.rows: ShardedRowGradients = ShardedRowGradients(learner, module, local.reduction)
        self.begin()

    def begin(self) -> None:
        """Starts a sum."""
        self.total = torch.zeros_like(self._module.vector, dtype=torch.float64)

    def refusal(self) -> str | None:
        """Why this network is not clipped in one pass; None if it is. All ranks ask together."""
        batch = self._learner.example_batch()
        if batch is None:
            return NO_EXAMPLES
        try:
            self.rows.compare(on_device(batch, self._device))
        except UnknownUse as unknown:
            return f"the network uses {unknown}"
        return None

    def _total(
        self, gradients: Gradients, clip: Clip, owner: Tensor, unit_weights: Tensor
    ) -> Tensor:
        """Adds the sums of all ranks to the parts of each; see `SinglePass._total`."""
        places, parts = self._module.split(self.total), self._module.parts
        terms = dict(self._terms(gradients, clip, owner, unit_weights))
        for name, shape in zip(self._module.names, self._module.shapes, strict=True):
            whole = parts[name].new_zeros(shape)
            if (add := terms.pop(name, None)) is not None:
                add(whole)
            del add
            places[name] += self._module.scattered_sum(name, whole)
        return self.total
