"""Modules that a network is made of beside PyTorch's own."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Branches(nn.Module):
    """Container that runs its children on one input and joins their outputs along dimension 1.

    Two parties run the branches side by side, in the same rounds.
    """

    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, inputs: Tensor) -> Tensor:
        """(rows, ...) to (rows, the sum of the branches' first dimensions, ...)."""
        return torch.cat([branch(inputs) for branch in self.branches], 1)


class ArgMax(nn.Module):
    """The place of each row's largest logit, the first of equal ones."""

    def forward(self, logits: Tensor) -> Tensor:
        """(rows, classes) to (rows,)."""
        return logits.argmax(-1)
