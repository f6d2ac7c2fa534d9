"""Convolutions over the coordinates of a vector or over words, in branches side by side."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.errors import InputError
from uedp_bench.models.networks.lstm import keep_mask
from uedp_bench.models.networks.modules import Branches

_STREAM = 0
"""Number of the dropout mask: those of a classifier's head are larger."""


class CNNLayout(NamedTuple):
    """Sizes of the convolutions.

    Attributes:
        kernels: kernel sizes of each branch, one number for each of its convolutions.
        channels: outputs of the convolutions, the same for all branches.
        pools: sizes and strides of the max-pooling after each convolution; None for one window of
            all positions (max over time).
    """

    kernels: tuple[tuple[int, ...], ...]
    channels: tuple[int, ...]
    pools: tuple[int | None, ...]

    def outputs(self, size: int) -> tuple[int, ...]:
        """Numbers that each branch makes of a sequence of this size.

        Raises:
            InputError: if nothing is left behind a pooling.
        """
        return tuple(
            self._windows(kernels, size)[-1][1] * self.channels[-1] for kernels in self.kernels
        )

    def branch(self, kernels: tuple[int, ...], shape: tuple[int, int]) -> nn.Sequential:
        """The layers of one branch, with fresh weights, for sequences (channels, positions)."""
        parts: list[nn.Module] = []
        inputs, size = shape
        windows = self._windows(kernels, size)
        for kernel, outputs, (window, _) in zip(kernels, self.channels, windows, strict=True):
            parts += [nn.Conv1d(inputs, outputs, kernel), nn.MaxPool1d(window), nn.ReLU()]
            inputs = outputs
        return nn.Sequential(*parts, nn.Flatten())

    def _windows(self, kernels: tuple[int, ...], size: int) -> list[tuple[int, int]]:
        """The window after each convolution, and how many positions it leaves."""
        windows, left = [], size
        for kernel, pool in zip(kernels, self.pools, strict=True):
            room = left - kernel + 1
            window = room if pool is None else pool
            left = room // window if room > 0 else 0
            if left < 1:
                raise InputError(
                    f"text-cnn: nothing is left of {size} numbers or words behind kernels "
                    f"{list(kernels)} and pools {list(self.pools)}: make these smaller"
                )
            windows.append((window, left))
        return windows


class TextCNN(nn.Module):
    """Branches of convolutions, dropout of their outputs, and one linear layer if needed.

    A convolution is followed by max-pooling, then by ReLU: pooling what ReLU gave is the same, and
    takes more work. Nothing here is normalised, so that `layers` are all that comes after the
    vectors.

    Args:
        shape: (channels, positions) of what the convolutions read: (1, size) of a vector whose
            coordinates they slide over, (size, words) of a text of word vectors.
        layout: layout of the convolutions.
        width: outputs of the linear layer; None for what the branches give.
        dropout: rate at which outputs of the branches are dropped in training.
        seed: seed of the initial weights, by the laws of PyTorch's layers.

    Attributes:
        input_shape: shape of inputs; `layers` read rows of this shape.
    """

    normalised = True
    seeded = True

    def __init__(
        self,
        shape: tuple[int, int],
        layout: CNNLayout,
        width: int | None,
        dropout: float,
        seed: int,
    ) -> None:
        super().__init__()
        joined = sum(layout.outputs(shape[1]))
        self.input_shape, self.width, self.dropout = shape, width or joined, dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.branches = Branches(layout.branch(kernels, shape) for kernels in layout.kernels)
            self.linear = nn.Identity() if width is None else nn.Linear(joined, width)

    def forward(self, vectors: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width) of vectors (rows, channels * positions).

        There is dropout where seeds (rows,) are given.
        """
        joined: Tensor = self.branches(vectors.reshape(-1, *self.input_shape))
        if seeds is not None and self.dropout > 0:
            columns = torch.arange(joined.shape[1], device=joined.device)[None]
            mask = keep_mask(seeds, _STREAM, columns, self.dropout)
            joined = joined * mask.to(joined.dtype)
        return self.linear(joined)  # type: ignore[no-any-return]

    def layers(self) -> nn.Sequential:
        """Everything that a row of `input_shape` goes through at inference, as plain layers."""
        return nn.Sequential(self.branches, self.linear)
