"""Laplace noise on representations that were scaled to [0, 1], row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.randomness.noise_checks import check_laplace

if TYPE_CHECKING:
    from torch import Tensor

FINENESS = 20
"""Outputs are multiples of the smallest power of 2 above the scale of the noise, over 2^this."""


def normalised(z: Tensor) -> Tensor:
    """Every row (rows, d) mapped linearly to [0, 1]: least coordinate to 0, largest to 1.

    Rows whose coordinates are all the same become 0. The range holds whatever rounding does,
    because the proof needs it.
    """
    import torch

    low, high = z.amin(dim=1, keepdim=True), z.amax(dim=1, keepdim=True)
    span = high - low
    return ((z - low) / torch.where(span > 0, span, 1.0)).clamp(0.0, 1.0)


@dataclass
class LaplaceChannel:
    """A `RepresentationChannel`: word dropout, min-max normalisation, Laplace noise.

    Attributes:
        scale: b of the noise.
        word_dropout: probability that a word is dropped.
        shared: one number is added to all coordinates of a row, in place of one for each.
    """

    scale: float
    word_dropout: float = 0.0
    shared: bool = False

    @property
    def step(self) -> float:
        """What all released coordinates are multiples of: 2^-19 to 2^-20 of the scale."""
        return 2.0 ** (math.frexp(self.scale)[1] - FINENESS)

    def perturb(self, z: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """See `RepresentationChannel`.

        Value and noise are rounded to multiples of `step`, a power of 2, before they are added in
        integers. The sum of two floating-point numbers would have low bits that tell which values
        it can have come from (Mironov 2012); multiples of one step can come from all of them.

        Raises:
            PrivacyError: if what is sent does not have the noise of `scale`.
        """
        import torch

        values = normalised(z).double().cpu().numpy()
        drawn = 1 if self.shared else values.shape[1]
        noise = np.stack([rng.laplace(scale=self.scale, size=drawn) for rng in rngs])
        noisy = (np.rint(values / self.step) + np.rint(noise / self.step)) * self.step
        # One column is all noise there is where coordinates share it.
        check_laplace(values[:, :drawn], noisy[:, :drawn], self.scale, "noise on representations")
        return torch.from_numpy(noisy).to(z)

    def perturb_in_training(self, z: Tensor, rng: np.random.Generator) -> Tensor:
        """The same off the grid, differentiable in `z`, with the noise of all rows from `rng`.

        It is drawn on the CPU in float64, so that every device adds the same.
        """
        import torch

        rows, width = z.shape
        noise = rng.laplace(scale=self.scale, size=(rows, 1 if self.shared else width))
        return normalised(z) + torch.from_numpy(noise).to(z)
