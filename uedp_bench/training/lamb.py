"""LAMB: steps of Adam whose length follows that of the weights, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from uedp_bench.training.clipping import exact_norms
from uedp_bench.training.server import Scheduled, blocks


@dataclass
class LambServer(Scheduled):
    """LAMB on the estimates, for large batches (You et al. 2020, arXiv:1904.00962, Algorithm 2).

    With r Adam's move of a layer (bias-corrected), x its weights and w the decay, the layer moves
    by rate * |x| / |r - w x| * (r - w x). The ratio is 1 where either norm is 0, as in the authors'
    code. A layer is a module that owns weights, its biases among them, as for per-layer clipping.

    Attributes:
        tau: added to the root of the second moment.
        weight_decay: w above.
    """

    changing: ClassVar[tuple[str, ...]] = ("_first", "_second", "_count")
    tau: float = field(default=1e-6, kw_only=True)
    weight_decay: float = field(default=0.01, kw_only=True)
    _sizes: tuple[int, ...] = field(default=(), init=False, repr=False)
    _first: Tensor | None = field(default=None, init=False, repr=False)
    _second: Tensor | None = field(default=None, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def lay_out(self, sizes: Sequence[int]) -> None:
        """See `LayeredStep.lay_out`."""
        self._sizes = tuple(sizes)

    def step(self, theta: Tensor, estimate: Tensor, step: int, rounds: int) -> Tensor:
        """See `ServerStep.step`.

        Raises:
            RuntimeError: if it was not told of the layers.
        """
        if sum(self._sizes) != len(theta):
            raise RuntimeError("LAMB steps by layers: call lay_out with their sizes first")
        moved, rate = self._directions(theta, estimate), self.rate(step, rounds)
        layers = (torch.split(vector, list(self._sizes)) for vector in (theta, moved))
        pairs = list(zip(*layers, strict=True))
        lengths = torch.stack([torch.cat([exact_norms(v[None]) for v in pair]) for pair in pairs])
        for (weights, along), (of_now, of_along) in zip(pairs, lengths, strict=True):
            ratio = torch.where((of_now > 0) & (of_along > 0), of_now / of_along, 1.0)
            along.mul_((rate * ratio).to(along)).add_(weights)
        return moved

    def _directions(self, theta: Tensor, estimate: Tensor) -> Tensor:
        """(d,) r - w x."""
        if self._first is None or self._second is None:
            self._first, self._second = torch.zeros_like(theta), torch.zeros_like(theta)
        self._count += 1
        directions = torch.empty_like(theta)
        of_mean, of_variance = 1 - 0.9**self._count, 1 - 0.999**self._count
        moments = self._first, self._second
        for first, second, weights, along, out in blocks(*moments, theta, estimate, directions):
            first.mul_(0.9).add_(0.1 * along)
            second.mul_(0.999).add_(0.001 * along**2)
            root = (second / of_variance).sqrt_().add_(self.tau)
            torch.div(first / of_mean, root, out=out)
            out.sub_(weights, alpha=self.weight_decay)
        return directions
