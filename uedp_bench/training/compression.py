"""How weights are made shorter on their way between parties, and what the receiver reads."""

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
    """What a message carries, as its receiver reads it, with what it takes on the wire.

    Attributes:
        values: an array (NumPy, torch), or one of texts.
        nbytes: on the wire.
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


def received(weights: Sequence[Tensor], how: Compression) -> tuple[list[Tensor], int]:
    """The weights that a receiver reads, and the bytes that they take on the wire.

    Args:
        weights: tensors of a network; not changed.
        how: they are compressed. A tensor with a number that is not finite stays as it is in
            8 bits: it has no scale.
    """
    if how == "none":
        return [weight.clone() for weight in weights], sum(weight.nbytes for weight in weights)
    if how == "fp16":
        halves = [weight.to(torch.float16) for weight in weights]
        return [h.to(w) for h, w in zip(halves, weights, strict=True)], sum(
            h.nbytes for h in halves
        )
    found, size = [], 0
    for weight in weights:
        scale = float(weight.abs().max()) / 127.0 if weight.numel() else 0.0
        if not np.isfinite(scale):
            found.append(weight.clone())
            size += weight.nbytes
            continue
        steps = torch.round(weight / scale) if scale else torch.zeros_like(weight)
        found.append(steps.clamp(-127, 127) * scale)
        size += weight.numel() + 4
    return found, size
