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
from uedp_bench.corpus import Index
from uedp_bench.training.bounds import FlatBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import GaussianNoise, IndependentGaussian, Noise
from uedp_bench.training.sampling import PoissonSampler, Told
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

    def events(self, told: Sequence[Told]) -> tuple[NonPrivate, ...]:
        assert len(told) == len(self.steps)
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
    told = PoissonSampler(10, 0.1).event
    assert noise.events([told] * 3) == tuple(
        Repeated(count=count, event=PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=z)))
        for count, z in ((2, 1.5), (1, 0.75))
    )
