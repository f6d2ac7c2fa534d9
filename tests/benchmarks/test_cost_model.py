"""The law of what a round costs finds known terms again, and its intervals cover the truth."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"
TERMS = np.array([5e-6, 5e-12, 4e-11, 1e-8])


@pytest.fixture
def model():
    return importlib.import_module("cost_model")


def rounds(rng, points: int) -> np.ndarray:
    """Counts of rounds of very different sizes."""
    least, most = [500, 5e7, 1e7, 5e4], [50_000, 5e10, 5e9, 5e6]
    return np.exp(rng.uniform(np.log(least), np.log(most), size=(points, 4)))


def test_known_terms_are_found_again(model):
    counts = rounds(np.random.default_rng(0), 40)
    exact = model.fitted(counts, counts @ TERMS, draws=20)
    np.testing.assert_allclose(exact.terms, TERMS, rtol=1e-6)
    noisy = (counts @ TERMS) * np.exp(np.random.default_rng(1).normal(0, 0.05, 40))
    found = model.fitted(counts, noisy, draws=20)
    np.testing.assert_allclose(found.terms, TERMS, rtol=0.25)
    # Small rounds count as much as large ones: in absolute error, only the largest would.
    np.testing.assert_allclose(found.seconds(counts), counts @ TERMS, rtol=0.1)


def test_a_term_that_is_not_there_is_none_and_never_negative(model):
    rng = np.random.default_rng(2)
    counts = rounds(rng, 40)
    without = np.array([5e-6, 0.0, 4e-11, 0.0])
    found = model.fitted(counts, (counts @ without) * np.exp(rng.normal(0, 0.02, 40)), draws=50)
    assert (found.terms >= 0).all()
    assert (found.resampled >= 0).all()
    assert found.terms[1] < 1e-13


def test_intervals_cover_the_truth_as_often_as_they_say(model):
    rng = np.random.default_rng(3)
    means, news, shown = [], [], 60
    for _ in range(shown):
        counts, new = rounds(rng, 14), rounds(rng, 4)
        fit = model.fitted(counts, (counts @ TERMS) * np.exp(rng.normal(0, 0.15, 14)), draws=200)
        low, high = fit.interval(new)
        means.append((low <= new @ TERMS) & (new @ TERMS <= high))
        measured = (new @ TERMS) * np.exp(rng.normal(0, 0.15, 4))
        low, high = fit.of_new(new)
        news.append((low <= measured) & (measured <= high))
    # 14 points and 4 terms: resampling is somewhat too sure of the mean.
    assert 0.75 < np.mean(means) <= 1.0
    assert 0.85 < np.mean(news) <= 1.0
    # Intervals that said nothing would cover everything: they are as narrow as the points allow.
    assert (np.log(high / low) < 1.6).all()


def test_memory_is_what_is_held_and_what_comes_besides(model):
    rng = np.random.default_rng(4)
    held = [{"one": 1.0, "held": float(each)} for each in np.exp(rng.uniform(0, 7, size=40))]
    counts = model.table(held, model.MEMORY)
    assert counts.shape == (40, 2)
    used = (counts @ [40.0, 1.2]) * np.exp(rng.normal(0, 0.03, 40))
    found = model.fitted(counts, used, draws=50)
    np.testing.assert_allclose(found.terms, [40.0, 1.2], rtol=0.05)


def test_what_tensors_hold_at_once_is_counted(model):
    counting = importlib.import_module("cost_counting")
    before = torch.zeros(10_000)  # was there: it is not counted
    with counting.Counting() as seen:
        one = torch.zeros(1_000)
        two = one + 1
        del one
        view = two.view(10, 100)  # the same memory
        del two
        three = view + 1  # with `view` 8,000 bytes, as `one` and `two` were
        del view
        before.add_(1)
        last = torch.zeros(10)
    assert (seen.peak, three.numel(), last.numel()) == (8_000, 1_000, 10)


def test_rounds_that_took_no_time_are_refused(model):
    with pytest.raises(ValueError, match="took no time"):
        model.fitted(np.ones((5, 4)), np.array([1.0, 1.0, 0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="2 points cannot tell 2 terms"):
        model.fitted(np.ones((2, 2)), np.ones(2))


def test_a_product_is_counted_as_it_is(model):
    counting = importlib.import_module("cost_counting")
    x, weight = torch.ones(3, 5), torch.ones(7, 5, requires_grad=True)
    with counting.Counting() as seen:
        (x @ weight.t()).sum().backward()
    # Forward and the gradient of the weight: no gradient of x is asked for.
    assert seen.counts.flops == 2 * (2 * 3 * 5 * 7)
    with counting.Counting() as views:
        x.view(5, 3).t()
    assert views.counts == counting.Counts(0, 0, 0)
    with counting.Counting() as sums:
        torch.add(x, x)
    assert sums.counts == counting.Counts(1, 0, 3 * 15 * 4)
    table, ids = torch.ones(1_000, 4), torch.tensor([1, 2])
    with counting.Counting() as rows:  # two of the table's rows are read
        torch.nn.functional.embedding(ids, table)
    assert rows.counts.bytes == 2 * (2 * 4) * 4


def test_a_grouped_convolution_counts_its_groups(model):
    counting = importlib.import_module("cost_counting")
    x = torch.ones(1, 4, 10, requires_grad=True)
    weight = torch.ones(6, 2, 3, requires_grad=True)
    with counting.Counting() as seen:
        torch.nn.functional.conv1d(x, weight, groups=2).sum().backward()
    assert seen.counts.flops == 3 * (2 * 6 * 8 * 2 * 3)  # forward, and both gradients
