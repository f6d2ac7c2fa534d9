"""Corollary A.2: rounds of a fixed number of units, over every sample of small populations."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import norm

from uedp_bench.accounting.accountants.user_entity import dominating_pairs, user_entity_epsilon
from uedp_bench.accounting.events import FixedSizeSampled, Gaussian, PoissonSampled, Protected

ALONE = Protected(spread=0)
EPSILONS = np.array([-2.0, -0.5, -0.1, 0.0, 0.2, 0.7, 1.5, 3.0])


def masses(vectors, sample, noise, edges):
    """Masses of cells under the mean of all samples of the vectors, summed and noised."""
    samples = list(combinations(vectors, sample))
    cells = [np.diff(norm.cdf((edges - sum(chosen)) / noise)) for chosen in samples]
    return np.sum(cells, axis=0) / len(samples)


def divergences(p, q):
    return np.array([np.maximum(p - math.exp(e) * q, 0.0).sum() for e in EPSILONS])


@pytest.mark.parametrize("noise", [0.6, 1.0, 2.5])
@pytest.mark.parametrize(("population", "sample"), [(3, 1), (4, 2), (4, 3), (3, 3)])
def test_no_population_exceeds_the_pair_of_a_replaced_unit(population, sample, noise):
    """Cells are post-processing, so what exceeds the curve would refute it."""
    reach = 4 + 7 * noise
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach, 1500), [np.inf]])
    event = FixedSizeSampled(
        population=population, sample=sample, event=Gaussian(noise_multiplier=noise)
    )
    curve = dominating_pairs(event, ALONE)[0].deltas(EPSILONS)
    largest = np.zeros(EPSILONS.size)
    for others in product((-1.0, 0.0, 1.0), repeat=population - 1):
        for mine, theirs in product((-1.0, 0.0, 1.0), repeat=2):
            p, q = (masses((*others, own), sample, noise, edges) for own in (mine, theirs))
            largest = np.maximum(largest, divergences(p, q))
    assert (largest <= curve + 1e-12).all()
    if sample < population:
        # Above 0 it is attained: everybody else sends -1, and the replaced unit 1 or -1.
        assert largest[4:] == pytest.approx(curve[4:], rel=3e-3, abs=1e-7)


@pytest.mark.parametrize(("population", "sample"), [(3, 1), (4, 2), (5, 3)])
def test_a_unit_that_is_added_takes_the_place_of_another(population, sample):
    noise = 1.0
    edges = np.concatenate([[-np.inf], np.linspace(-9, 9, 1500), [np.inf]])
    half = PoissonSampled(rate=sample / population, event=Gaussian(noise_multiplier=noise / 2))
    remove, add = (pair.deltas(EPSILONS) for pair in dominating_pairs(half, ALONE))
    largest, other = np.zeros(EPSILONS.size), np.zeros(EPSILONS.size)
    for others in product((-1.0, 0.0, 1.0), repeat=population - 1):
        q = masses(others, sample, noise, edges)
        for own in (-1.0, 0.0, 1.0):
            p = masses((*others, own), sample, noise, edges)
            largest = np.maximum(largest, divergences(p, q))
            other = np.maximum(other, divergences(q, p))
    assert (largest <= remove + 1e-12).all()
    assert (other <= add + 1e-12).all()
    assert largest == pytest.approx(remove, rel=2e-3)
    assert other == pytest.approx(add, rel=2e-3, abs=1e-9)


def test_what_counts_the_move_once_is_refuted():
    """The accountant that takes z as if a user moved the sum once is below what is attained."""
    noise, edges = 1.0, np.concatenate([[-np.inf], np.linspace(-9, 9, 1500), [np.inf]])
    p, q = (masses(v, 2, noise, edges) for v in ((-1.0, -1.0, -1.0, 1.0), (-1.0, -1.0, -1.0)))
    once = PoissonSampled(rate=0.5, event=Gaussian(noise_multiplier=noise))
    claimed = max(pair.deltas(np.array([1.0]))[0] for pair in dominating_pairs(once, ALONE))
    attained = np.maximum(p - math.e * q, 0.0).sum()
    assert attained > 1.5 * claimed


def test_rounds_of_a_replaced_unit_compose():
    event = FixedSizeSampled(population=10, sample=2, event=Gaussian(noise_multiplier=2.0))
    values = [user_entity_epsilon(((event, n),), ALONE, 1e-5) for n in (1, 10, 100)]
    assert values == sorted(values)
    split = user_entity_epsilon(((event, 60), (event, 40)), ALONE, 1e-5)
    assert split == pytest.approx(values[2], rel=1e-6)
