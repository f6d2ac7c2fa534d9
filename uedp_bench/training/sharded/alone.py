"""Updates of units under sharded weights, one unit after the other.

A unit that takes several steps has weights of its own, which are in parts as the shared ones are.
All ranks compute the same unit: each has some rows of each of its batches, and gradients are added
over ranks. So a rank holds its part of the shared weights and its part of those of one unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uedp_bench.corpus import IntArray
from uedp_bench.learner import Learner, on_device
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping import exact_norms, norm_factors
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.local import LocalTraining, LossModule
from uedp_bench.training.local_steps import Steps, schedule
from uedp_bench.training.sharded.network import ShardedModule, Sums
from uedp_bench.training.unit_sums import Marks, Share, UnitSum


class _Bounded(NamedTuple):
    """What brings an update within the limits.

    Attributes:
        factors: by name of the weight, 0 where the update is not finite.
        norm: (1,) of the whole update in float64, infinite where it is not finite.
        over: (1,) True where something was clipped.
    """

    factors: dict[str, float]
    norm: Tensor
    over: Tensor


class UnitByUnit:
    """Adds up clipped updates, each of which is there in parts and at a time of its own.

    Args:
        learner: what is trained.
        local: how a unit trains.
        module: this rank's parts of the shared weights; they are what they were after each unit.
        device: torch device.
    """

    def __init__(
        self, learner: Learner, local: LocalTraining, module: ShardedModule, device: str
    ) -> None:
        self._learner, self._local, self._module, self._device = learner, local, module, device
        self._network = LossModule(learner, module)
        self._steps = replace(local, gradient_clip=None)  # the norm of a part is none of a gradient

    def add_to(
        self, total: Tensor, shares: Iterable[Share], limits: Limits, reason: str
    ) -> UnitSum:
        """Adds the units of some shares to this rank's parts of their sum.

        A unit adds no more than its limits allow. What it adds depends on its own rows alone.

        Args:
            total: the parts, in float64.
            shares: the same on all ranks.
            limits: of each unit.
            reason: why units are computed one by one.

        Returns:
            What is said of the units; no sum.
        """
        marks, losses, places = Marks(limits), list[Tensor](), self._module.split(total)
        units = rows = 0
        for share in shares:
            for unit, weight in enumerate(share.weights):
                cohort = share.cohort.take(np.array([unit]))
                update, dropped = self._update(cohort, limits, losses)
                clip = self._bounded(update, limits)
                self._add(places, update, clip, float(weight))
                marks.add(clip.norm, clip.over, dropped)
                units, rows = units + 1, rows + int((cohort.weights > 0).sum())
        found = marks.read(torch.empty(0), torch.stack(losses) if losses else None)
        way = Counter({f"update by update, for {reason}": units}) if units else Counter[str]()
        return replace(found, units=units, rows=rows, clipping=way)

    def _update(
        self, cohort: Cohort, limits: Limits, losses: list[Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """What a unit sends, before it is clipped as a whole, and how many rows were dropped."""
        if limits.rows is None:
            return self._trained(cohort, losses), None
        sums = torch.zeros_like(self._module.vector)
        dropped = torch.zeros((), dtype=torch.int64, device=sums.device)
        for row in np.flatnonzero(cohort.weights[0] > 0):
            seeds = cohort.seeds_of_rows[:, :, [row]]
            update = self._trained(
                Cohort(cohort.rows[:, [row]], np.ones((1, 1)), None, seeds), losses
            )
            clip = self._bounded(update, Limits(limits.rows))
            dropped += (~torch.isfinite(clip.norm)).sum()
            self._add(self._module.split(sums), update, clip, 1.0)
        return sums, dropped

    def _trained(self, cohort: Cohort, losses: list[Tensor]) -> Tensor:
        """This rank's parts of the weights after local training minus the shared ones."""
        local, shared = self._local, self._module.vector
        start = shared.clone()
        steps = Steps(self._steps, shared[None])
        active = torch.ones(1, dtype=torch.bool, device=shared.device)
        try:
            for step, (rows, weights, seeds) in enumerate(schedule(cohort, local)):
                if not (here := weights[0] > 0).any():
                    continue
                gradient, loss = self._gradient(rows[0][here], weights[0][here], seeds[0][here])
                if step == 0:
                    losses.append(loss)
                if local.one_sgd_step(cohort.rows.shape[1]):
                    # Moving weights and subtracting them again would only cost digits.
                    return gradient.mul_(-local.learning_rate)
                steps.move(gradient[None], active)
            return shared - start
        finally:
            shared.copy_(start)

    def _gradient(
        self, rows: IntArray, row_weights: NDArray[np.float64], seeds: IntArray
    ) -> tuple[Tensor, Tensor]:
        """This rank's parts of the gradient of a batch, whose rows all ranks share; its loss."""
        module, lockstep = self._module, self._module.lockstep
        mine = slice(lockstep.rank, None, lockstep.ranks)
        own, of_own, times = rows[mine], seeds[mine], row_weights[mine]
        if not len(own):  # a row of the same unit, that counts as nothing, keeps ranks in step
            own, of_own, times = rows[:1], seeds[:1], np.zeros(1)
        batch = on_device(self._learner.batch(own, of_own), self._device)
        weights, leaves = module.differentiable(summed=True)
        with module.gathering_again():
            losses = self._network.with_weights(weights, batch)
            factors = torch.as_tensor(times, dtype=module.vector.dtype, device=self._device)
            targets = losses.targets.detach()
            if self._local.reduction == "mean":
                seen = torch.stack(
                    [(factors * losses.nats.detach()).sum(), (factors * targets).sum()]
                )
                nats, tokens = module.summed(Sums.LOSSES, seen.double())
                factors = factors / tokens.clamp(min=1e-9).to(factors)
                loss = nats / tokens.clamp(min=1e-9)
            else:
                factors = factors / targets.clamp(min=1)
                loss = module.summed(
                    Sums.LOSSES, (factors * losses.nats.detach()).sum().double()[None]
                )[0]
            value = (factors * losses.nats).sum()
            if not value.requires_grad:
                return torch.zeros_like(module.vector), loss
            found = torch.autograd.grad(value, leaves, materialize_grads=True)
        gradient = torch.cat(found)
        if (most := self._local.gradient_clip) is not None:
            norm = module.summed(Sums.GRADIENT, exact_norms(gradient[None]) ** 2).sqrt()
            gradient *= (most / (norm + 1e-6)).clamp(max=1.0).to(gradient)
        return gradient, loss

    def _bounded(self, update: Tensor, limits: Limits) -> _Bounded:
        """Norms are those of whole updates and layers: squares are added over ranks in float64."""
        module, parts = self._module, self._module.split(update)
        layers = module.by_layer() if limits.layers else (tuple(module.names),)
        bounds = limits.layers or (limits.total,)
        own = [torch.cat([exact_norms(parts[name][None]) for name in names]) for names in layers]
        squares = torch.stack([(norms**2).sum() for norms in own])
        norms = module.summed(Sums.NORMS, squares).sqrt()
        found = [
            norm_factors(norm[None], bound, update.dtype)
            for norm, bound in zip(norms, bounds, strict=True)
        ]
        by_layer = torch.cat([of_layer for _, of_layer in found])
        whole = torch.linalg.vector_norm(by_layer)
        here = bool(torch.isfinite(whole))
        factors = {
            name: float(factor) if here else 0.0
            for names, (factor, _) in zip(layers, found, strict=True)
            for name in names
        }
        over = (by_layer > by_layer.new_tensor(bounds)).any()
        return _Bounded(factors, whole[None], over[None])

    def _add(
        self, places: dict[str, Tensor], update: Tensor, clip: _Bounded, weight: float
    ) -> None:
        """Adds a clipped update; one that is not finite counts as nothing."""
        for name, part in self._module.split(update).items():
            if clip.factors[name]:
                places[name] += (part.double() * (clip.factors[name] * weight)).to(places[name])
