"""Bootstrap over units: counts of draws, and percentile intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uedp_bench.contracts.results import Estimate
from uedp_bench.errors import InputError

FloatArray = NDArray[np.float64]

CONFIDENCE = 0.95
RESAMPLES = 1000
CELLS = 2_000_000
"""Entries of one block of resamples (16 MB of doubles): bounds memory, not results."""


def checked(values: ArrayLike, name: str) -> FloatArray:
    """Return values as a one-dimensional array of at least one float, none of them NaN.

    Raises:
        InputError: if there are none, or one is NaN.
    """
    array = np.asarray(values, dtype=np.float64).reshape(-1)
    if not len(array):
        raise InputError(f"{name}: no values; at least one is needed")
    bad = np.flatnonzero(np.isnan(array))
    if len(bad):
        raise InputError(f"{name}: {len(bad)} of {len(array)} values are NaN, first at {bad[0]}")
    return array


def blocks(width: int) -> Sequence[int]:
    """Sizes of blocks that sum to `RESAMPLES`, each with at most about `CELLS` entries."""
    size = max(1, min(RESAMPLES, CELLS // max(width, 1)))
    full, rest = divmod(RESAMPLES, size)
    return [size] * full + ([rest] if rest else [])


def resample(units: int, times: int, rng: np.random.Generator) -> FloatArray:
    """(times, units) number of draws of each unit when `units` are drawn with replacement."""
    drawn = rng.integers(units, size=(times, units)) + units * np.arange(times)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=times * units)
    return counts.reshape(times, units).astype(np.float64)


def percentiles(value: float, draws: FloatArray) -> Estimate:
    """Value with the 95 % percentile interval of its resamples (draws,)."""
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = (float(x) for x in np.quantile(draws, [tail, 1.0 - tail]))
    return Estimate(value=value, low=low, high=high)
