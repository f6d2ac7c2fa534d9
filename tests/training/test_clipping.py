"""Clipping bounds what a unit contributes, whatever it sends; noise has the stated variance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from uedp_bench.training.clipping import clipped_sum
from uedp_bench.training.noise import GaussianNoise

VALUES = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(VALUES, min_size=4, max_size=4), min_size=2, max_size=6), st.floats(1e-3, 1e3)
)
def test_adding_one_unit_never_changes_the_sum_by_more_than_the_bound(
    rows: list[list[float]], bound: float
) -> None:
    updates = torch.tensor(rows, dtype=torch.float32)
    weights = torch.ones(len(rows))
    with_all, _ = clipped_sum(updates, bound, weights)
    without, _ = clipped_sum(updates[:-1], bound, weights[:-1])
    change = torch.linalg.vector_norm(with_all.double() - without.double())
    slack = 1e-6 * bound * len(rows)  # float32 rounding of the sum itself
    assert torch.isfinite(with_all).all()
    assert float(change) <= bound + slack


@pytest.mark.parametrize("units", [1, 3])
def test_units_are_added_to_the_sum_of_others(units: int) -> None:
    updates = torch.randn(units + 2, 50, generator=torch.Generator().manual_seed(1))
    updates[-1, 3] = torch.nan
    weights = torch.linspace(0.2, 1.0, units + 2)
    others, before = clipped_sum(updates[units:], 0.5, weights[units:])
    unit_sum, norms = clipped_sum(updates[:units], 0.5, weights[:units], others)
    whole, all_norms = clipped_sum(updates, 0.5, weights)
    torch.testing.assert_close(unit_sum, whole)
    assert torch.equal(torch.cat([norms, before]), all_norms)
    assert unit_sum is others
    nothing, _ = clipped_sum(updates[-1:], 0.5, weights[-1:], others.clone())
    assert torch.equal(nothing, others)


def test_short_updates_pass_and_long_ones_end_at_the_bound() -> None:
    updates = torch.tensor([[0.3, 0.4], [30.0, 40.0]])
    short, _ = clipped_sum(updates[:1], 1.0, torch.ones(1))
    long, norms = clipped_sum(updates[1:], 1.0, torch.ones(1))
    assert short.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)
    assert long.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
    assert norms.tolist() == [50.0]


@pytest.mark.parametrize("shape", ["flat", "spike"])
def test_many_weights_do_not_round_an_update_past_the_bound(shape: str) -> None:
    updates = torch.full((1, 2**21), 0.1 if shape == "flat" else 1e-4)
    updates[0, 0] = 0.1 if shape == "flat" else 1.0
    total, _ = clipped_sum(1e3 * updates, 0.3, torch.ones(1))
    assert 0.3 * (1 - 1e-5) <= float(torch.linalg.vector_norm(total.double())) <= 0.3


@pytest.mark.parametrize("largest", [1e30, 1e36, 3.4026228733543085e38])
def test_factors_too_small_for_float32_do_not_let_an_update_out_of_its_bound(
    largest: float,
) -> None:
    total, _ = clipped_sum(torch.tensor([[0.0, largest]]), 0.0625, torch.ones(1))
    assert float(total.double().norm()) <= 0.0625


def test_an_update_that_is_not_finite_counts_as_nothing() -> None:
    updates = torch.tensor([[float("nan"), 1.0], [float("inf"), 0.0], [0.1, 0.0]])
    total, norms = clipped_sum(updates, 1.0, torch.ones(3))
    assert total.tolist() == pytest.approx([0.1, 0.0], rel=1e-5)
    assert torch.isinf(norms[:2]).all()
    unclipped, _ = clipped_sum(updates, float("inf"), torch.ones(3))
    assert unclipped.tolist() == pytest.approx([0.1, 0.0], rel=1e-5)


def test_noise_has_the_stated_distribution() -> None:
    added = GaussianNoise()
    noise = added.add(torch.zeros(50_000), 2.5, np.random.default_rng(1)).double().numpy()
    assert added.stds == [2.5]
    assert stats.kstest(noise, "norm", args=(0, 2.5)).pvalue > 1e-3
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], len(noise)) / len(noise)
    assert low < np.mean(noise**2) / 2.5**2 < high
