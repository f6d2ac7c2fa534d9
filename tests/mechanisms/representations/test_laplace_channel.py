"""The channel of DPNR: its noise has the density that the proof assumes, on values in [0, 1]."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from uedp_bench.accounting.accountants.basic_composition import dropout_epsilon
from uedp_bench.bounds.lower_bounds import epsilon_lower_bound
from uedp_bench.mechanisms.representations.dpnr import LaplaceChannel, normalised


def rngs(rows: int, seed: int = 0) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, row]) for row in range(rows)]


def one_rng(rows: int, seed: int) -> list[np.random.Generator]:
    """The same generator for all rows, one after the other: quicker for many rows."""
    return [np.random.default_rng(seed)] * rows


def noise_of(channel: LaplaceChannel, rows: int, width: int, training: bool) -> np.ndarray:
    """(rows, width) what the channel adds to random representations."""
    z = torch.randn(rows, width, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    if training:
        noisy = channel.perturb_in_training(z, np.random.default_rng(6))
    else:
        noisy = channel.perturb(z, rngs(rows))
    return (noisy - normalised(z)).numpy()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("scale", [0.2, 1.0, 20.0])
@pytest.mark.parametrize("width", [2, 24, 384])
def test_noise_has_the_laplace_density(width: int, scale: float, training: bool) -> None:
    noise = noise_of(LaplaceChannel(scale), 24_000 // width, width, training)
    assert stats.kstest(noise.ravel(), stats.laplace(scale=scale).cdf).pvalue > 1e-3
    # A wrong scale or the normal density of the same variance would be seen.
    for wrong in (stats.laplace(scale=1.15 * scale), stats.norm(scale=2**0.5 * scale)):
        assert stats.kstest(noise.ravel(), wrong.cdf).pvalue < 1e-6


@pytest.mark.parametrize("training", [False, True])
def test_coordinates_and_rows_have_noise_of_their_own(training: bool) -> None:
    noise = noise_of(LaplaceChannel(2.0), 3000, 6, training)
    for table in (noise, np.abs(noise)):
        between = np.corrcoef(table, rowvar=False)[np.triu_indices(6, 1)]
        after = [np.corrcoef(table[:-1, c], table[1:, c])[0, 1] for c in range(6)]
        assert np.abs([*between, *after]).max() < 4.5 / 3000**0.5


@pytest.mark.parametrize("training", [False, True])
def test_shared_noise_is_one_laplace_number_a_row(training: bool) -> None:
    noise = noise_of(LaplaceChannel(3.0, shared=True), 4000, 5, training)
    assert np.ptp(noise, axis=1).max() < 1e-4
    assert stats.kstest(noise[:, 0], stats.laplace(scale=3.0).cdf).pvalue > 1e-3


def test_shared_noise_goes_away_with_the_row_minimum() -> None:
    z = torch.randn(50, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    channel = LaplaceChannel(20.0, shared=True)
    shown = channel.perturb(z, rngs(50))
    assert (shown - normalised(z)).abs().mean() > 10
    assert (shown - shown.amin(dim=1, keepdim=True) - normalised(z)).abs().max() <= channel.step
    alone = LaplaceChannel(20.0).perturb(z, rngs(50))
    assert (alone - alone.amin(dim=1, keepdim=True) - normalised(z)).abs().mean() > 10


@given(
    arrays(np.float32, (3, 7), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_rows_lie_in_the_unit_cube_by_themselves(values: np.ndarray, dtype: torch.dtype) -> None:
    z = torch.from_numpy(values).to(dtype)
    rows = normalised(z)
    assert ((rows >= 0) & (rows <= 1)).all()
    for row, mapped in zip(z, rows, strict=True):
        assert torch.equal(normalised(row[None])[0], mapped)
        if row.max() > row.min():
            assert (mapped[row.argmin()], mapped[row.argmax()]) == (0, 1)


@pytest.mark.parametrize("value", [0.0, 7.0, -1e30])
def test_constant_rows_are_in_the_cube_too(value: float) -> None:
    z = torch.full((2, 4), value, requires_grad=True)
    rows = normalised(z)
    assert torch.equal(rows, torch.zeros(2, 4))
    rows.sum().backward()
    assert torch.isfinite(z.grad).all()


def test_a_row_is_normalised_linearly() -> None:
    z = torch.tensor([[-1.0, 0.0, 3.0], [5.0, 6.0, 5.5]])
    torch.testing.assert_close(normalised(z), torch.tensor([[0.0, 0.25, 1.0], [0.0, 1.0, 0.5]]))


def test_noise_is_that_of_the_generator_and_of_no_other_row() -> None:
    z = torch.randn(4, 9, generator=torch.Generator().manual_seed(1))
    equal = torch.cat([z[:1], z[:1]])
    channel = LaplaceChannel(1.0)
    whole = channel.perturb(z, rngs(4))
    assert torch.equal(whole, channel.perturb(z, rngs(4)))
    assert torch.equal(whole[2:3], channel.perturb(z[2:3], rngs(4)[2:3]))
    first, second = channel.perturb(equal, rngs(2))
    assert not torch.isclose(first, second).any()


# Floating point (Mironov 2012)


def test_every_output_is_possible_for_every_input() -> None:
    """Sums of doubles tell an input of 1 from 0 by their last bits; multiples of a step do not."""
    raw = np.stack([rng.laplace(size=40) for rng in rngs(200)])
    near = {at: (at + raw)[np.abs(at + raw) < 0.25] for at in (0.0, 1.0)}
    fine = {at: np.mean(np.remainder(sums, 2.0**-53) != 0) for at, sums in near.items()}
    assert fine[1.0] == 0
    assert fine[0.0] > 0.1
    channel = LaplaceChannel(1.0)
    corner = torch.tensor([[0.0, *[1.0] * 39]], dtype=torch.float64).expand(200, 40)
    for z in (corner, 1 - corner, torch.rand(200, 40, dtype=torch.float64)):
        steps = (channel.perturb(z, rngs(200)) / channel.step).numpy()
        assert (steps == np.rint(steps)).all()
        assert np.abs(steps).max() < 2**53


@given(st.floats(1e-6, 1e9))
def test_rounding_moves_no_input_out_of_the_cube(scale: float) -> None:
    step = LaplaceChannel(scale).step
    assert scale * 2.0**-20 < step <= scale * 2.0**-19
    rounded = np.rint(np.linspace(0, 1, 33) / step) * step
    assert np.ptp(rounded) <= 1


# What it claims and what holds, by attacks

ROWS = 20_000


def corners(width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two representations that stay what they are, at opposite corners: k apart in l1."""
    first = torch.tensor([0.0, *[1.0] * (width - 1)])
    return first, 1.0 - first


def likelihood_ratios(
    channel: LaplaceChannel, first: torch.Tensor, second: torch.Tensor, shown: torch.Tensor
) -> np.ndarray:
    """(rows,) log of the densities of what was shown, from the first and from the second."""
    apart = (shown - second).abs() - (shown - first).abs()
    return (apart.sum(dim=1) / channel.scale).double().numpy()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.05, 0.1])
def test_the_claimed_epsilon_is_refuted_at_384_coordinates(epsilon: float, seed: int) -> None:
    width = 384
    channel, (first, second) = LaplaceChannel(1 / epsilon), corners(width)
    scores = []
    for number, z in enumerate((first, second)):
        assert torch.equal(normalised(z[None])[0], z)
        shown = channel.perturb(z.expand(1500, width), one_rng(1500, seed + 10 * number))
        scores.append(likelihood_ratios(channel, first, second, shown))
    bound = epsilon_lower_bound(*scores, delta=0.0, confidence=1 - 1e-6)
    assert bound > 5 * epsilon
    assert bound < width * epsilon
    assert np.abs(scores).max() <= width * epsilon * (1 + 1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("width", "epsilon"), [(2, 1.0), (3, 0.5)])
def test_k_epsilon_holds_and_is_nearly_reached(width: int, epsilon: float, seed: int) -> None:
    channel, (first, second) = LaplaceChannel(1 / epsilon), corners(width)
    shown = [
        channel.perturb(z.expand(ROWS, width), one_rng(ROWS, seed + 10 * number))
        for number, z in enumerate((first, second))
    ]
    scores = [likelihood_ratios(channel, first, second, each) for each in shown]
    bound = epsilon_lower_bound(*scores, delta=0.0, confidence=1 - 1e-3)
    assert 0.8 * width * epsilon < bound <= width * epsilon


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("dropout", [0.2, 0.5, 0.8])
def test_the_bound_with_word_dropout_holds_and_is_nearly_reached(dropout: float, seed: int) -> None:
    """Texts of one word; what a dropped word becomes looks like the second word: the worst case."""
    width, epsilon = 2, 1.0
    channel, (first, second) = LaplaceChannel(1 / epsilon, dropout), corners(width)
    coins = np.random.default_rng(seed).random(ROWS) < dropout
    sent = torch.where(torch.from_numpy(coins)[:, None], second, first)
    shown = [channel.perturb(sent, one_rng(ROWS, seed)),
             channel.perturb(second.expand(ROWS, width), one_rng(ROWS, seed + 10))]  # fmt: skip
    scores = [likelihood_ratios(channel, first, second, each) for each in shown]
    bound = epsilon_lower_bound(*scores, delta=0.0, confidence=1 - 1e-3)
    proven = dropout_epsilon(width * epsilon, dropout)
    assert bound <= proven
    assert bound > 0.6 * proven
    # The paper's, of one coordinate, and what would hold if dropout scaled epsilon, are refuted.
    assert bound > dropout_epsilon(epsilon, dropout)
    if dropout >= 0.5:
        assert bound > (1 - dropout) * width * epsilon
