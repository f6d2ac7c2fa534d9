"""Arguments of a recurrent layer, of every kind, small and drawn."""

from __future__ import annotations

from itertools import product as all_of

import torch
from torch import Tensor

KINDS = list(all_of([True, False], [None, 3], [True, False]))


def draw(
    coupled: bool, projection: int | None, masked: bool, *, steps: int = 5, units: int = 0
) -> tuple[list[Tensor | None], bool]:
    """Inputs, two of a state, a mask, and the weights; each of `units` where there are some."""
    gates, cells, rows, size = (3 if coupled else 4), 4, 3, 2
    outputs = cells if projection is None else projection
    lead = (units,) if units else ()
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*lead, *shape, generator=generator, dtype=torch.float64)

    return [
        normal(rows, steps, size), normal(rows, outputs), normal(rows, cells),
        (normal(rows, outputs) > 0).double() * 2 if masked else None,
        normal(gates * cells, size), normal(gates * cells, outputs), normal(gates * cells),
        None if projection is None else normal(projection, cells),
    ], coupled  # fmt: skip
