"""Scores of one label a token, averaged over the labels by their true frequency.

The average includes "O", the label of words outside of all spans, as scikit-learn's weighted
average does: predicting "O" everywhere scores high, so that this floor belongs beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.statistics.span_scores import score_estimates


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
