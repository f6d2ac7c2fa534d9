"""Number of units that compute side by side: speed and memory, never results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from uedp_bench.contracts.at_once import at_once
from uedp_bench.contracts.learner import RowLengths
from uedp_bench.corpus import IntArray
from uedp_bench.training.cohort import Cohort

CACHED_NUMBERS = 2**23
"""Numbers of the largest tensor of a chunk: 32 MB in float32, what a cache holds."""

_BLOCK = 2**16
"""Weights whose squares, noise or steps are computed at once on a CPU: their tables take the
memory of a block, and stay in the cache."""


def weights_at_once(device: torch.device) -> int:
    """Weights of a vector that one call computes on; elsewhere than on a CPU, calls cost more."""
    return _BLOCK if device.type == "cpu" else 2**8 * _BLOCK


def chunk_size(parameters: int, most: int, *, single_rows: bool = False) -> int:
    """Units at once: no more than `most`, nor than fit 2^25 weights (128 MB) side by side.

    Units of a single row compute so little each that more of them pay, as long as their gradients
    stay in the cache. They are never padded, so neither that nor dropout depends on how many.
    """
    if single_rows and most > 1:
        most = max(most, CACHED_NUMBERS // max(parameters, 1))
    return max(1, min(most, 2**25 // max(parameters, 1)))


def chunks(
    units: IntArray, sizes: IntArray, most: int, device: torch.device | str = "cpu"
) -> Iterator[IntArray]:
    """Units of similar size, side by side as long as their largest tensor stays in the cache.

    Args:
        units: (units,) in ascending order of `sizes`.
        sizes: (units,) numbers in the largest tensor that a unit needs alone.
        most: units in a chunk.
        device: device that computes them; a GPU takes more at once.
    """
    start, numbers = 0, at_once(CACHED_NUMBERS, device)
    for end in range(1, len(units) + 1):
        full = end < len(units) and (end + 1 - start) * sizes[end] > numbers
        if end == len(units) or end - start == most or full:
            yield units[start:end]
            start = end


def by_rows(
    units: IntArray, sizes: IntArray, device: torch.device | str = "cpu"
) -> Iterator[IntArray]:
    """Units side by side as long as the largest tensor of their rows stays in the cache.

    Args:
        units: (units,).
        sizes: (units,) numbers in the largest tensor that a unit needs alone.
        device: device that computes them; a GPU takes more at once.
    """
    ends, numbers = np.cumsum(sizes), at_once(CACHED_NUMBERS, device)
    start = 0
    while start < len(units):
        before = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, before + numbers, side="right")), start + 1)
        yield units[start:end]
        start = end


_POOL = 32
"""Batches whose rows are sorted by length together: what is left of a shuffle is between pools."""


def batches_of_like_length(
    order: IntArray, lengths: RowLengths, size: int, rng: np.random.Generator
) -> IntArray:
    """Shuffled rows, so that each batch of `size` has rows of similar length.

    Pools of 32 batches are sorted by length and cut into batches, and these are shuffled. The last
    batch stays the last: it may be smaller.

    Args:
        order: (rows,) numbers, shuffled.
        lengths: lengths by number of the row.
        size: rows of a batch.
        rng: draws the order of the batches.
    """
    batches: list[IntArray] = []
    for start in range(0, len(order), _POOL * size):
        pool = order[start : start + _POOL * size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[at : at + size] for at in range(0, len(pool), size)]
    last = batches.pop() if batches else order[:0]
    return np.concatenate([*(batches[at] for at in rng.permutation(len(batches))), last])


def row_numbers(cohort: Cohort, lengths: RowLengths, row_size: int) -> IntArray:
    """(units,) numbers in the largest tensor of each unit's longest row that counts.

    Args:
        cohort: units and their rows.
        lengths: lengths of all rows, by row number.
        row_size: numbers of the longest row.
    """
    longest = np.where(cohort.weights > 0, lengths[cohort.rows], 1).max(axis=1, initial=1)
    numbers: IntArray = -(-longest * row_size // max(int(lengths.max(initial=1)), 1))
    return numbers
