"""Where samplers end: driven with chosen bits, they never pass what `sampler_end` says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.support.bits import GivenBits
from uedp_bench.accounting.sampler_end_delta import BITS, GAUSSIAN_END
from uedp_bench.mechanisms.representations.dpnr import LaplaceChannel
from uedp_bench.training.noise import GaussianNoise

TAIL = 3.6541528853610088
LAPLACE_END = BITS * math.log(2.0)
"""Scales that `laplace` cannot exceed, 36.74; below 0 it ends at 36.04 already."""

GUMBEL_END = BITS * math.log(2.0)
"""Scales that `gumbel` cannot exceed, 36.74: it is -ln(-ln(1 - U))."""

EXPONENTIAL_END = 7.69711747013104972 + BITS * math.log(2.0)
"""Scales that `standard_exponential` cannot exceed, 44.43: its ziggurat's tail begins at 7.697."""

ONES = 2**64 - 1
"""The largest word: as a uniform number 1 - 2^-53."""


def gamma_end(shape: int) -> float:
    """Scales that `standard_gamma` of this shape, at least 1, cannot exceed.

    NumPy cubes a normal number x (Marsaglia and Tsang 2000): (shape - 1/3) (1 + c x)^3 with
    c = 1 / sqrt(9 shape - 3). Of shape 1 it is `standard_exponential`.
    """
    if shape == 1:
        return EXPONENTIAL_END
    reduced = shape - 1.0 / 3.0
    return reduced * (1.0 + GAUSSIAN_END / math.sqrt(9.0 * reduced)) ** 3


def uniform(value: float) -> int:
    """The word that `Generator.random` makes a number of: the nearest multiple of 2^-53."""
    return min(round(value * 2**53), 2**53 - 1) << 11


def normal_from_tail(x: float) -> list[int]:
    """Words that send the ziggurat into its tail, and make it propose 3.654 + x there."""
    return [(ONES >> 12) << 9, uniform(-math.expm1(-x * TAIL)), ONES]


def test_largest_gaussian_is_where_the_constant_says() -> None:
    # Numbers that far out come in steps of 0.0015.
    inside = GAUSSIAN_END - TAIL - 0.001
    normal = np.random.Generator(GivenBits(normal_from_tail(inside))).standard_normal()
    assert GAUSSIAN_END - 0.003 < abs(normal) <= GAUSSIAN_END
    # A step further the tail refuses, and draws again: nothing beyond the end exists.
    again = [*normal_from_tail(inside + 0.004), *normal_from_tail(1.0)[1:]]
    normal = np.random.Generator(GivenBits(again)).standard_normal()
    assert abs(normal) == pytest.approx(TAIL + 1.0)


def test_noise_of_training_is_drawn_by_the_sampler_that_ends_there() -> None:
    """From the tail of float64: normals of float32 would end at 5.77."""
    rng = np.random.Generator(GivenBits(normal_from_tail(GAUSSIAN_END - TAIL - 0.001)))
    # Among 1000 numbers one so far out moves the mean square less than chance may; alone it would
    # be refused as another noise.
    added = GaussianNoise().add(torch.zeros(1000), 2.0, rng)[0].item()
    assert 2 * (GAUSSIAN_END - 0.003) < abs(added) <= 2 * GAUSSIAN_END * (1 + 1e-7)


def test_noise_of_representations_is_drawn_by_the_sampler_that_ends_there() -> None:
    z = torch.tensor([[0.0, 1.0]])
    rng = np.random.Generator(GivenBits([ONES, uniform(0.5)]))
    shown = LaplaceChannel(2.0).perturb(z, [rng])
    assert float(shown[0, 0]) == pytest.approx(2 * LAPLACE_END, rel=1e-5)
    rng = np.random.Generator(GivenBits([ONES, uniform(0.5)]))
    shown = LaplaceChannel(2.0).perturb_in_training(z, rng)
    assert float(shown[0, 0]) == pytest.approx(2 * LAPLACE_END, rel=1e-5)


def test_gaussian_never_passes_its_end_whatever_the_bits() -> None:
    bits = np.random.default_rng(1)
    largest = 0.0
    for _ in range(3000):
        words = normal_from_tail(float(bits.uniform(8.0, 10.0)))
        spare = bits.integers(2**63, size=64).tolist()
        drawn = np.random.Generator(GivenBits([*words, *spare])).standard_normal()
        largest = max(largest, abs(drawn))
    assert 12.0 < largest <= GAUSSIAN_END
    assert largest > 5.7681  # where float32 normals of torch end


def test_largest_laplace_gumbel_and_gamma() -> None:
    drawn = [
        np.random.Generator(GivenBits([word])).laplace()
        for word in (ONES, uniform(2.0**-53), uniform(0.5), uniform(0.25))
    ]
    assert max(map(abs, drawn)) == pytest.approx(LAPLACE_END)
    drawn = [
        np.random.Generator(GivenBits([word])).gumbel()
        for word in (ONES, uniform(2.0**-53), uniform(0.5))
    ]
    assert max(drawn) == pytest.approx(GUMBEL_END)
    assert min(drawn) == pytest.approx(-math.log(GUMBEL_END), rel=1e-6)
    into_the_tail = [(ONES >> 11) << 11, ONES]
    largest = np.random.Generator(GivenBits(into_the_tail)).standard_exponential()
    assert largest == pytest.approx(EXPONENTIAL_END)


def test_gamma_ends_with_its_normal_number() -> None:
    inside = GAUSSIAN_END - TAIL - 0.001
    for shape in (2, 50, 300):
        for sign in (0, 1):
            words = normal_from_tail(inside)
            words[0] |= sign << 17
            rng = np.random.Generator(GivenBits([*words, 0]))
            assert rng.standard_gamma(shape) <= gamma_end(shape) * (1 + 1e-9)


def test_many_draws_stay_inside() -> None:
    rng = np.random.default_rng(7)
    assert np.abs(rng.standard_normal(10**6)).max() < GAUSSIAN_END
    assert np.abs(rng.laplace(size=10**6)).max() < LAPLACE_END
