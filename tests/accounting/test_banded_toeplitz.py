"""Coefficients of the matrix, and the noise that they leave, against dense matrices and papers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from uedp_bench.accounting.banded_toeplitz import least_error, square_root, squared_errors


def _dense(coefficients: tuple[float, ...], rounds: int) -> np.ndarray:
    toeplitz = np.zeros((rounds, rounds))
    for j, value in enumerate(coefficients):
        toeplitz += np.diag(np.full(rounds - j, value), -j)
    sums = np.tril(np.ones((rounds, rounds)))
    norm = np.linalg.norm(toeplitz, axis=0).max()
    return np.asarray(((sums @ np.linalg.inv(toeplitz)) ** 2).sum(axis=1) * norm**2)


@pytest.mark.parametrize("coefficients", [(1.0,), (0.8, 0.6), (0.7, 0.3, -0.1, 0.2)])
def test_errors_are_those_of_dense_matrices(coefficients: tuple[float, ...]) -> None:
    np.testing.assert_allclose(squared_errors(coefficients, 9), _dense(coefficients, 9), rtol=1e-10)


def test_independent_noise_adds_up() -> None:
    np.testing.assert_allclose(squared_errors((1.0,), 50), np.arange(1, 51))
    assert least_error(50, 1) == (1.0,)


@pytest.mark.parametrize("rounds", [10, 100, 1000])
def test_the_whole_square_root_has_the_published_largest_error(rounds: int) -> None:
    # Largest squared error G_n^2, G_n the Landau constant: (ln n + gamma + ln 16) / pi + O(1 / n).
    largest = squared_errors(square_root(rounds).tolist(), rounds).max()
    landau = (math.log(rounds) + np.euler_gamma + 4 * math.log(2)) / math.pi
    assert math.sqrt(largest) == pytest.approx(landau, rel=0.1 / rounds)
    squared = np.tril(np.ones((10, 10)))
    root = np.zeros((10, 10))
    for j, value in enumerate(square_root(10)):
        root += np.diag(np.full(10 - j, value), -j)
    np.testing.assert_allclose(root @ root, squared, atol=1e-12)


# jax-privacy 2.0.0: toeplitz.optimize_banded_toeplitz and toeplitz.loss, in float64.
PUBLISHED = {(60, 10): 6.1905557731, (100, 10): 8.6818738986, (400, 16): 18.5275725779}


@pytest.mark.parametrize(("rounds", "bands"), PUBLISHED)
def test_the_optimum_is_that_of_jax_privacy(rounds: int, bands: int) -> None:
    coefficients = least_error(rounds, bands)
    assert squared_errors(coefficients, rounds).mean() == pytest.approx(
        PUBLISHED[rounds, bands], rel=1e-8
    )
    cut = squared_errors(square_root(bands).tolist(), rounds).mean()
    assert squared_errors(coefficients, rounds).mean() < cut < squared_errors((1.0,), rounds).mean()
    assert np.linalg.norm(coefficients) == pytest.approx(1.0, abs=1e-5)


def test_many_rounds_do_not_overflow_on_the_way() -> None:
    # As rounds outnumber bands, the best coefficients become equal: errors of n rounds add up in
    # blocks of b.
    coefficients = least_error(30_000, 4)
    assert coefficients[0] > coefficients[3] > 0.47
    mean = squared_errors(coefficients, 30_000).mean()
    assert mean < squared_errors((0.5,) * 4, 30_000).mean()
    assert mean == pytest.approx(15_000 / 4, rel=0.02)


def test_more_bands_leave_less_noise() -> None:
    errors = [squared_errors(least_error(60, bands), 60).mean() for bands in (1, 2, 4, 8, 16, 30)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 5
