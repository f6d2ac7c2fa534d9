"""Correlated noise is what its event says: its covariance, its state, and what it refuses."""

from __future__ import annotations

import copy
import pickle
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.events import Gaussian, NonPrivate, PoissonSampled
from uedp_bench.errors import PrivacyError
from uedp_bench.training.correlated_noise import BandedNoise
from uedp_bench.training.noise import GaussianNoise
from uedp_bench.training.sampling import Participation, PoissonSampler

GIVEN = (0.8, 0.5, -0.2)
KEPT = Participation(separation=3, participations=2, population=7)


def _pickled(noise: BandedNoise) -> Any:
    return pickle.loads(pickle.dumps(noise))  # noqa: S301 - our own


def matrix(rounds: int) -> np.ndarray:
    found = np.zeros((rounds, rounds))
    for j, value in enumerate(GIVEN):
        found += np.diag(np.full(rounds - j, value), -j)
    return found


def drawn(noise: BandedNoise, rounds: int, size: int, first: int = 0, scale: float = 1.0) -> Any:
    """(rounds, size) what is added to zeros; round t draws from generator t."""
    zero = torch.zeros(size, dtype=torch.float64)
    return np.stack([
        noise.add(zero, scale, step, np.random.default_rng(step)).numpy()
        for step in range(first, first + rounds)
    ])  # fmt: skip


def test_the_covariance_over_rounds_is_the_inverse_of_c_transposed_c() -> None:
    rounds, size, multiplier, clip = 6, 40_000, 1.7, 0.3
    rows = drawn(BandedNoise(GIVEN, multiplier), rounds, size, scale=clip)
    columns = matrix(rounds)
    stated = (multiplier * clip) ** 2 * np.linalg.inv(columns.T @ columns)
    found = rows @ rows.T / size
    # Deviation of an entry of a sample covariance: sqrt((s_ii s_jj + s_ij^2) / size).
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / size)
    assert (np.abs(found - stated) < 5 * spread).all()
    # Behind it, noise of rounds is independent, and of one deviation.
    behind = columns @ rows / (multiplier * clip)
    covariance = behind @ behind.T / size
    np.testing.assert_allclose(covariance, np.eye(rounds), atol=5 * np.sqrt(2 / size))


def test_rows_are_those_of_the_dense_inverse() -> None:
    behind = np.stack([np.random.default_rng(step).standard_normal(5) for step in range(8)])
    found = drawn(BandedNoise(GIVEN, 2.0), 8, 5)
    np.testing.assert_allclose(found, 2.0 * np.linalg.solve(matrix(8), behind), rtol=1e-10)


def test_one_band_is_independent_noise() -> None:
    vector, rng = torch.arange(5, dtype=torch.float32), np.random.default_rng(3)
    found = BandedNoise((1.0,), 2.0).add(vector, 0.3, 0, rng)
    plain = GaussianNoise().add(vector, 0.6, np.random.default_rng(3))
    torch.testing.assert_close(found, plain)
    assert found.dtype == torch.float32


@pytest.mark.parametrize("copied", [copy.deepcopy, _pickled])
def test_it_goes_on_from_a_copy_as_if_nothing_had_happened(copied: Any) -> None:
    noise = BandedNoise(GIVEN, 2.0)
    whole = drawn(copy.deepcopy(noise), 7, 4)
    first = drawn(noise, 3, 4)
    rest = drawn(copied(noise), 4, 4, first=3)
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)


def test_the_event_is_of_what_was_drawn_under_the_schedule_that_was_kept() -> None:
    noise = BandedNoise(GIVEN, 2.0)
    drawn(noise, 4, 3)
    told = [KEPT] * 4
    (event,) = noise.events(told)
    assert event == BandedFactorization(
        rounds=4, coefficients=GIVEN, noise_multiplier=2.0, separation=3, participations=2,
        population=7,
    )  # fmt: skip
    real = GaussianNoise.add

    def half(self: GaussianNoise, vector: Any, std: float, rng: Any) -> Any:
        return real(self, vector, std / 2, rng)

    with patch.object(GaussianNoise, "add", half):
        noise.add(torch.zeros(3), 1.0, 4, np.random.default_rng(4))
    (less,) = noise.events([*told, KEPT])
    assert isinstance(less, BandedFactorization)
    assert less.noise_multiplier == 1.0


def test_without_a_schedule_it_is_worth_nothing() -> None:
    noise = BandedNoise(GIVEN, 2.0)
    drawn(noise, 2, 3)
    for told in ([PoissonSampler(5, 0.1).event] * 2, [KEPT, PoissonSampler(5, 0.1).event],
                 [KEPT, Participation(2, 2, 7)]):  # fmt: skip
        (event,) = noise.events(told)
        assert isinstance(event, NonPrivate)
        assert "no schedule kept the rounds of a unit apart" in event.reason
    assert isinstance(PoissonSampler(5, 0.1).event(Gaussian(noise_multiplier=1.0)), PoissonSampled)


def test_no_round_twice_none_left_out_and_no_other_length() -> None:
    noise, rng = BandedNoise(GIVEN, 2.0), np.random.default_rng(0)
    noise.add(torch.zeros(3), 1.0, 0, rng)
    for step in (0, 2):
        with pytest.raises(PrivacyError, match=f"round {step} .* 1 rounds"):
            noise.add(torch.zeros(3), 1.0, step, rng)
    with pytest.raises(PrivacyError, match=r"round 1.* 4 numbers.* 3"):
        noise.add(torch.zeros(4), 1.0, 1, rng)
