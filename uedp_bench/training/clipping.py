"""Bounding what one unit contributes, and hiding it in noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SAFETY = 1.0 - 1e-6
"""Rounding in float32 may leave a clipped vector longer than its bound; shrinking avoids it."""

_BLOCK = 2**16
"""Weights whose squares are added at once, in float64; all of them would need a copy of all."""


def exact_norms(updates: Tensor) -> Tensor:
    """(units,) l2 norms of (units, d) in float64.

    Sums of float32 squares lose digits as they grow: torch's norm of 10^6 weights may be 0.06 % too
    small on a CPU and that of 2 * 10^7 weights 0.5 %, and a clipped update as much too long.
    """
    parts = [
        torch.linalg.vector_norm(part, dim=1, dtype=torch.float64)
        for part in torch.split(updates, _BLOCK, dim=1)
    ]
    norms: Tensor = torch.linalg.vector_norm(torch.stack(parts, dim=1), dim=1)
    return norms


def clip_factors(updates: Tensor, bound: float) -> tuple[Tensor, Tensor]:
    """Factors that bring updates (units, d) to norm at most `bound`, and their norms.

    A unit whose update is not finite gets the factor 0: whatever its data, its contribution is
    bounded, and it cannot spoil the sum of the others. So does one that is so long that its factor
    would be a denormal number, which has too few digits to keep the bound.

    Returns:
        (units,) factors in [0, 1] and (units,) norms (infinite where not finite).
    """
    norms = exact_norms(updates)
    finite = torch.isfinite(norms)
    norms = torch.where(finite, norms, torch.full_like(norms, torch.inf))
    factors = SAFETY * torch.clamp(bound / norms.clamp(min=1e-30), max=1.0)
    numbers = torch.finfo(updates.dtype)
    exact = finite & (factors > numbers.tiny / numbers.eps)
    factors = torch.where(exact, factors, torch.zeros_like(factors))
    return factors.to(updates.dtype), norms


def clipped_sum(updates: Tensor, bound: float, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over units of weight times clipped update, and the norms before clipping.

    Args:
        updates: (units, d).
        bound: the l2 norm that no unit's update exceeds; infinity clips nothing.
        weights: (units,) in [0, 1].

    Returns:
        (d,) the sum: adding or removing one unit changes it by at most `bound` times its weight;
        (units,) norms.
    """
    factors, norms = clip_factors(updates, bound)
    finite = torch.isfinite(norms)
    if not bool(finite.all()):
        updates = torch.where(finite[:, None], updates, torch.zeros_like(updates))
    return (factors * weights) @ updates, norms


class GaussianNoise:
    """Adds Gaussian noise to sums, and remembers what it added.

    Noise is drawn, scaled and added in float64, on the CPU whatever the device: normal numbers of
    float32 end at 5.77 standard deviations, where one coordinate can tell who took part
    (`accounting.sampler_end`). The noisy sum is rounded to float32 after that, which is
    post-processing.

    Attributes:
        stds: standard deviation of the noise on each sum so far.
    """

    def __init__(self) -> None:
        self.stds: list[float] = []

    def add(self, total: Tensor, std: float, rng: np.random.Generator) -> Tensor:
        """(d,) sums `total` plus independent N(0, std^2), of its type and on its device."""
        noisy = rng.standard_normal(len(total))
        noisy *= std
        noisy += total.cpu().numpy()
        self.stds.append(std)
        return torch.from_numpy(noisy).to(total)
