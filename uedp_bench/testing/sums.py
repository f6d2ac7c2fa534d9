"""Sums that training really adds up, unit by unit, before noise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from uedp_bench.training import unit_sums


@dataclass(frozen=True)
class Part:
    """Part of one unit in one sum.

    Attributes:
        row: first row of the unit.
        weight: weight of the unit.
        sent: (d,) update that it added.
        bound: largest l2 norm of its update; infinity where nothing is bounded.
    """

    row: int
    weight: float
    sent: Tensor
    bound: float


@dataclass
class Sums:
    """All sums of a training in their order: the part of each unit, and the sum."""

    parts: list[list[Part]] = field(default_factory=list)
    totals: list[Tensor] = field(default_factory=list)


@contextmanager
def watched() -> Iterator[Sums]:
    """Note every sum of the engine within the block, and compute each unit alone beside it."""
    sums, real = Sums(), unit_sums.ShareWorker.unit_sum

    def unit_sum(
        self: unit_sums.ShareWorker, work: unit_sums.RoundWork, share: unit_sums.Share
    ) -> unit_sums.UnitSum:
        unit_sum = real(self, work, share)
        if share.cohort.places is not None:
            return unit_sum  # units that draw for themselves add up their own rows, one sum each
        sums.totals.append(unit_sum.total.clone())
        parts: list[Part] = []
        for unit in range(len(share.weights)):
            one = unit_sums.Share(share.cohort.take(np.array([unit])), share.weights[[unit]])
            sent = real(self, work, one).total.clone()
            row, weight = int(share.cohort.rows[unit, 0]), float(share.weights[unit])
            parts.append(Part(row, weight, sent, work.limits.total))
        sums.parts.append(parts)
        return unit_sum

    with patch.object(unit_sums.ShareWorker, "unit_sum", unit_sum):
        yield sums


def norm(vector: Tensor) -> float:
    """l2 norm, in float64."""
    return float(torch.linalg.vector_norm(vector.double()))
