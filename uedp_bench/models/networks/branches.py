"""Networks side by side on the same input."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Runs each network on the same input, and joins what they give along the second dimension.

    Args:
        branches: each maps an input (rows, ...) to (rows, own size).
    """

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(self.branches)

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, sum of the sizes)."""
        return torch.cat([branch(inputs) for branch in self.branches], dim=1)
