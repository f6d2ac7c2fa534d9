"""Delta of a noisy histogram is reached, and exact divergences never exceed what it promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from pydantic import ValidationError

from uedp_bench.accounting.accountants.basic_composition import group_delta, promises
from uedp_bench.accounting.event_contract import read_event
from uedp_bench.accounting.events import Gaussian, PrivacyEvent, Repeated
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.protocol_events import NoisyHistogram, histogram_threshold, seen_alone

SIZES = [(0.7, 1), (5.0, 4), (2.0, 9), (30.0, 6), (0.5, 5)]


def passes(count: float, scale: float, threshold: float) -> float:
    """How often a count with Laplace noise exceeds the threshold."""
    x = (threshold - count) / scale
    return 0.5 * math.exp(-x) if x >= 0 else 1.0 - 0.5 * math.exp(x)


def partitions(total: int, most: int) -> list[tuple[int, ...]]:
    if total == 0:
        return [()]
    return [
        (first, *rest)
        for first in range(min(total, most), 0, -1)
        for rest in partitions(total - first, first)
    ]


@pytest.mark.parametrize(("scale", "words"), SIZES)
@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.2])
def test_delta_holds_for_all_words_of_a_unit_and_is_nearly_reached(scale, words, delta):
    threshold = histogram_threshold(scale, words, delta)
    assert seen_alone(scale, words, threshold) <= delta
    sums = [
        math.fsum(passes(count, scale, threshold) for count in counts)
        for length in range(1, words + 1)
        for counts in partitions(length, length)
    ]
    assert max(sums) <= delta * (1 + 1e-9)
    if threshold > max(words, 1) * 1.0001:
        assert max(sums) > 0.999 * delta


@pytest.mark.parametrize(
    ("scale", "words", "threshold", "delta"),
    [(1e-310, 10, 5.0, 1.0), (1e-310, 10, 11.0, 0.0), (1e-310, 1, 1e5, 0.0), (5e-324, 1, 1.0, 0.5)],
)
def test_a_tiny_scale_gives_a_probability(scale, words, threshold, delta):
    event = NoisyHistogram(scale=scale, words=words, threshold=threshold)
    promise = promises(event, "add-or-remove")
    assert promise.delta == delta


@pytest.mark.parametrize("field", ["scale", "words", "threshold"])
@pytest.mark.parametrize("value", [math.inf, math.nan, 10**400])
def test_numbers_that_no_run_has_are_refused(field, value):
    with pytest.raises(ValidationError, match=field):
        NoisyHistogram(**{"scale": 1.0, "words": 2, "threshold": 5.0, field: value})


def test_the_bound_holds_below_the_threshold_too():
    for count in (1, 3, 50):
        assert passes(count, 2.0, 3.0) <= 0.5 * math.exp((count - 3.0) / 2.0) + 1e-15


def law(count: int, scale: float, threshold: float, edges: np.ndarray) -> np.ndarray:
    """Probabilities of not passing and of noisy counts between edges; 0 has no noise."""
    if count == 0:
        return np.array([1.0, *np.zeros(len(edges) - 1)])
    tails = np.array([passes(count, scale, edge) for edge in edges])
    return np.array([1.0 - tails[0], *(tails[:-1] - tails[1:])])


@pytest.mark.parametrize(("scale", "words", "delta"), [(2.0, 2, 1e-3), (1.0, 3, 0.05)])
@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
def test_no_two_histograms_are_told_apart_better_than_promised(scale, words, delta, adjacency):
    """Hockey-stick divergences of three words' noisy counts, for all changes of one unit."""
    threshold = histogram_threshold(scale, words, delta)
    event = NoisyHistogram(scale=scale, words=words, threshold=threshold)
    promise = promises(event, adjacency)
    edges = np.array([threshold, *(threshold + scale * np.linspace(0.2, 12, 7)), np.inf])
    units = [u for u in itertools.product(range(words + 1), repeat=3) if sum(u) <= words]
    pairs = (
        [(a, b) for a in units for b in units]
        if adjacency == "replace-one"
        else [(u, (0, 0, 0)) for u in units] + [((0, 0, 0), u) for u in units]
    )
    largest = 0.0
    for others in [(0, 0, 0), (0, 2, 5), (1, 9, 0)]:
        laws_by_count = {n: law(n, scale, threshold, edges) for n in range(max(others) + words + 1)}
        for one, other in pairs:
            laws = []
            for unit in (one, other):
                factors = [laws_by_count[o + u] for o, u in zip(others, unit, strict=True)]
                laws.append(np.einsum("i,j,k->ijk", *factors))
            gap = np.maximum(laws[0] - math.exp(promise.epsilon) * laws[1], 0.0).sum()
            largest = max(largest, float(gap))
    assert largest <= promise.delta * (1 + 1e-9)
    assert largest > 0.3 * delta  # somebody's own words do show


def test_a_replaced_unit_costs_less_than_group_privacy_says():
    event = NoisyHistogram(scale=2.0, words=4, threshold=20.0)
    once, twice = promises(event, "add-or-remove"), promises(event, "replace-one")
    assert twice.epsilon == 2 * once.epsilon == 4.0
    assert twice.delta == 2 * once.delta < group_delta(once.epsilon, once.delta, 2)


def test_the_ledger_adds_it_to_training_and_charges_its_delta():
    event = NoisyHistogram(scale=4.0, words=2, threshold=histogram_threshold(4.0, 2, 4e-6))
    assert read_event(event.model_dump(mode="json")) == event
    noisy = PrivacyEvent(unit="record", event=event, stage="dp-vocabulary")
    trained = PrivacyEvent(
        unit="record", event=Repeated(count=3, event=Gaussian(noise_multiplier=4.0)), stage="train"
    )
    (alone,) = proven([noisy], delta=1e-5)
    assert (alone.epsilon, alone.delta) == (0.5, pytest.approx(4e-6))
    (both,) = proven([noisy, trained], delta=1e-5)
    (training,) = proven([trained], delta=1e-5 - alone.delta)
    assert 0.9 * (0.5 + training.epsilon) < both.epsilon <= 0.5 + training.epsilon
    (cheaper,) = proven([trained], delta=1e-5)
    assert training.epsilon > cheaper.epsilon
    (spent,) = proven([noisy, trained], delta=3e-6)
    assert math.isinf(spent.epsilon) and "delta" in spent.reason
    (other,) = proven([noisy, trained.model_copy(update={"unit": "user"})], delta=1e-5)[:1]
    assert math.isinf(other.epsilon)
