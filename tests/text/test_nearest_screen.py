"""Either precision of the screen, grouped or not, finds what float64 finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.text import nearest as _nearest
from uedp_bench.text import nearest_screen as _screen
from uedp_bench.text.nearest import Nearest
from uedp_bench.text.nearest_screen import Screen

PRECISIONS = ["bfloat16", "float32"]


def brute_force(queries, points, k, excluded=None):
    squared = ((queries[:, None, :] - np.asarray(points, dtype=np.float64)) ** 2).sum(axis=2)
    if excluded is not None:
        squared[np.arange(len(queries)), excluded] = np.inf
    return np.argsort(squared, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    dimension=st.integers(1, 40),
    points=st.integers(33, 200),
    k=st.integers(1, 4),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    shift=st.sampled_from([0.0, 100.0]),
    leave_out=st.booleans(),
)
def test_as_brute_force(precision, seed, dimension, points, k, scale, shift, leave_out):
    rng = np.random.default_rng(seed)
    table = (rng.normal(size=(points, dimension)) + shift).astype(np.float32)
    queries = table[rng.integers(points, size=20)] + scale * rng.normal(size=(20, dimension))
    excluded = rng.integers(points, size=20) if leave_out else None
    expected = brute_force(queries, table, k, excluded)
    for grouped in (1, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_nearest, "_GROUPED", grouped)
            search = Nearest(table, precision=precision)
        assert np.array_equal(search(queries, k, excluded)[0], expected)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("k", [1, 2])
def test_near_ties_that_the_screen_cannot_tell(monkeypatch, precision, k):
    """Rings of points at nearly one distance from their queries, and copies of points."""
    monkeypatch.setattr(_nearest, "_GROUPED", 1)
    rng = np.random.default_rng(7)
    direction = rng.normal(size=(400, 12))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    ring = (1 + 1e-6 * rng.normal(size=(400, 1))) * direction
    table = np.concatenate([ring, ring[:50], 10 + rng.normal(size=(100, 12))])
    queries = 1e-6 * rng.normal(size=(60, 12))
    search = Nearest(table, precision=precision)
    expected = brute_force(queries, table, k)
    # The scores alone would be wrong.
    scores, _ = search._screen(queries)
    assert (scores.float().argmin(1).numpy() != expected[:, 0]).mean() > 0.3
    assert np.array_equal(search(queries, k)[0], expected)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 50.0])
def test_bound_covers_the_error_of_every_score(precision, scale):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(500, 64)) * rng.gamma(2.0, 1.0, size=(500, 1)) + 3.0
    queries = points[:100] + scale * rng.normal(size=(100, 64))
    scores, error = Screen(points, "cpu", precision)(queries)
    mean = points.mean(axis=0)
    x, y = queries - mean, points - mean
    true = (y**2).sum(axis=1) / 2 - x @ y.T
    found = scores.double().numpy()
    unit = _screen._UNIT[precision]
    assert (np.abs(found - true) <= error[:, None] + unit * np.abs(found)).all()
    # It is no vacuous bound either.
    assert np.median(error) < (0.1 if precision == "bfloat16" else 1e-3) * np.ptp(true)


def test_without_native_bfloat16_or_onednn(monkeypatch):
    rng = np.random.default_rng(1)
    table, queries = rng.normal(size=(300, 10)), rng.normal(size=(50, 10))
    expected = brute_force(queries, table, 3)
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    assert np.array_equal(Nearest(table)(queries, 3)[0], expected)
    monkeypatch.setattr(_screen, "_ROWS", "not a number of rows")
    assert np.array_equal(Nearest(table)(queries, 3)[0], expected)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert np.array_equal(Nearest(table)(queries, 3)[0], expected)


def test_points_that_are_all_one():
    table = np.ones((40, 5))
    assert Nearest(table)(np.zeros((3, 5)), 2)[0].tolist() == [[0, 1]] * 3
