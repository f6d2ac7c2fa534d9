"""Clipped sums of units from one forward and one backward pass over all of their rows.

Where a unit sends the gradient of its rows, no unit's gradient need be written out: norms come from
the factors of the gradients (`norms`), and the sum of all clipped gradients is one product with a
factor for each row (book-keeping: Bu, Wang, Zha, Karypis 2023, arXiv:2210.00038, Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from uedp_bench.contracts.learner import Batch, Learner, Losses, on_device
from uedp_bench.corpus import IntArray
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping import exact_norms, norm_factors
from uedp_bench.training.ghost import operations  # noqa: F401 - registers the known uses
from uedp_bench.training.ghost.gradients import Tape, WatchedWeight, WeightGradients, silent
from uedp_bench.training.ghost.norms import ONE_LEVEL, TWO_LEVELS, Group, part_norms, reach
from uedp_bench.training.local import LocalTraining, LossModule
from uedp_bench.training.sampling import Cohort
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


_LONG = 16.0
"""Terms longer than so many bounds are added up in float64: they may be rows that cancel."""


class Clipped(NamedTuple):
    """Clipped updates of units, added.

    Attributes:
        total: (d,) weighted sum.
        norms: (units,) bounds on the norms of their updates in float64, infinite where not finite.
        over: (units,) True where something was clipped.
        dropped_rows: () number of rows that were not finite, where rows are clipped one by one.
        losses: (units,) losses before the step; (rows,) where rows are clipped one by one.
    """

    total: Tensor
    norms: Tensor
    over: Tensor
    dropped_rows: Tensor
    losses: Tensor


@dataclass(frozen=True)
class _Layout:
    """Rows of a share, one unit after the other, units in ascending order of their rows.

    Attributes:
        order: (units,) their positions in the cohort.
        owner: (rows,) which of these units a row belongs to.
        rows, seeds: (rows,) of the learner.
        weights: (rows,) above 0.
        groups: units of as many rows each.
    """

    order: IntArray
    owner: IntArray
    rows: IntArray
    seeds: IntArray
    weights: Tensor
    groups: tuple[Group, ...]

    @staticmethod
    def from_cohort(cohort: Cohort, like: Tensor) -> _Layout:
        """Lay out the units of a cohort that have a row at all."""
        has_row = cohort.weights > 0
        sizes = has_row.sum(axis=1)
        order: IntArray = np.argsort(sizes, kind="stable")
        owner, column = np.nonzero(has_row[order])
        at = order[owner]
        groups, start = [], 0
        for rows, units in zip(*np.unique(sizes, return_counts=True), strict=True):
            groups.append(Group(start, int(units), int(rows)))
            start += int(rows * units)
        weights = torch.as_tensor(cohort.weights[at, column], dtype=like.dtype, device=like.device)
        seeds = cohort.seeds_of_rows[0, at, column]
        return _Layout(order, owner, cohort.rows[at, column], seeds, weights, tuple(groups))


class SinglePass:
    """Computes clipped sums of units that send the gradient of their rows.

    Args:
        learner: learner that is trained.
        local: one step of sgd on all rows of a unit.
        flat: the network, in training mode.
        device: torch device.
    """

    def __init__(
        self, learner: Learner, local: LocalTraining, flat: FlatModule, device: str
    ) -> None:
        self._learner, self._local, self._flat, self._device = learner, local, flat, device
        self.rows = RowGradients(learner, flat, local.reduction)

    def clipped(
        self, theta: Tensor, cohort: Cohort, limits: Limits, unit_weights: Tensor
    ) -> Clipped:
        """The sum of what units send, each held to the limits.

        A unit's part depends on its own rows, weights and seeds alone, but for rounding.

        Args:
            theta: (d,) shared weights.
            cohort: units, each with a row to use.
            limits: limits of the round.
            unit_weights: (units,).

        Raises:
            UnknownUse: if the network uses a weight in a way that is not known.
        """
        layout, batch = self._read(cohort)
        owner = torch.as_tensor(layout.owner, device=theta.device)
        units = Units(owner, len(layout.order), layout.weights)
        dropped_rows = torch.zeros((), dtype=torch.int64, device=theta.device)
        if limits.rows is None:
            gradients, losses = self.rows.compute(theta, batch, units)
            clip = self._clip(gradients, layout.groups, limits, self._moves)
        else:
            rows = Units(torch.arange(len(owner), device=theta.device), len(owner), units.weights)
            gradients, losses = self.rows.compute(theta, batch, rows)
            single = (Group(0, len(owner), 1),)
            first = replace(limits, total=limits.rows)
            of_rows = self._clip(gradients, single, first, self._moves)
            gradients = of_rows.applied(gradients)
            dropped_rows = (~torch.isfinite(of_rows.norms)).sum()
            clip = self._clip(gradients, layout.groups, limits, torch.ones_like)
        order = torch.as_tensor(layout.order, device=theta.device)
        total = self._total(gradients, clip, owner, unit_weights[order])
        back = torch.argsort(order)
        return Clipped(total, clip.norms[back], clip.over[back], dropped_rows, losses)

    def _read(self, cohort: Cohort) -> tuple[_Layout, Batch]:
        layout = _Layout.from_cohort(cohort, self._flat.vector)
        return layout, on_device(self._learner.batch(layout.rows, layout.seeds), self._device)

    def _moves(self, norms: Tensor) -> Tensor:
        """(units,) what gradients of these norms are multiplied by to become updates."""
        rate = torch.full_like(norms, self._local.learning_rate)
        if (most := self._local.gradient_clip) is not None:
            rate = rate * torch.clamp(most / (norms + 1e-6), max=1.0)
        return rate

    def _clip(
        self,
        gradients: Gradients,
        groups: Sequence[Group],
        limits: Limits,
        moves: Callable[[Tensor], Tensor],
    ) -> Clip:
        """Compute the factors that bring the updates of units within the limits.

        Args:
            gradients: gradients by row.
            groups: units of these rows, in order.
            limits: limits of a unit's update; where they limit rows too, this is one of two levels.
            moves: (units,) factors from gradients to updates, by the norms of the gradients.
        """
        parts = self._flat.by_layer() if limits.layers else (tuple(self._flat.names),)
        bounds = limits.layers or (limits.total,)
        margin = ONE_LEVEL if limits.rows is None else TWO_LEVELS
        norms, kept, finite = part_norms(gradients, groups, parts, margin)
        rate = moves(torch.linalg.vector_norm(norms, dim=1))
        factors_and_norms = [
            norm_factors(rate * norms[:, k], bound, self._flat.vector.dtype)
            for k, bound in enumerate(bounds)
        ]
        by_part = torch.stack([of_part for _, of_part in factors_and_norms], dim=1)
        whole = torch.linalg.vector_norm(by_part, dim=1)
        most = by_part.new_tensor(bounds)
        finite_units = torch.isfinite(whole)
        factors = [
            torch.where(finite_units, rate * of_part, 0.0) for of_part, _ in factors_and_norms
        ]
        places = {
            name: factor for names, factor in zip(parts, factors, strict=True) for name in names
        }
        over = (by_part > most).any(dim=1)
        bad = None if finite else ~finite_units
        if bad is not None:
            kept = {name: silent(each, bad) for name, each in kept.items()}
        return Clip(places, whole, over, bad, kept, float(np.linalg.norm(bounds)))

    def _total(
        self, gradients: Gradients, clip: Clip, owner: Tensor, unit_weights: Tensor
    ) -> Tensor:
        """(d,) negative sum of clipped gradients, each times its unit's weight.

        Gradients are freed one weight after the other.
        """
        total = torch.zeros_like(self._flat.vector)
        places = self._flat.named(total)
        if clip.bad is not None:
            gradients = {k: gradient.without(clip.bad[owner]) for k, gradient in gradients.items()}
        units = len(unit_weights)
        long = _long(gradients, clip, owner, unit_weights)
        for name in self._flat.names:
            if (gradient := gradients.pop(name, None)) is None:
                continue
            of_row = owner
            if name in clip.kept:
                gradient = WeightGradients(gradient.shape, whole=clip.kept.pop(name))
                of_row = torch.arange(units, device=owner.device)
            factors = -(clip.factors[name] * unit_weights)[of_row]
            factors = factors.to(self._flat.vector.dtype)
            gradient.add_to(places[name], factors, exact=name in long)
        return total


class Clip(NamedTuple):
    """Change of gradients by a step of clipping.

    Attributes:
        factors: (units,) factors by name of the weight, in float64; 0 where a unit is not finite.
        norms: (units,) norms of whole updates, infinite where not finite.
        over: (units,) True where something was clipped.
        bad: (units,) True where a unit is not finite; None where all are.
        kept: gradients of units, see `norms.Norms`; 0 for those that are not finite.
        most: bound on the norm of an update.
    """

    factors: dict[str, Tensor]
    norms: Tensor
    over: Tensor
    bad: Tensor | None
    kept: dict[str, Tensor]
    most: float

    def applied(self, gradients: Gradients) -> Gradients:
        """Gradients by row, where units are rows, times the factors of the rows."""
        by_name = {
            name: WeightGradients(gradient.shape, whole=self.kept[name], reached=reach(gradient))
            if name in self.kept
            else gradient
            for name, gradient in gradients.items()
        }
        if self.bad is not None:
            by_name = {name: gradient.without(self.bad) for name, gradient in by_name.items()}
        return {
            name: gradient.scaled(self.factors[name].to(gradient.tensors()[0].dtype))
            for name, gradient in by_name.items()
        }


def _long(gradients: Gradients, clip: Clip, owner: Tensor, unit_weights: Tensor) -> frozenset[str]:
    """Weights of which some terms are so long that they are added up in float64.

    Where a unit is one row, or its gradient was written out, terms are no longer than the bound.
    """
    longest = dict[str, Tensor]()
    for name, gradient in gradients.items():
        if gradient.whole is not None and len(owner) > len(unit_weights) and name not in clip.kept:
            factors = (clip.factors[name] * unit_weights)[owner].to(gradient.whole.dtype)
            longest[name] = exact_norms(gradient.whole.flatten(1)).mul_(factors.abs()).max()
    if not longest:
        return frozenset()
    over = torch.stack(list(longest.values())) > _LONG * clip.most
    return frozenset(name for name, long in zip(longest, over.tolist(), strict=True) if long)
