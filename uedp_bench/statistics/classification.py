"""Scores of predicted classes: confusion counts and F1, with intervals."""

from __future__ import annotations

import numpy as np

from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.statistics.resampling import CONFIDENCE, RESAMPLES


def confusion(truth: IntArray, predicted: IntArray, classes: int) -> FloatArray:
    """(classes, classes) counts: row the true class, column the predicted one."""
    cells = np.bincount(truth * classes + predicted, minlength=classes**2)
    counts: FloatArray = cells.reshape(classes, classes).astype(np.float64)
    return counts


def f1_by_class(counts: FloatArray) -> FloatArray:
    """(..., classes) F1 of confusion counts (..., classes, classes); 0 where there is no hit."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1)
    both = counts.sum(axis=-1) + counts.sum(axis=-2)
    f1: FloatArray = np.divide(2.0 * hits, both, out=np.zeros_like(hits), where=both > 0)
    return f1


def macro_f1(counts: FloatArray) -> FloatArray:
    """Mean F1 of the classes that are true or predicted anywhere, as in scikit-learn."""
    present = (counts.sum(axis=-1) + counts.sum(axis=-2)) > 0
    return np.asarray((f1_by_class(counts) * present).sum(axis=-1) / present.sum(axis=-1))


def macro_f1_estimate(
    truth: IntArray, predicted: IntArray, classes: int, rng: np.random.Generator, users: IntArray
) -> Estimate:
    """Macro-F1 with its percentile bootstrap interval over users.

    Args:
        truth: (rows,) true classes.
        predicted: (rows,) predicted classes.
        classes: number of classes.
        rng: random generator for the resampling.
        users: (rows,) rows with equal numbers are resampled together; a single one has no interval.

    Raises:
        InputError: if there are no rows.
    """
    if not len(truth):
        raise InputError("macro-F1: no rows; at least one is needed")
    value = float(macro_f1(confusion(truth, predicted, classes)))
    names, owner = np.unique(users, return_inverse=True)
    if len(names) == 1:
        return Estimate(value=value)
    # Cells that occur, not all pairs of classes: there are few, however many classes there are.
    cells, cell = np.unique(truth * classes + predicted, return_inverse=True)
    samples = np.empty(RESAMPLES)
    for draw in range(RESAMPLES):
        weight = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        counts = np.zeros(classes**2)
        counts[cells] = np.bincount(cell, weights=weight[owner], minlength=len(cells))
        samples[draw] = macro_f1(counts.reshape(classes, classes))
    low, high = np.quantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value=value, low=float(low), high=float(high))
