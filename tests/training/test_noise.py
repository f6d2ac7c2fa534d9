"""Noise tells what it drew, and may remember earlier rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from learners import flat
from torch import Tensor
from toy import ToyLearner, toy_run

from uedp_bench.accounting.events import Gaussian, NonPrivate, PoissonSampled, Repeated
from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.corpus import Index
from uedp_bench.errors import PrivacyError
from uedp_bench.randomness.streams import Stream
from uedp_bench.training import noise as noise_module
from uedp_bench.training.bounds import FlatBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import GaussianNoise, IndependentGaussian, Noise
from uedp_bench.training.sampling import PoissonSampler, RoundSampling
from uedp_bench.training.server import SgdServer


def _trained(noise: Noise, rounds: int) -> tuple[Tensor, tuple[object, ...]]:
    """The weights after rounds in which nobody takes part: what is left is noise."""
    plan = Federation(
        rounds=rounds, units=Index.build(np.arange(2), np.arange(2), 2),
        sampler=PoissonSampler(2, 0.0), local=LocalTraining(), bound=FlatBound(0.5), noise=noise,
        denominator=1.0, server=SgdServer(),
    )  # fmt: skip
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
    found = {}
    for threads in (1, 4):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found[threads] = GaussianNoise().add(vector, 3.0, place.rng())
    assert torch.equal(found[1], found[4])
    noise = (found[1] - vector).double() / 3.0
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
