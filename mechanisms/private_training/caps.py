"""Contribution caps that are applied once, before training (condition C6 of the analysis)."""

from __future__ import annotations

import numpy as np

from uedp_bench.corpus import Index


def capped_units(index: Index, cap: int | None, rng: np.random.Generator) -> Index:
    """Keeps at most `cap` rows of every unit, chosen uniformly, in their old order.

    The data set that a guarantee speaks of is the capped one. Every row has a key of its own, and
    a unit keeps the rows with its smallest keys: which rows a unit keeps is independent of the
    number and the content of the rows of all others.

    Args:
        index: unit -> its rows.
        cap: a public constant; None keeps all rows.
        rng: draws one key a row.
    """
    if cap is None:
        return index
    counts = index.counts
    unit = np.repeat(np.arange(len(index)), counts)
    order = np.lexsort((rng.random(len(unit)), unit))
    rank = np.arange(len(unit)) - np.repeat(index.offsets[:-1], counts)
    kept = np.sort(order[rank < cap])
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, cap))])
    return Index(offsets, index.rows[kept])
