"""N-grams as a floor: what a model without a network reaches on the same tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from uedp_bench.api import BoolArray, FloatArray, InputError, IntArray, Metric
from uedp_bench.tasks.tokens.rows import TextRows

UNKNOWN_WORDS = Metric.rate(
    "oov_rate", "unknown words", "share of targets outside the vocabulary: predicting that a word "
    "is unknown is easy, and flatters perplexity", main=True,
)  # fmt: skip
"""Metric of every language model with a vocabulary of words."""

COUNTED = (
    Metric("unigram_perplexity", "unigram floor", "of word counts, without privacy", low=1.0),
    Metric(
        "bigram_perplexity",
        "bigram floor",
        "of counts of pairs, without privacy",
        low=1.0,
        baseline="bigrams",
    ),
    Metric.rate("constant_accuracy", "constant guess", "accuracy of the most frequent known word"),
)
"""Floors that are counted on the training text."""

MOST_TABLE = 2**23
"""Sequences that are counted in a table of all that are possible (64 MB)."""


@dataclass(frozen=True, eq=False)
class _Counts:
    """Counts of token sequences of a fixed length: sorted codes and their counts."""

    codes: IntArray
    counts: IntArray

    def summed(self) -> _Counts:
        """Each code once."""
        codes, place = np.unique(self.codes, return_inverse=True)
        counts = np.zeros(len(codes), dtype=np.int64)
        np.add.at(counts, place, self.counts)
        return _Counts(codes, counts)

    def histories(self, size: int) -> _Counts:
        """Counts of the sequences without their last token."""
        return _Counts(self.codes // size, self.counts).summed()

    def look_up(self, codes: IntArray) -> FloatArray:
        if not len(self.codes):
            return np.zeros(len(codes))
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.counts[at], 0).astype(np.float64)


class _Adding:
    """Counts codes below `most`, part by part: in a table while that is small, else sorted."""

    def __init__(self, most: int) -> None:
        self._table = np.zeros(most, dtype=np.int64) if most <= MOST_TABLE else None
        self._sparse = _Counts(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def add(self, codes: IntArray) -> None:
        if self._table is not None:
            self._table += np.bincount(codes, minlength=len(self._table))
            return
        added, before = _Counts(*np.unique(codes, return_counts=True)), self._sparse
        both = np.concatenate([before.codes, added.codes])
        self._sparse = _Counts(both, np.concatenate([before.counts, added.counts])).summed()

    def counts(self) -> _Counts:
        if self._table is None:
            return self._sparse
        seen = np.flatnonzero(self._table)
        return _Counts(seen, self._table[seen])


class NGramModel:
    """Add-one unigrams, and longer sequences interpolated with shorter ones (Jelinek-Mercer).

    p_1(w) = (c(w) + 1) / (N + V);  p_n(w | h) = a_n c(hw) / c(h) + (1 - a_n) p_(n-1)(w | h'),
    and p_n = p_(n-1) after a history that never occurred. Each a_n is the posterior mode on the
    validation rows under a Beta(2, 2) prior, which keeps it below 1: a pair never seen stays
    possible.

    Args:
        order: longest sequence, 1 for unigrams.
        vocabulary_size: V.
        train: rows to count, all at once or part by part; they are gone over once.
        valid: rows to choose the weights on.

    Attributes:
        weights: a_2, a_3, ...

    Raises:
        InputError: if sequences of `order` tokens have no 63-bit code, or nothing is given to
            count.
    """

    def __init__(
        self,
        order: int,
        vocabulary_size: int,
        train: TextRows | Iterable[TextRows],
        valid: TextRows,
    ) -> None:
        if order < 1 or vocabulary_size**order >= 2**63:
            raise InputError(f"order is {order}: sequences of {vocabulary_size} tokens need 1 or "
                             "more and fewer than 2^63 of them")  # fmt: skip
        self._size, self._tokens = vocabulary_size, 0
        parts = [train] if isinstance(train, TextRows) else train
        counted = [_Adding(vocabulary_size**n) for n in range(1, order + 1)]
        for part in parts:
            self._tokens += len(part.flat)
            for n, adding in enumerate(counted, start=1):
                adding.add(self._codes(part, n))
        if not self._tokens:
            raise InputError("the floor model has no training tokens: the split 'train' is empty")
        self._sequences = [adding.counts() for adding in counted]
        self._histories = [counts.histories(vocabulary_size) for counts in self._sequences]
        self.weights: list[float] = []
        for n in range(2, order + 1):
            self.weights.append(self._fit(n, valid))

    def nats(self, rows: TextRows, order: int | None = None) -> FloatArray:
        """(tokens,) negative log-probability of every target of the rows.

        Args:
            rows: to score.
            order: of the model that scores them, up to that of this one, which it is by default.
        """
        return -np.log(self._probability(order or len(self._sequences), rows))

    def most_frequent(self, without: int) -> int:
        """The most frequent token in training, other than one; the smallest of several."""
        unigrams = self._sequences[0]
        others = unigrams.codes != without
        return int(unigrams.codes[others][unigrams.counts[others].argmax()])

    def _codes(self, rows: TextRows, n: int) -> IntArray:
        """(tokens,) number of the n tokens that end at each target, begin tokens before the row."""
        code = rows.flat.copy()
        first = np.repeat(rows.offsets[:-1], rows.lengths)
        position = np.arange(len(rows.flat))
        for back in range(1, n):
            at = position - back
            token = np.where(at >= first, rows.flat[np.maximum(at, 0)], rows.begin)
            code += token * self._size**back
        return code

    def _probability(self, n: int, rows: TextRows) -> FloatArray:
        if n == 1:
            return (self._sequences[0].look_up(rows.flat) + 1.0) / (self._tokens + self._size)
        lower = self._probability(n - 1, rows)
        own, seen = self._relative(n, rows)
        weight = self.weights[n - 2]
        return np.where(seen, weight * own + (1.0 - weight) * lower, lower)

    def _relative(self, n: int, rows: TextRows) -> tuple[FloatArray, BoolArray]:
        """Relative frequency after each target's history, and True where the history occurred."""
        codes = self._codes(rows, n)
        history = self._histories[n - 1].look_up(codes // self._size)
        return self._sequences[n - 1].look_up(codes) / np.maximum(history, 1.0), history > 0

    def _fit(self, n: int, valid: TextRows) -> float:
        own, seen = self._relative(n, valid)
        own, lower = own[seen], self._probability(n - 1, valid)[seen]
        if not len(own):
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(40):  # bisect the slope of the log-posterior, which falls from +inf to -inf
            middle = (low + high) / 2
            slope = ((own - lower) / (middle * own + (1.0 - middle) * lower)).sum()
            slope += 1.0 / middle - 1.0 / (1.0 - middle)
            low, high = (middle, high) if slope > 0 else (low, middle)
        return (low + high) / 2
