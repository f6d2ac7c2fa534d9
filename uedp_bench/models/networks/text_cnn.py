"""Convolutions over the coordinates of a vector, in branches side by side."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.errors import InputError
from uedp_bench.models.networks.lstm import keep_mask
from uedp_bench.secure.modules import Branches

_STREAM = 0
"""Number of the dropout mask: those of a classifier's head are larger."""


class CNNLayout(NamedTuple):
    """Sizes of the convolutions.

    Attributes:
        kernels: of each branch, one number for each of its convolutions.
        channels: outputs of the convolutions, the same for all branches.
        pools: sizes and strides of the max-pooling after each convolution.
    """

    kernels: tuple[tuple[int, ...], ...]
    channels: tuple[int, ...]
    pools: tuple[int, ...]

    def outputs(self, size: int) -> tuple[int, ...]:
        """Numbers that each branch makes of a vector of this size.

        Raises:
            InputError: if nothing is left behind a pooling.
        """
        return tuple(self._left(kernels, size) * self.channels[-1] for kernels in self.kernels)

    def _left(self, kernels: tuple[int, ...], size: int) -> int:
        left = size
        for kernel, pool in zip(kernels, self.pools, strict=True):
            left = (left - kernel + 1) // pool
            if left < 1:
                raise InputError(
                    f"text-cnn: nothing is left of a vector of {size} numbers behind kernels "
                    f"{list(kernels)} and pools {list(self.pools)}: make these smaller"
                )
        return left


class TextCNN(nn.Module):
    """Branches of convolutions, dropout of what they give, and one linear layer.

    A convolution is followed by max-pooling, then by ReLU: pooling what ReLU gave is the same, and
    takes more work. Nothing here is normalised, so that `layers` are all that comes after the
    vectors.

    Args:
        size: of the vectors.
        layout: of the convolutions.
        width: outputs of the linear layer.
        dropout: rate at which its inputs are dropped in training.
        seed: of the initial weights, by the laws of PyTorch's layers.

    Attributes:
        input_shape: (1, size), in which `layers` read a row.
    """

    normalised = True
    seeded = True

    def __init__(self, size: int, layout: CNNLayout, width: int, dropout: float, seed: int) -> None:
        super().__init__()
        joined = sum(layout.outputs(size))
        self.input_shape, self.width, self.dropout = (1, size), width, dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.branches = Branches(_branch(kernels, layout) for kernels in layout.kernels)
            self.linear = nn.Linear(joined, width)

    def forward(self, vectors: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width) of vectors (rows, size); dropout where seeds (rows,) are given."""
        joined: Tensor = self.branches(vectors[:, None, :])
        if seeds is not None and self.dropout > 0:
            columns = torch.arange(joined.shape[1], device=joined.device)[None]
            mask = keep_mask(seeds, _STREAM, columns, self.dropout)
            joined = joined * mask.to(joined.dtype)
        return self.linear(joined)  # type: ignore[no-any-return]

    def layers(self) -> nn.Sequential:
        """Everything that a row (1, size) goes through at inference, as plain layers."""
        return nn.Sequential(self.branches, self.linear)


def _branch(kernels: tuple[int, ...], layout: CNNLayout) -> nn.Sequential:
    parts: list[nn.Module] = []
    inputs = 1
    for kernel, outputs, pool in zip(kernels, layout.channels, layout.pools, strict=True):
        parts += [nn.Conv1d(inputs, outputs, kernel), nn.MaxPool1d(pool), nn.ReLU()]
        inputs = outputs
    return nn.Sequential(*parts, nn.Flatten())
