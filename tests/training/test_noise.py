"""Noise tells what it drew, and may remember earlier rounds."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from learners import flat
from torch import Tensor
from toy import ToyLearner, toy_plan, toy_run

from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.errors import PrivacyError
from uedp_bench.randomness import Stream
from uedp_bench.training import noise as noise_module
from uedp_bench.training.bounds import FlatBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.noise import BandedNoise, GaussianNoise, IndependentGaussian, Noise
from uedp_bench.training.sampling import Participation, PoissonSampler, RoundSampling

GIVEN = (0.8, 0.5, -0.2)
KEPT = Participation(separation=3, participations=2, population=7)


def _pickled(noise: BandedNoise) -> Any:
    return pickle.loads(pickle.dumps(noise))  # noqa: S301 - our own


def matrix(rounds: int) -> np.ndarray:
    toeplitz = np.zeros((rounds, rounds))
    for j, value in enumerate(GIVEN):
        toeplitz += np.diag(np.full(rounds - j, value), -j)
    return toeplitz


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
    sample = rows @ rows.T / size
    # Deviation of an entry of a sample covariance: sqrt((s_ii s_jj + s_ij^2) / size).
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / size)
    assert (np.abs(sample - stated) < 5 * spread).all()
    # Behind it, noise of rounds is independent, and of one deviation.
    behind = columns @ rows / (multiplier * clip)
    covariance = behind @ behind.T / size
    np.testing.assert_allclose(covariance, np.eye(rounds), atol=5 * np.sqrt(2 / size))


def test_rows_are_those_of_the_dense_inverse() -> None:
    behind = np.stack([np.random.default_rng(step).standard_normal(5) for step in range(8)])
    noise = drawn(BandedNoise(GIVEN, 2.0), 8, 5)
    np.testing.assert_allclose(noise, 2.0 * np.linalg.solve(matrix(8), behind), rtol=1e-10)


def test_one_band_is_independent_noise() -> None:
    vector, rng = torch.arange(5, dtype=torch.float32), np.random.default_rng(3)
    noisy = BandedNoise((1.0,), 2.0).add(vector, 0.3, 0, rng)
    plain = GaussianNoise().add(vector, 0.6, np.random.default_rng(3))
    torch.testing.assert_close(noisy, plain)
    assert noisy.dtype == torch.float32


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
    schedules = [KEPT] * 4
    (event,) = noise.events(schedules)
    assert event == BandedFactorization(
        rounds=4, coefficients=GIVEN, noise_multiplier=2.0, separation=3, participations=2,
        population=7,
    )  # fmt: skip
    real = GaussianNoise.add

    def half(self: GaussianNoise, vector: Any, std: float, rng: Any) -> Any:
        return real(self, vector, std / 2, rng)

    with patch.object(GaussianNoise, "add", half):
        noise.add(torch.zeros(3), 1.0, 4, np.random.default_rng(4))
    (less,) = noise.events([*schedules, KEPT])
    assert isinstance(less, BandedFactorization)
    assert less.noise_multiplier == 1.0


def test_without_a_schedule_it_is_worth_nothing() -> None:
    noise = BandedNoise(GIVEN, 2.0)
    drawn(noise, 2, 3)
    for schedules in ([PoissonSampler(5, 0.1).event] * 2, [KEPT, PoissonSampler(5, 0.1).event],
                 [KEPT, Participation(2, 2, 7)]):  # fmt: skip
        (event,) = noise.events(schedules)
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


def _trained(noise: Noise, rounds: int) -> tuple[Tensor, tuple[object, ...]]:
    """The weights after rounds in which nobody takes part: what is left is noise."""
    sampler = PoissonSampler(2, 0.0)
    plan = toy_plan([0, 1], FlatBound(0.5), rounds=rounds, sampler=sampler, noise=noise)
    trained = train_federated(plan, ToyLearner(np.zeros((2, 20_000)), [0, 1]), toy_run())
    return flat(trained.module), trained.rounds


class TakenBack:
    """Correlated noise: each round takes the noise of the round before off again."""

    def __init__(self, multiplier: float) -> None:
        self.multiplier, self.steps = multiplier, list[int]()
        self._source, self._last = GaussianNoise(), 0.0 * torch.zeros(1)

    def add(
        self, vector: Tensor, sensitivity: float, step: int, rng: np.random.Generator
    ) -> Tensor:
        assert step == len(self.steps)
        self.steps.append(step)
        drawn = self._source.add(torch.zeros_like(vector), self.multiplier * sensitivity, rng)
        noisy = vector + drawn - self._last
        self._last = drawn
        return noisy

    def events(self, samplings: Sequence[RoundSampling]) -> tuple[NonPrivate, ...]:
        assert len(samplings) == len(self.steps)
        return (NonPrivate(reason="nobody has proven what this is worth"),)


def test_a_noise_may_be_correlated_over_rounds() -> None:
    noise = TakenBack(2.0)
    for _ in range(2):  # a training works on a copy: the second begins anew
        weights, rounds = _trained(noise, 4)
        assert float(weights.std()) == pytest.approx(2.0 * 0.5, rel=0.03)  # of the last round alone
        assert rounds == (NonPrivate(reason="nobody has proven what this is worth"),)
    fresh, _ = _trained(IndependentGaussian(2.0), 4)
    assert float(fresh.std()) == pytest.approx(2.0 * 2.0 * 0.5, rel=0.03)


def test_less_noise_than_planned_is_told_round_by_round() -> None:
    noise, rng = IndependentGaussian(1.5), np.random.default_rng(0)
    for step, multiplier in enumerate((1.5, 1.5, 0.75)):
        noise.multiplier = multiplier
        noise.add(torch.zeros(1), 0.3, step, rng)
    noise.multiplier = 1.5
    samplings = PoissonSampler(10, 0.1).event
    assert noise.events([samplings] * 3) == tuple(
        Repeated(count=count, event=PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=z)))
        for count, z in ((2, 1.5), (1, 0.75))
    )


@pytest.mark.parametrize("source", ["seed", "os"])
def test_long_vectors_are_drawn_in_parts_side_by_side(
    source: NoiseSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise_module, "_PART", 100_000)
    monkeypatch.setattr(noise_module, "_BLOCK", 4_096)
    vector, place = torch.linspace(-1.0, 1.0, 350_001), Stream(b"", source).child("noise")
    noisy = {}
    for threads in (1, 4):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        noisy[threads] = GaussianNoise().add(vector, 3.0, place.rng())
    assert torch.equal(noisy[1], noisy[4])
    noise = (noisy[1] - vector).double() / 3.0
    assert float(noise.std()) == pytest.approx(1.0, rel=0.01)
    parts = torch.stack(noise[:300_000].split(100_000))
    assert torch.corrcoef(parts).fill_diagonal_(0.0).abs().max() < 0.02  # no part is another's


def test_parts_of_a_keystream_are_the_numbers_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Stream(b"", "os").child("noise")
    whole = GaussianNoise().add(torch.zeros(5_000), 1.0, place.rng())
    monkeypatch.setattr(noise_module, "_PART", 1_000)
    assert torch.equal(GaussianNoise().add(torch.zeros(5_000), 1.0, place.rng()), whole)


def test_no_number_is_no_noise() -> None:
    assert len(GaussianNoise().add(torch.zeros(0), 1.0, np.random.default_rng(0))) == 0


@pytest.mark.parametrize("most", [7, 8])
def test_no_noise_is_added_to_more_numbers_than_the_proof_covers(monkeypatch, most):
    monkeypatch.setattr("uedp_bench.accounting.sampler_end_delta.COORDINATES", most)
    rng = np.random.default_rng(1)
    if most == 8:
        assert len(IndependentGaussian(1.0).add(torch.zeros(8), 1.0, 0, rng)) == 8
        return
    with pytest.raises(PrivacyError, match="8 numbers"):
        IndependentGaussian(1.0).add(torch.zeros(8), 1.0, 0, rng)


def test_a_network_that_the_proof_does_not_cover_is_refused_before_training(monkeypatch):
    monkeypatch.setattr("uedp_bench.accounting.sampler_end_delta.COORDINATES", 1)
    with pytest.raises(PrivacyError, match="20,000 numbers"):
        _trained(IndependentGaussian(1.0), rounds=0)
    _trained(IndependentGaussian(0.0), rounds=0)  # nothing is proven, and nothing refused


class _FirstBlock:
    """A generator whose noise is nothing after its first call."""

    def __init__(self) -> None:
        self._rng, self._calls = np.random.default_rng(0), 0

    def standard_normal(self, size: int) -> np.ndarray:
        self._calls += 1
        return self._rng.standard_normal(size) * (self._calls == 1)


def test_noise_that_the_end_of_a_vector_lacks_is_refused() -> None:
    size, noise = 3 * 2**16, GaussianNoise()
    noise.add(torch.zeros(size), 1.0, np.random.default_rng(0))
    with pytest.raises(PrivacyError):
        noise.add(torch.zeros(size), 1.0, _FirstBlock())  # type: ignore[arg-type]
