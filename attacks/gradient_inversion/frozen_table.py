"""Tokens of a short text, where their vectors are public and not trained.

The change of a weight that multiplies vectors of tokens is, after any number of steps of SGD, a sum
of products d x^T, x the vector of a token that was read: its rows lie in the span of these vectors
(Petrov et al. 2024, arXiv:2405.15586, theorem 1, for linear layers in general). As long as there
are fewer different tokens than a vector has numbers, vectors of all others lie outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_EPS = float(np.finfo(np.float32).eps)
_SPARE = 4
"""Numbers of a vector beyond the rank: with fewer, other tokens come too near to the span."""

_OUTSIDE = 1e-3
"""Share of a vector's length outside of the span with which it still counts as inside."""


def spanned(table: Array, changes: Sequence[Array], before: Sequence[Array]) -> BoolArray:
    """(vocabulary,) True for tokens whose vectors lie in the span of the changes.

    None are named where the changes span (nearly) everything: there were too many tokens, or there
    is noise.

    Args:
        table: (vocabulary, size) vectors.
        changes: (outputs, inputs) of weights whose first `size` inputs are a token's vector.
        before: the same weights, for how far float32 has rounded their differences.
    """
    size = table.shape[1]
    rows = np.concatenate([change[:, :size] for change in changes])
    rounded = max(float(np.abs(each).max()) for each in before) * _EPS
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    rank = int((values > 4.0 * rounded * np.sqrt(rows.size)).sum())
    lengths = np.linalg.norm(table, axis=1)
    if not 0 < rank <= size - _SPARE:
        return np.zeros(len(table), dtype=bool)
    inside = directions[:rank]
    outside = np.linalg.norm(table - (table @ inside.T) @ inside, axis=1)
    in_span: BoolArray = (lengths > 0.0) & (outside < _OUTSIDE * lengths)
    return in_span
