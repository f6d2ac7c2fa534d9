"""Batches of one shape for each length, so that a vector does not depend on its neighbours.

Rounding in a matrix product depends on the shape of what is multiplied: rows that are padded to
the longest of their batch, or come in a smaller last batch, get other last bits. Vectors that are
kept on disk would then depend on what was asked for first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from uedp_bench.corpus import IntArray

_ROWS = {"cpu": 8, "cuda": 64}
"""Rows of a batch, by kind of device. On a CPU larger ones are no faster, and take more to fill."""
SHAPES = "full batches of one length"
"""Part of the key of kept vectors; another text where batches are made in another way."""


def full_batches(
    lengths: IntArray, device: str, *, alone: bool = True
) -> Iterator[tuple[IntArray, int]]:
    """Batches of rows that are equally long, each of the same number of rows.

    Args:
        lengths: (rows,) length of each row, in units that a network reads.
        device: torch device of the batches.
        alone: False if last bits may depend on neighbours: batches then have rows of different
            lengths, which are to be padded, and the last one has fewer.

    Yields:
        (batch,) rows, and the number of wanted ones: all after them fill the batch.
    """
    size = _ROWS.get(device.split(":")[0], _ROWS["cpu"])
    order = np.argsort(lengths, kind="stable")
    if not alone:
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield rows, len(rows)
        return
    ends = np.flatnonzero(np.diff(lengths[order])) + 1
    for alike in np.split(order, ends):
        for start in range(0, len(alike), size):
            rows = alike[start : start + size]
            yield np.resize(rows, size), len(rows)
