"""How many units compute side by side: speed and memory, never what comes out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uedp_bench.corpus import IntArray

CACHED_NUMBERS = 2**23
"""Numbers of the largest tensor of a chunk: 32 MB in float32, what a cache holds."""


def chunk_size(parameters: int, most: int, *, single_rows: bool = False) -> int:
    """Units at once: no more than `most`, nor than fit 2^25 weights (128 MB) side by side.

    Units of a single row compute so little each that more of them pay, as long as their gradients
    stay in the cache. They are never padded, so neither that nor dropout depends on how many.
    """
    if single_rows and most > 1:
        most = max(most, CACHED_NUMBERS // max(parameters, 1))
    return max(1, min(most, 2**25 // max(parameters, 1)))


def chunks(units: IntArray, sizes: IntArray, most: int) -> Iterator[IntArray]:
    """Units of similar size, side by side as long as their largest tensor stays in the cache.

    Args:
        units: (units,) in ascending order of `sizes`.
        sizes: (units,) numbers in the largest tensor that a unit needs alone.
        most: units in a chunk.
    """
    start = 0
    for end in range(1, len(units) + 1):
        full = end < len(units) and (end + 1 - start) * sizes[end] > CACHED_NUMBERS
        if end == len(units) or end - start == most or full:
            yield units[start:end]
            start = end


def by_rows(units: IntArray, sizes: IntArray) -> Iterator[IntArray]:
    """Units side by side as long as the largest tensor of their rows stays in the cache.

    Args:
        units: (units,).
        sizes: (units,) numbers in the largest tensor that a unit needs alone.
    """
    ends = np.cumsum(sizes)
    start = 0
    while start < len(units):
        before = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, before + CACHED_NUMBERS, side="right")), start + 1)
        yield units[start:end]
        start = end
