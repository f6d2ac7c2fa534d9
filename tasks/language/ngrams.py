"""N-grams as a floor: what a model without a network reaches on the same tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uedp_bench.corpus import BoolArray, FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.tasks.tokens.rows import TextRows


@dataclass(frozen=True, eq=False)
class _Counts:
    """How often each sequence of a fixed number of tokens occurs: sorted codes and their counts."""

    codes: IntArray
    counts: IntArray

    @staticmethod
    def build(codes: IntArray) -> _Counts:
        return _Counts(*np.unique(codes, return_counts=True))

    def of(self, codes: IntArray) -> FloatArray:
        if not len(self.codes):
            return np.zeros(len(codes))
        at = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[at] == codes, self.counts[at], 0).astype(np.float64)


class NGramModel:
    """Add-one unigrams, and longer sequences interpolated with shorter ones (Jelinek-Mercer).

    p_1(w) = (c(w) + 1) / (N + V);  p_n(w | h) = a_n c(hw) / c(h) + (1 - a_n) p_(n-1)(w | h'),
    and p_n = p_(n-1) after a history that never occurred. Each a_n is the posterior mode on the
    validation rows under a Beta(2, 2) prior, which keeps it below 1: a pair never seen stays
    possible.

    Args:
        order: longest sequence, 1 for unigrams.
        vocabulary_size: V.
        train, valid: rows to count, and to choose the weights on.

    Attributes:
        weights: a_2, a_3, ...

    Raises:
        InputError: if sequences of `order` tokens have no 63-bit code, or nothing is given to
            count.
    """

    def __init__(self, order: int, vocabulary_size: int, train: TextRows, valid: TextRows) -> None:
        if order < 1 or vocabulary_size**order >= 2**63:
            raise InputError(f"order is {order}: sequences of {vocabulary_size} tokens need 1 or "
                             "more and fewer than 2^63 of them")  # fmt: skip
        if not len(train.flat):
            raise InputError("the floor model has no training tokens: the split 'train' is empty")
        self._size = vocabulary_size
        self._tokens = len(train.flat)
        codes = [self._codes(train, n) for n in range(1, order + 1)]
        self._sequences = [_Counts.build(code) for code in codes]
        self._histories = [_Counts.build(code // vocabulary_size) for code in codes]
        self.weights: list[float] = []
        for n in range(2, order + 1):
            self.weights.append(self._fit(n, valid))

    def nats(self, rows: TextRows) -> FloatArray:
        """(tokens,) negative log-probability of every target of the rows."""
        return -np.log(self._probability(len(self._sequences), rows))

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
            counts = self._sequences[0].of(rows.flat)
            return (counts + 1.0) / (self._tokens + self._size)
        lower = self._probability(n - 1, rows)
        own, seen = self._relative(n, rows)
        weight = self.weights[n - 2]
        return np.where(seen, weight * own + (1.0 - weight) * lower, lower)

    def _relative(self, n: int, rows: TextRows) -> tuple[FloatArray, BoolArray]:
        """Relative frequency after each target's history, and True where the history occurred."""
        codes = self._codes(rows, n)
        history = self._histories[n - 1].of(codes // self._size)
        return self._sequences[n - 1].of(codes) / np.maximum(history, 1.0), history > 0

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
