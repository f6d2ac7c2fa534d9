"""Noise on single texts, drawn by functions that also say what it was worth.

Events of what happened are made of these numbers, never of parameters: a mechanism that draws less
noise than it planned emits another event, and nothing is proven.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from uedp_bench.corpus import FloatArray, IntArray


def add_laplace(
    values: FloatArray,
    widths: FloatArray,
    scales: FloatArray,
    rngs: Sequence[np.random.Generator],
) -> tuple[FloatArray, float]:
    """Rows plus Laplace noise, and the epsilon of the row that it protects least.

    Args:
        values: (rows, d).
        widths: (rows, d) how far a change of what is protected moves a coordinate, at most.
        scales: (rows, d) of the noise; 0 adds none.
        rngs: one a row.
    """
    noise = [rng.laplace(0.0, each) for rng, each in zip(rngs, scales, strict=True)]
    moves = widths > 0
    worth = np.divide(widths, scales, out=np.zeros_like(widths), where=moves & (scales > 0))
    worth[moves & (scales <= 0)] = np.inf
    noisy: FloatArray = values + np.array(noise).reshape(values.shape)
    return noisy, float(worth.sum(axis=1).max(initial=0.0))


def choose_by_score(
    scores: IntArray | FloatArray,
    factor: float,
    sensitivity: float,
    rngs: Sequence[np.random.Generator],
) -> tuple[IntArray, float]:
    """(rows,) choices of the exponential mechanism, and their epsilon.

    A choice of score u has odds e^(factor u): the largest of factor u plus standard Gumbel noise is
    drawn with these odds.

    Args:
        scores: (rows, choices).
        factor: of the scores.
        sensitivity: how far a change of what is protected moves a score, at most.
        rngs: one a row.
    """
    noise = np.stack([rng.gumbel(size=scores.shape[1]) for rng in rngs])
    return (factor * scores + noise).argmax(axis=1), 2.0 * factor * sensitivity


def spent(found: Iterable[float], planned: float) -> float:
    """The largest epsilon of what was drawn; the planned one where rounding is all.

    Args:
        found: of each call that drew noise; none where nothing was published.
        planned: what it should have been.
    """
    most = max(found, default=planned)
    return planned if math.isclose(most, planned, rel_tol=1e-9) else most
