"""Small networks for protocols between two parties."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uedp_bench.mechanisms.secure_inference.engine.compile import ArgMax, Branches

LENGTH = 41


def branch(width: int) -> nn.Sequential:
    """As the paper's, with remainders in both pools."""
    return nn.Sequential(
        nn.Conv1d(1, 2, width), nn.ReLU(), nn.MaxPool1d(3),
        nn.Conv1d(2, 3, 2), nn.ReLU(), nn.MaxPool1d(4), nn.Flatten(),
    )  # fmt: skip


def small(classes: int = 3, seed: int = 0) -> nn.Sequential:
    """Two branches of unequal lengths, and two dense layers."""
    torch.manual_seed(seed)
    first, second = branch(4), nn.Sequential(nn.Conv1d(1, 1, 8), nn.MaxPool1d(5), nn.Flatten())
    return nn.Sequential(
        Branches([first, second]), nn.Dropout(0.25), nn.Linear(6 + 6, 5), nn.Linear(5, classes),
        nn.Sigmoid(), ArgMax(),
    ).eval()  # fmt: skip


def texts(rows: int, seed: int = 1) -> Tensor:
    """Inputs (rows, 1, LENGTH) between -4 and 4."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(rows, 1, LENGTH, generator=generator)).clamp(-4, 4)


def papers() -> nn.Sequential:
    """The network of Adams et al. 2021, figure 2: 7,078 weights on vectors of 768 numbers."""
    torch.manual_seed(0)
    branches = []
    for kernels in ((4, 2, 3), (8, 3, 4), (16, 4, 5)):
        parts: list[nn.Module] = []
        for inputs, outputs, kernel, pool in zip(
            (1, 2, 4), (2, 4, 6), kernels, (3, 4, 5), strict=True
        ):
            parts += [nn.Conv1d(inputs, outputs, kernel), nn.ReLU(), nn.MaxPool1d(pool)]
        branches.append(nn.Sequential(*parts, nn.Flatten()))
    return nn.Sequential(
        Branches(branches), nn.Dropout(0.25), nn.Linear(204, 32), nn.Linear(32, 2), nn.Sigmoid(),
        ArgMax(),
    ).eval()  # fmt: skip
