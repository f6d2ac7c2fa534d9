"""The loss of each row under a trained module, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.contracts.at_once import at_once
from uedp_bench.contracts.learner import on_device
from uedp_bench.errors import PluginError

if TYPE_CHECKING:
    from uedp_bench.contracts.learner import Batch, Learner
    from uedp_bench.corpus import FloatArray, IntArray

_NUMBERS_AT_ONCE = 2**23
"""Numbers in the largest tensor of one batch (32 MB), by `Learner.row_size`."""

_ROWS_AT_ONCE = 512

_ROUNDING = 1e-5
"""Nats below 0 that are rounding."""


def row_losses(learner: Learner, rows: int) -> FloatArray:
    """(rows,) mean nats of each row's predictions, under the module in evaluation mode.

    Args:
        learner: learner of these rows.
        rows: number of rows that it should have.

    Raises:
        PluginError: if the learner has other rows, or losses that are not one a row and at least 0.
    """
    if len(learner.corpus) != rows:
        raise PluginError(
            f"{type(learner).__name__} keeps {len(learner.corpus)} of {rows} rows, and one loss a "
            "row was asked for: say in `scorable` which rows have none"
        )
    import torch

    out = np.empty(rows)
    with torch.no_grad():
        for chosen, batch in batches_of(learner):
            out[chosen] = _losses(learner, chosen, batch)
    if (out < -_ROUNDING).any():
        raise PluginError(
            f"{type(learner).__name__}.losses gives {out.min():.3g} nats for a row: losses are at "
            "least 0, and 0 for a perfect prediction"
        )
    return np.maximum(out, 0.0)


def batches_of(learner: Learner) -> Iterator[tuple[IntArray, Batch]]:
    """Yield numbers of some rows and their batch on the device, until all rows are done.

    The module is put into evaluation mode.
    """
    device = str(next((weight.device for weight in learner.module.parameters()), "cpu"))
    numbers = at_once(_NUMBERS_AT_ONCE, device)
    size = max(1, min(_ROWS_AT_ONCE, numbers // max(learner.row_size, 1)))
    learner.module.eval()
    for start in range(0, len(learner.corpus), size):
        rows = np.arange(start, min(start + size, len(learner.corpus)))
        # No dropout in evaluation mode. Other draws of a learner (tokens that it hides) come from
        # the seed 0, so that every call gives the same losses.
        yield rows, on_device(learner.batch(rows, np.zeros_like(rows)), device)


def _losses(learner: Learner, chosen: IntArray, batch: Batch) -> FloatArray:
    """(rows,) mean nats of some rows."""
    losses = learner.losses(learner.module, batch)
    nats: FloatArray = (losses.nats.double() / losses.targets.double().clamp(min=1)).cpu().numpy()
    if nats.shape != chosen.shape:
        raise PluginError(
            f"{type(learner).__name__}.losses gives nats of shape {nats.shape} for "
            f"{len(chosen)} rows"
        )
    return nats
