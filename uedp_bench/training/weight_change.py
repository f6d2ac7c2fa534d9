"""By how much training moved the weights of a module: what audits of updates look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor, nn

Weights = Mapping[str, "Tensor"]
"""Copies of a module's parameters, on the CPU."""


def weights_of(module: nn.Module) -> Weights:
    """A copy of the weights, which training in place does not change."""
    return {name: p.detach().cpu().clone() for name, p in module.named_parameters()}


def weight_change(trained: nn.Module, before: Weights) -> NDArray[np.float32] | None:
    """(d,) trained minus initial weights, in the order of the trainable parameters.

    Returns:
        None for a module of other parameters than the initial one, such as several modules in one.
    """
    after = {name: p for name, p in trained.named_parameters() if p.requires_grad}
    if not after or any(
        name not in before or p.shape != before[name].shape for name, p in after.items()
    ):
        return None
    parts = [
        (p.detach().cpu().double() - before[name].double()).reshape(-1) for name, p in after.items()
    ]
    return np.concatenate([part.numpy().astype(np.float32) for part in parts])
