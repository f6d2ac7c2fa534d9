"""Scores of predicted labels: classes of texts, and labels of tokens, with intervals.

Scores of tokens are averaged over the labels by their true frequency. The average includes "O", the
label of words outside of all spans, as scikit-learn's weighted average does: predicting "O"
everywhere scores high, so that this floor belongs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import CONFIDENCE, RESAMPLES
from uedp_bench.statistics.span_scores import score_estimates


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


# --------------------------------------------------------------------------------- labels of tokens


class WeightedTokenScore(NamedTuple):
    """Precision, recall (which is accuracy) and F1 of tokens, weighted by true labels."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


def token_counts(
    gold: Sequence[IntArray], predicted: Sequence[IntArray], labels: int
) -> FloatArray:
    """(rows, 3 x labels) tokens of each true label, of each predicted one, and hits, by row.

    Args:
        gold: (words,) numbers of labels of each row.
        predicted: as many predicted ones.
        labels: number of labels; numbers are below it.

    Raises:
        InputError: if a row is longer on one side, or a number is no label's.
    """
    if len(gold) != len(predicted):
        raise InputError(f"token scores: {len(gold)} gold rows, {len(predicted)} predicted ones")
    table = np.zeros((len(gold), 3, labels))
    for row, (true, guessed) in enumerate(zip(gold, predicted, strict=True)):
        one, other = np.asarray(true, dtype=np.int64), np.asarray(guessed, dtype=np.int64)
        if len(one) != len(other):
            raise InputError(
                f"token scores: row {row} has {len(one)} gold labels and {len(other)} predicted "
                "ones"
            )
        both = np.concatenate([one, other])
        if len(both) and not 0 <= both.min() <= both.max() < labels:
            raise InputError(f"token scores: row {row} has a label that is not below {labels}")
        for column, numbers in enumerate((one, other, one[one == other])):
            table[row, column] = np.bincount(numbers, minlength=labels)
    return table.reshape(len(gold), 3 * labels)


def weighted_token_score(
    counts: FloatArray, users: IntArray, rng: np.random.Generator
) -> WeightedTokenScore:
    """Precision, recall and F1 of each label, averaged by true tokens; intervals over users.

    Args:
        counts: (rows, 3 x labels) counts of `token_counts`.
        users: (rows,) rows with equal numbers are resampled together.
        rng: random generator for the resampling.

    Raises:
        InputError: if there are no tokens.
    """
    return WeightedTokenScore(*score_estimates(counts, _weighted, users, rng))


def _weighted(sums: FloatArray) -> FloatArray:
    """(resamples, 3) of sums (resamples, 3 x labels); NaN without tokens."""
    true, predicted, hits = np.moveaxis(sums.reshape(len(sums), 3, -1), 1, 0)
    total = true.sum(axis=1, keepdims=True)
    weight = np.divide(true, total, out=np.full_like(true, np.nan), where=total > 0)
    by_label = (
        np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
        for top, bottom in ((hits, predicted), (hits, true), (2 * hits, true + predicted))
    )
    return np.stack([(weight * score).sum(axis=1) for score in by_label], axis=1)
