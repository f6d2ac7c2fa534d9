"""Banded Toeplitz matrices that correlate noise, and the noise that stays in the weights.

Server steps add up the noisy sums of all rounds, so that the weights after round t carry row t of
A C^-1 Z: A is the matrix of ones below and on the diagonal, Z independent noise, and C the lower-
triangular Toeplitz matrix whose first column begins with the coefficients. In power series modulo
x^n, C is c(x) and A C^-1 is 1 / ((1 - x) c(x)). No matrix is ever built.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
"""Decimals of a coefficient: fewer than an optimiser's last digits, which depend on the machine."""

_LEAST_RATIO = 1e-3


def square_root(bands: int) -> NDArray[np.float64]:
    """(bands,) the first coefficients of the square root of A: (1 - x)^(-1/2).

    It is optimal for the largest error over all rounds where every unit takes part once and nothing
    is cut off (Fichtenberger et al. 2023, arXiv:2202.11205; Dvijotham et al. 2024,
    arXiv:2404.16706); cut off, it is the banded square root (Kalinin and Lampert 2024,
    arXiv:2405.13763).
    """
    k = np.arange(1, bands, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / k)])


@lru_cache(maxsize=64)
def least_error(rounds: int, bands: int) -> tuple[float, ...]:
    """(bands,) coefficients of norm 1 whose mean squared error over all rounds is the smallest.

    `squared_errors`, averaged over rounds, is minimised by L-BFGS from the square root, with its
    exact gradient (McKenna 2024, arXiv:2405.15913, section 3). A unit's columns do not overlap, so
    the number of its participations only multiplies the error, and the optimum is the same for any.

    Sought are the ratios of neighbouring coefficients, none above 1: then no root of c lies inside
    the unit circle (Enestrom and Kakeya), and C^-1 does not grow without bound on the way.

    Args:
        rounds: n.
        bands: b, at most n.
    """
    from scipy.optimize import minimize

    coefficients = square_root(bands)
    if bands > 1:
        bounds = [(_LEAST_RATIO, 1.0)] * (bands - 1)
        best = minimize(
            _log_error,
            coefficients[1:] / coefficients[:-1],
            args=(rounds,),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            tol=1e-10,
        )
        coefficients = _of_ratios(best.x)
    return tuple(np.round(coefficients / np.linalg.norm(coefficients), DIGITS).tolist())


def squared_errors(coefficients: Sequence[float], rounds: int) -> NDArray[np.float64]:
    """(rounds,) expected squared noise in a weight after each round, in units of the clip bound.

    For Z of deviation 1 over the largest norm of a column: so matrices compare at one privacy of
    units that take part once.
    """
    column = np.asarray(coefficients, dtype=np.float64)
    return np.asarray(np.cumsum(_sums(column, rounds) ** 2) * (column @ column))


def _sums(coefficients: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """(rounds,) first column of A C^-1."""
    return _divided(np.ones(rounds), coefficients)


def _divided(series: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The power series over that of the coefficients, as many terms."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], coefficients, series))


def _of_ratios(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients (1, r_1, r_1 r_2, ...)."""
    return np.concatenate([[1.0], np.cumprod(ratios)])


def _log_error(ratios: NDArray[np.float64], rounds: int) -> tuple[float, list[float]]:
    """Logarithm of the mean of `squared_errors` at these ratios, and its gradient."""
    coefficients = _of_ratios(ratios)
    sums = _sums(coefficients, rounds)
    # Entry t of the column is in rounds - t of the prefix sums.
    weighted = sums * (rounds - np.arange(rounds)) / rounds
    error, norm = float(weighted @ sums), float(coefficients @ coefficients)
    # d sums / d c_j is -x^j sums / c.
    slopes = _divided(sums, coefficients)
    by_sums = np.asarray([weighted[j:] @ slopes[: rounds - j] for j in range(len(coefficients))])
    gradient = 2.0 * (coefficients / norm - by_sums / error)
    # A ratio is in its coefficient and in all behind it.
    behind = np.cumsum((gradient * coefficients)[:0:-1])[::-1]
    return float(np.log(error * norm)), (behind / ratios).tolist()
