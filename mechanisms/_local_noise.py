"""Noise on single texts and sums, drawn by functions that also return what it was drawn with.

Events of what happened are made of these numbers, never of parameters: a mechanism that draws less
noise than it planned emits another event, and nothing is proven. The noise itself is measured too
(`randomness.noise_checks`): numbers that do not have it stop the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.randomness.noise_checks import check_gumbel, check_laplace, check_normal

if TYPE_CHECKING:
    from uedp_bench.corpus import FloatArray, IntArray


def add_laplace(
    values: FloatArray, widths: FloatArray, scales: FloatArray, rngs: Sequence[np.random.Generator]
) -> tuple[FloatArray, float]:
    """Rows plus Laplace noise, and the epsilon of the row that it protects least.

    Args:
        values: (rows, d).
        widths: (rows, d) how far a change of what is protected moves a coordinate, at most.
        scales: (rows, d) of the noise; 0 adds none.
        rngs: one a row.

    Raises:
        PrivacyError: if the rows do not have this noise.
    """
    noise = [rng.laplace(0.0, each) for rng, each in zip(rngs, scales, strict=True)]
    moves = widths > 0
    worth = np.divide(widths, scales, out=np.zeros_like(widths), where=moves & (scales > 0))
    worth[moves & (scales <= 0)] = np.inf
    noisy: FloatArray = values + np.array(noise).reshape(values.shape)
    check_laplace(values, noisy, scales, "Laplace noise on vectors")
    return noisy, float(worth.sum(axis=1).max(initial=0.0))


def add_normal(
    values: FloatArray, deviation: float, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Numbers plus independent normal noise, and the deviation that it was drawn with.

    Args:
        values: (n,).
        deviation: deviation of the noise.
        rng: secret, and for these numbers alone.

    Raises:
        PrivacyError: if the numbers do not have this noise.
    """
    noisy: FloatArray = values + rng.normal(0.0, deviation, len(values))
    check_normal(values, noisy, deviation, "normal noise on sums")
    return noisy, deviation


def add_laplace_noise(
    values: FloatArray, scale: float, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Numbers plus independent Laplace noise, and the scale that it was drawn with.

    Args:
        values: (n,).
        scale: scale of the noise.
        rng: secret, and for these numbers alone.

    Raises:
        PrivacyError: if the numbers do not have this noise.
    """
    noisy: FloatArray = values + rng.laplace(0.0, scale, len(values))
    check_laplace(values, noisy, scale, "Laplace noise on counts")
    return noisy, scale


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
        factor: factor of the scores.
        sensitivity: how far a change of what is protected moves a score, at most.
        rngs: one a row.

    Raises:
        PrivacyError: if the scores do not have this noise.
    """
    noise = np.stack([rng.gumbel(size=scores.shape[1]) for rng in rngs])
    check_gumbel(noise, "Gumbel noise on scores")
    return (factor * scores + noise).argmax(axis=1), 2.0 * factor * sensitivity


def spent(drawn: Iterable[float], planned: float) -> float:
    """Largest epsilon of the drawn noise; the planned one if they differ by rounding alone.

    Args:
        drawn: epsilon of each call that drew noise; empty where nothing was published.
        planned: planned epsilon.
    """
    most = max(drawn, default=planned)
    return planned if math.isclose(most, planned, rel_tol=1e-9) else most
