"""The words of a text as its label alone predicts them: what an inversion has to beat."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from uedp_bench.corpus import FloatArray, IntArray

_WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
"""Rows that all training text counts for in each label's frequencies."""


class LabelledWords(NamedTuple):
    """Sets of words with labels.

    Attributes:
        targets: sparse (rows, words) of zeros and ones.
        labels: (rows,) from 0.
    """

    targets: Any
    labels: IntArray


class LabelPrior(NamedTuple):
    """Log-odds of words.

    Attributes:
        overall: (words,) whatever the label.
        by_label: (labels, words) given the label.
        weight: by how many rows of all text each label's frequencies are smoothed.
    """

    overall: FloatArray
    by_label: FloatArray
    weight: float


def fit_prior(train: LabelledWords, test: LabelledWords, labels: int) -> LabelPrior:
    """Frequencies of words in training rows of each label, drawn towards those of all rows.

    How far is chosen in favour of the prior, by the test rows themselves: then it is not beaten by
    an attacker who learned nothing, whatever labels say about words.
    """
    overall = (np.asarray(train.targets.sum(axis=0)).ravel() + 0.5) / (len(train.labels) + 1.0)
    seen, rows = _counts(train, labels)
    held, held_rows = _counts(test, labels)

    def smoothed(weight: float) -> FloatArray:
        out: FloatArray = (seen + weight * overall) / (rows + weight)[:, None]
        return out

    def loss(weight: float) -> float:
        p = smoothed(weight)
        missing = held_rows[:, None] - held
        return float(-(held * np.log(p) + missing * np.log1p(-p)).sum())

    weight = min(_WEIGHTS, key=loss)
    return LabelPrior(_logits(overall), _logits(smoothed(weight)), weight)


def _counts(words: LabelledWords, labels: int) -> tuple[FloatArray, FloatArray]:
    """(labels, words) rows of a label that have a word, and (labels,) rows of it."""
    from scipy.sparse import csr_matrix

    rows = len(words.labels)
    of_label = csr_matrix((np.ones(rows), (words.labels, np.arange(rows))), shape=(labels, rows))
    counts = np.asarray((of_label @ words.targets).todense(), dtype=np.float64)
    return counts, np.bincount(words.labels, minlength=labels).astype(np.float64)


def _logits(p: FloatArray) -> FloatArray:
    out: FloatArray = np.log(p) - np.log1p(-p)
    return out
