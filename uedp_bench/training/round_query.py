"""What a round asks of the noise: the sum, and the count that a bound may want, as one vector."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from uedp_bench.training.bounds import Limits, Seen
from uedp_bench.training.unit_sums import UnitSum


class RoundQuery:
    """Scales the count so that one noise covers both (`docs/proofs.md`, section 11).

    A unit moves the sum by at most S = total * weight_bound, and the shifted count by at most 1/2:
    the vector (sum, scale * count) by at most sqrt(S^2 + scale^2 / 4). Noise of `multiplier` times
    that has the standard deviation `Count.noise` on the count for the scale used here. This is
    Theorem 1 of Andrew et al. 2021 (arXiv:1905.03871).

    Args:
        limits: of the round, checked.
        weight_bound: what no unit's weight exceeds.
        multiplier: of the noise.

    Attributes:
        sensitivity: l2 norm by which one unit moves the vector, at most; 1 where nothing is
            bounded.
    """

    def __init__(self, limits: Limits, weight_bound: float, multiplier: float) -> None:
        of_sum = limits.total * weight_bound if math.isfinite(limits.total) else 1.0
        self.sensitivity, self._scale = of_sum, 0.0
        if (count := limits.count) is not None:
            share = math.sqrt(count.noise**2 - multiplier**2 / 4.0)
            # Without noise any scale will do: nothing hides the count, and nothing is promised.
            self._scale = multiplier * of_sum / share or 1.0
            self.sensitivity = math.hypot(of_sum, self._scale / 2.0)

    def vector(self, found: UnitSum) -> Tensor:
        """(d,) the sum; (d + 1,) with the scaled count in float64 where one is asked for."""
        if not self._scale:
            return found.total
        total, count = found.total.double(), self._scale * (found.short - found.units / 2.0)
        return torch.cat([total, total.new_tensor([count])])

    def seen(self, noisy: Tensor, like: Tensor) -> Seen:
        """The noisy vector taken apart; the sum of the type of `like`."""
        if not self._scale:
            return Seen(noisy, None)
        return Seen(noisy[:-1].to(like), float(noisy[-1]) / self._scale)
