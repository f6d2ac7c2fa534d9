"""How well sets of words are predicted: bits, average precision, precision and recall by row.

Predictors are functions from row numbers to logits (rows, words). Rows are taken in blocks, and
nothing loops over rows or words.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from uedp_bench.attacks.representations.perceptron import blocks
from uedp_bench.corpus import BoolArray, FloatArray, IntArray

Predictor = Callable[[IntArray], FloatArray]

_BINS = 200
"""Thresholds on a probability that are compared: multiples of 1 / 200."""


@dataclass(frozen=True, eq=False)
class WordScores:
    """Scores of a predictor for each row.

    Attributes:
        bits: (rows,) code length of the row's set of words, a coin for each word.
        average_precision: (rows,) of the words ranked by probability; 0 for a row without words.
        hits: (rows,) its words among the `top` most likely ones.
        chosen, right: (rows,) words that are predicted at the threshold, and those that are there.
        words: (rows,) size of the set.
    """

    bits: FloatArray
    average_precision: FloatArray
    hits: IntArray
    chosen: IntArray
    right: IntArray
    words: IntArray


def score_words(predict: Predictor, targets: Any, top: int, threshold: float) -> WordScores:
    """Scores all rows.

    Args:
        predict: logits of rows.
        targets: sparse (rows, words) of zeros and ones; words in an order that breaks ties.
        top: words that are guessed for `hits`.
        threshold: a word at least as likely as this is predicted.
    """
    parts = []
    for block in blocks(targets.shape[0]):
        present = targets[block].toarray() > 0
        logits = predict(np.arange(targets.shape[0])[block])
        said = _probability(logits) >= threshold
        order = np.argsort(-logits, axis=1, kind="stable")
        ranked = np.take_along_axis(present, order, axis=1)
        parts.append(
            (
                _bits(logits, present),
                _average_precision(ranked),
                ranked[:, :top].sum(axis=1),
                said.sum(axis=1),
                (said & present).sum(axis=1),
                present.sum(axis=1),
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return WordScores(*columns)


def best_threshold(predict: Predictor, targets: Any) -> float:
    """The probability from which on words are predicted for the best pooled F1 of these rows."""
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    every, right = np.zeros(_BINS), np.zeros(_BINS)
    for block in blocks(targets.shape[0]):
        present = targets[block].toarray() > 0
        likely = _probability(predict(np.arange(targets.shape[0])[block]))
        every += np.histogram(likely, edges)[0]
        right += np.histogram(likely[present], edges)[0]
    # At threshold edges[k], what lies in bin k and above is predicted.
    chosen, hits = (np.cumsum(counts[::-1])[::-1] for counts in (every, right))
    f1 = 2.0 * hits / np.maximum(chosen + right.sum(), 1.0)
    return float(edges[int(np.argmax(f1))])


def _probability(logits: FloatArray) -> FloatArray:
    from scipy.special import expit

    out: FloatArray = expit(logits)
    return out


def _bits(logits: FloatArray, present: BoolArray) -> FloatArray:
    nats = np.logaddexp(0.0, logits) - np.where(present, logits, 0.0)
    out: FloatArray = nats.sum(axis=1) / math.log(2.0)
    return out


def _average_precision(ranked: BoolArray) -> FloatArray:
    """Mean, over the words that are there, of the precision down to each; `ranked` by rank."""
    found = np.cumsum(ranked, axis=1)
    precision = found / np.arange(1, ranked.shape[1] + 1)
    out: FloatArray = (precision * ranked).sum(axis=1) / np.maximum(found[:, -1], 1)
    return out
