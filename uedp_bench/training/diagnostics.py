"""Notes of a simulation about a federated training, beside the release."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch

from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.training.bounds import Limits
from uedp_bench.training.unit_sums import UnitSum

_SIMULATION_ONLY = [
    "signal_to_noise", "sum_norm", "clipped_fraction", "dropped_updates", "empty_rounds",
    "series.train_loss", "series.units", "cost.units_trained", "cost.rows_trained",
    "cost.rows_truncated", "sentences_dropped_by_cap",
]  # fmt: skip


class Diagnostics(AttributeState):
    """Collects them; they look at values before noise.

    Args:
        run: run that notes them.
        parameters: d.
    """

    changing: ClassVar[tuple[str, ...]] = (
        "_units", "_rows", "_clipped", "_dropped", "_empty", "_dropped_rows", "_signal", "_noise",
    )  # fmt: skip

    def __init__(self, run: Run, parameters: int) -> None:
        self._run, self._parameters = run, parameters
        self._units = self._rows = self._clipped = self._dropped = self._empty = 0
        self._dropped_rows = 0
        self._signal: list[float] = []
        self._noise: list[float] = []

    def round(self, step: int, unit_sum: UnitSum, limits: Limits, noise_std: float) -> float:
        """Note one round, with the standard deviation of its noise.

        Returns:
            The norm of the round's sum; the first of them where units have rounds of their own.
        """
        run = self._run
        inner = unit_sum.inner or ((float(torch.linalg.vector_norm(unit_sum.total)), noise_std),)
        self._signal.extend(norm for norm, _ in inner)
        self._noise.extend(std * math.sqrt(self._parameters) for _, std in inner)
        if unit_sum.losses:
            run.log("train_loss", step + 1, float(np.mean(unit_sum.losses)))
        run.log("units", step + 1, unit_sum.units)
        if limits.count is not None:  # what follows noisy counts is public
            run.log("clip_bound", step + 1, limits.total)
        if unit_sum.injected is not None:
            before = run.diagnostics.get("injected_updates", 0)
            run.note(injected_updates=before + unit_sum.injected)
        self._units += unit_sum.units
        self._rows += unit_sum.rows
        self._clipped += unit_sum.clipped
        self._dropped += unit_sum.dropped
        self._dropped_rows += unit_sum.dropped_rows
        self._empty += unit_sum.units == 0
        for way in unit_sum.clipping:
            run.computed("clipping", way)
        return inner[0][0]

    def close(self) -> None:
        """Note the whole training."""
        self._run.count({"units_trained": self._units, "rows_trained": self._rows})
        count_weights(self._run, "weights_trained", self._parameters)
        signal, noise = _mean(self._signal), _mean(self._noise)
        self._run.note(
            signal_to_noise=signal / noise if noise > 0 else "inf",
            sum_norm=signal,
            noise_norm=noise,
            clipped_fraction=self._clipped / max(self._units, 1),
            dropped_updates=self._dropped,
            empty_rounds=self._empty,
            simulation_only=_SIMULATION_ONLY,
        )
        if self._dropped_rows:
            self._run.note(dropped_rows=self._dropped_rows, simulation_only=["dropped_rows"])


def count_weights(run: Run, name: str, weights: int) -> None:
    """Count in the cost how many weights a training could change: the most of one name."""
    run.count({name: max(0.0, weights - run.counts.get(name, 0.0))})


def _mean(values: list[float]) -> float:
    """The mean; of equal values exactly the value."""
    if not values or min(values) == max(values):
        return values[0] if values else 0.0
    return float(np.mean(values))
