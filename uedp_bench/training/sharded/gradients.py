"""Clipped sums of units under sharded weights: one pass, and each rank has its part of the sum.

The factors of a unit's gradients are whole on the rank that computes the unit, so its norm and its
clipping factor are those of one process. The sums of all ranks are added weight by weight.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from uedp_bench.learner import Batch, Learner
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.ghost.gradients import UnknownUse
from uedp_bench.training.ghost.row_gradients import (
    AGREES,
    COMPARED,
    LONGEST,
    SHORTEST,
    Gradients,
    RowGradients,
    Units,
)
from uedp_bench.training.ghost.single_pass import Clip, SinglePass
from uedp_bench.training.ghost.watched import Tape
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sharded.network import ShardedModule, Sums


class NothingToCompareError(Exception):
    """Almost all rows have gradients that are 0, tiny or not finite."""


class ShardedRowGradients(RowGradients):
    """Gradients by row, of weights that are gathered where they are used."""

    def __init__(
        self, learner: Learner, module: ShardedModule, reduction: Literal["mean", "sum"]
    ) -> None:
        super().__init__(learner, module, reduction)
        self._module = module

    def of(self, theta: Tensor, batch: Batch, units: Units) -> tuple[Gradients, Tensor]:
        """See `RowGradients.of`; `compare` is asked before."""
        return self._recorded(theta, batch, units)

    def compare(self, batch: Batch) -> bool:
        """Compares rows side by side with each row alone; see `RowGradients._compare`.

        All ranks compute the same rows, so that each has its part of the same gradients.

        Returns:
            False where less than two rows have gradients of a usual size.

        Raises:
            UnknownUse: if the two differ.
        """
        rows = list[int]()
        for row in range(len(next(iter(batch.values())))):
            squares = [one.double().square().sum() for one in self._part_alone(batch, row)]
            length = self._sums(squares).sum().sqrt()
            if SHORTEST < float(length) < LONGEST:
                rows.append(row)
            if len(rows) == COMPARED:
                break
        if len(rows) < 2:
            return False
        chosen = torch.tensor(rows, device=self._module.vector.device)
        few = {name: value[chosen] for name, value in batch.items()}
        each = torch.arange(len(rows), device=chosen.device)
        units = Units(each, len(rows), torch.ones_like(each, dtype=self._module.vector.dtype))
        with torch.no_grad():
            losses = self._network.with_weights(self._module.lazy(), few)
        times = units.coefficients(losses, self._reduction) * 2.0 ** each.to(units.weights.dtype)
        found = self._recorded(self._module.vector, few, units, times)[0]
        for i, row in enumerate(rows):
            wrong, expected = list[Tensor](), list[Tensor]()
            for name, alone in zip(self._module.names, self._part_alone(batch, row), strict=True):
                got = torch.zeros_like(alone)
                if (by_row := found.get(name)) is not None:
                    got = self._module.mine(name, by_row.some(slice(i, i + 1)).each()[0])
                wrong.append(torch.sub(got, alone, alpha=2**i).double().square().sum())
                expected.append(alone.double().square().sum())
            sums = self._sums([*wrong, *expected]).sqrt()
            off, right = sums[: len(wrong)], sums[len(wrong) :]
            whole = torch.linalg.vector_norm(right)
            agree = off <= AGREES * 2**i * right + 1e-6 * whole
            for name, same in zip(self._module.names, agree.tolist(), strict=True):
                if not same:
                    raise UnknownUse(f"{name} in a way that gives rows side by side other "
                                     "gradients than each row alone")  # fmt: skip
        self.compared = True
        return True

    def _watched(self, theta: Tensor, tape: Tape) -> dict[str, Tensor]:
        return self._module.watched(tape)

    def _recorded(
        self, theta: Tensor, batch: Batch, units: Units, given: Tensor | None = None
    ) -> tuple[Gradients, Tensor]:
        with self._module.gathering_again():
            return super()._recorded(theta, batch, units, given)

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

    def _sums(self, values: list[Tensor]) -> Tensor:
        """Sums over ranks of one number each."""
        return self._module.summed(Sums.COMPARED, torch.stack(values))


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

    def compare(self, cohort: Cohort) -> bool:
        """Looks at rows of a cohort, which all ranks were given; see `ShardedRowGradients`."""
        return self.rows.compare(self._read(cohort)[1])

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
