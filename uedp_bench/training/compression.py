"""Compression of weights between parties, and the weights that the receiver reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Compression = Literal["none", "fp16", "int8"]
"""none: as they are; fp16: half precision; int8: 8 bits, and a scale for each tensor."""


@dataclass(frozen=True, eq=False)
class AsRead:
    """Content of a message as its receiver reads it, with its size on the wire.

    Attributes:
        values: array (NumPy, torch), or array of texts.
        nbytes: bytes on the wire.
    """

    values: Any
    nbytes: int

    @property
    def shape(self) -> Sequence[int]:
        """Shape of the array."""
        shape: Sequence[int] = tuple(self.values.shape)
        return shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The array itself."""
        values = self.values.detach().cpu() if isinstance(self.values, Tensor) else self.values
        return np.asarray(values, dtype=dtype)


def received(weights: Sequence[Tensor], compression: Compression) -> tuple[list[Tensor], int]:
    """The weights that a receiver reads, and the bytes that they take on the wire.

    Args:
        weights: tensors of a network; not changed.
        compression: format on the wire. A tensor with a number that is not finite is not changed
            by 8 bits: it has no scale.
    """
    if compression == "none":
        return [weight.clone() for weight in weights], sum(weight.nbytes for weight in weights)
    if compression == "fp16":
        halves = [weight.to(torch.float16) for weight in weights]
        return [h.to(w) for h, w in zip(halves, weights, strict=True)], sum(
            h.nbytes for h in halves
        )
    weights_read, size = [], 0
    for weight in weights:
        scale = float(weight.abs().max()) / 127.0 if weight.numel() else 0.0
        if not np.isfinite(scale):
            weights_read.append(weight.clone())
            size += weight.nbytes
            continue
        steps = torch.round(weight / scale) if scale else torch.zeros_like(weight)
        weights_read.append(steps.clamp(-127, 127) * scale)
        size += weight.numel() + 4
    return weights_read, size
