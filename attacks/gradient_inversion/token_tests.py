"""Finds the tokens and labels of which an update was made.

A token that a text does not have changes nothing in a table of inputs alone: its row is exactly 0,
however many steps of whatever optimiser were taken (its gradient is 0 in each, so momentum and
Adam's averages stay 0), and weight decay moves it along itself. In a table that is the output's
too, every row moves, but the tokens that a text has move against all others: the gradient of
row v is the sum over places t of (p_t(v) - [v comes next at t]) h_t, and what is added for tokens
that are read is theirs alone. So does a bias of the outputs, for the same reason. Tokens that the
network expects more often than they come are missed by both. Under noise what is left is a test on
the norm of each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.attacks.gradient_inversion.frozen_table import spanned
from uedp_bench.attacks.gradient_inversion.layers import Layers

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]

_EIGHT_BITS = 256
_EPS = float(np.finfo(np.float32).eps)


def tokens_in_update(
    change: Array, before: Array | None, layers: Layers, *, noisy: bool, false_tokens: float
) -> BoolArray | None:
    """(vocabulary,) True for tokens that the text seems to have; None where no row tells.

    Args:
        change: (d,) change of the weights.
        before: (d,) weights that it started from, if they are known.
        layers: layers of the network.
        noisy: noise was added to it.
        false_tokens: expected number of tokens that the test takes for the text's where noise is
            all there is.
    """
    table = layers.embedding
    if table is None:
        return _of_frozen_table(change, before, layers, noisy=noisy)
    rows = table.weight_in(change).astype(np.float64)
    if layers.tied and layers.bias is not None:
        rows = np.concatenate([rows, layers.bias.weight_in(change)[:, None]], axis=1)
    rate = min(false_tokens / len(rows), 1.0)
    if noisy and layers.tied:  # two tests share what may be wrong
        return beyond_noise(rows, rate / 2.0) | against_the_crowd(rows, rate / 2.0)
    if noisy:
        return beyond_noise(rows, rate)
    if layers.tied:
        away = against_the_crowd(rows)
        return away if layers.bias is None else away | (layers.bias.weight_in(change) > 0)
    start = None if before is None else table.weight_in(before).astype(np.float64)
    changed = moved(rows, start)
    return beyond_noise(rows, rate) if changed is None else changed


def _of_frozen_table(
    change: Array, before: Array | None, layers: Layers, *, noisy: bool
) -> BoolArray | None:
    """(vocabulary,) tokens that what the next layer learnt shows; None where nobody says which."""
    if layers.frozen is None or not layers.readers:
        return None
    if noisy or before is None:
        return np.zeros(len(layers.frozen), dtype=bool)
    return spanned(
        layers.frozen.astype(np.float64),
        [place.weight_in(change).astype(np.float64) for place in layers.readers],
        [place.weight_in(before) for place in layers.readers],
    )


def moved(rows: Array, before: Array | None) -> BoolArray | None:
    """(vocabulary,) rows of a change (vocabulary, size) that are not what weight decay makes them.

    Nor are they what rounding makes them: where weights travel in few bits, a row that did not move
    may come back as the next number that these bits have.

    None where all rows moved in ways of their own, as under noise.
    """
    norms = np.linalg.norm(rows, axis=1)
    changed: BoolArray = np.abs(rows).max(axis=1) > _rounding(rows, before)
    if (norms == 0.0).any() or changed.mean() < 0.5:
        return changed
    if before is None:
        return None
    small = norms <= np.median(norms)
    decay = (rows[small] * before[small]).sum() / (before[small] ** 2).sum()
    rest = np.linalg.norm(rows - decay * before, axis=1)
    # What a float32 difference of two weights rounds off.
    away_from_decay: BoolArray = rest > 4.0 * _EPS * np.linalg.norm(before, axis=1)
    return away_from_decay if away_from_decay.mean() < 0.5 else None


def _rounding(rows: Array, before: Array | None) -> float:
    """Distance by which rounding to eight bits moves a number; 0 where numbers are not rounded."""
    if before is None:
        return 0.0
    values = np.sort(before + rows, axis=None)
    gaps = np.diff(values)
    steps = gaps[gaps > 1e-5 * np.abs(values).max()]  # less is what float32 rounds off
    if len(steps) >= min(_EIGHT_BITS, values.size // 2):
        return 0.0
    return 0.5 * float(steps.min()) * (1.0 + 1e-3) if len(steps) else 0.0


def against_the_crowd(rows: Array, rate: float | None = None) -> BoolArray:
    """(vocabulary,) rows of (vocabulary, size) that point away from the sum of the small ones.

    Args:
        rows: the change.
        rate: under noise, of rows that point away from it by chance: how far they must is measured
            by how far rows lie beside its line. None where there is no noise.
    """
    from scipy.stats import chi2, norm

    norms = np.linalg.norm(rows, axis=1)
    crowd = rows[norms <= np.median(norms)].sum(axis=0)
    along = rows @ crowd / max(float(np.linalg.norm(crowd)), 1e-300)
    if rate is None:
        away: BoolArray = along < 0.0
        return away
    beside = np.median((rows**2).sum(axis=1) - along**2) / chi2.median(rows.shape[1] - 1)
    opposed: BoolArray = along < -norm.isf(rate) * np.sqrt(beside)
    return opposed


def beyond_noise(rows: Array, rate: float) -> BoolArray:
    """(vocabulary,) rows of (vocabulary, size) that are too long to be noise.

    Squared norms of independent normal numbers of deviation s are s^2 times chi-squared. s is taken
    from their median: most tokens are not in a text. Those that are make it larger, which makes the
    test careful.

    Args:
        rows: the change.
        rate: rate of rows that are taken for more than noise where noise is all there is.
    """
    from scipy.stats import chi2

    squares = (rows**2).sum(axis=1)
    scale = np.median(squares) / chi2.median(rows.shape[1])
    too_long: BoolArray = squares > scale * chi2.isf(rate, rows.shape[1])
    return too_long
