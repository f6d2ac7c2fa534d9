"""The steps of local training: which rows each sees, and how weights move."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uedp_bench.corpus import IntArray
from uedp_bench.training.cohort import Cohort

if TYPE_CHECKING:
    from uedp_bench.training.local import LocalTraining


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
            self.weights += sgd_move(gradient, active, local)
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


def sgd_move(gradient: Tensor, active: Tensor, local: LocalTraining) -> Tensor:
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
