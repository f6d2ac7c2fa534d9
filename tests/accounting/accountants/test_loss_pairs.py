"""Laplace vectors and promises by privacy losses, beside dp-accounting and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism
from scipy.optimize import brentq
from scipy.stats import binom, norm

from uedp_bench.accounting.accountants import loss_pairs
from uedp_bench.accounting.accountants.basic_composition import before_dropout, promises
from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.accountants.dominating_pairs import IDENTICAL
from uedp_bench.accounting.accountants.loss_pairs import laplace_pair, promised_pair
from uedp_bench.accounting.event_contract import Promise
from uedp_bench.accounting.events import (
    ApproximateDP,
    Gaussian,
    LaplaceVector,
    MetricPrivacy,
    PrivacyEvent,
    Protected,
    PureDP,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.ledger import proven, proven_at
from uedp_bench.accounting.protocol_events import Parallel

ANY = "replace-one"
DELTA = 1e-5


def vector(epsilon: float, coordinates: int, dropout: float = 0.0) -> LaplaceVector:
    return LaplaceVector(
        scale=1.0 / epsilon, sensitivity=float(coordinates), coordinates=coordinates,
        dropout=dropout,
    )  # fmt: skip


@pytest.mark.parametrize(("each", "tight", "summed"), [(0.05, 6.34, 38.4), (0.1, 14.69, 76.8)])
def test_a_vector_is_worth_far_less_at_a_delta(each, tight, summed):
    answer = compose([vector(each, 768)], ANY, DELTA)
    assert (answer.epsilon, answer.pure) == (pytest.approx(tight, abs=0.005), summed)
    library = from_laplace_mechanism(1.0 / each, value_discretization_interval=each / 64)
    expected = library.self_compose(768).get_epsilon_for_delta(DELTA)
    assert answer.epsilon == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.9])
@pytest.mark.parametrize(("shift", "coordinates"), [(0.7, 1), (0.7, 2), (3.0, 2), (0.2, 3)])
def test_divergences_are_no_less_than_brute_force(shift, coordinates, dropout):
    """All cells of a grid of outcomes: merging outcomes into cells only lowers a divergence."""
    cells_each = 120 if coordinates < 3 else 80
    edges = np.concatenate([[-np.inf], np.linspace(-9.0, 9.0 + shift, cells_each), [np.inf]])

    def cells(centre):
        z = edges - centre
        with np.errstate(over="ignore"):
            cdf = np.where(z < 0, 0.5 * np.exp(np.minimum(z, 0)), 1 - 0.5 * np.exp(-np.abs(z)))
        return np.diff(cdf)

    def law(centre):
        total = np.ones(1)
        for _ in range(coordinates):
            total = np.multiply.outer(total, cells(centre)).ravel()
        return total

    # The element dropped is a third vector of the box; halfway is one of the worst.
    worst = np.zeros(9)
    epsilons = np.linspace(-1.5, 1.2 * shift * coordinates, 9)
    for dropped in (0.0, shift / 2.0, shift):
        sides = [dropout * law(dropped) + (1 - dropout) * law(at) for at in (0.0, shift)]
        for p, q in itertools.permutations(sides):
            exact = np.maximum(p[:, None] - np.exp(epsilons) * q[:, None], 0.0).sum(axis=0)
            worst = np.maximum(worst, exact)
    pair = laplace_pair(shift, coordinates, dropout)
    ours = pair.deltas(epsilons)
    assert np.all(ours >= worst - 1e-9)
    assert np.all(ours <= worst + 0.05) or coordinates == 3  # for three the cells are wide


@pytest.mark.parametrize("steps", [1, 3, 16, 64])
def test_a_coarser_grid_costs_no_less(steps):
    epsilons = np.linspace(-3.0, 12.0, 61)
    fine = loss_pairs.LaplacePair(0.1, 500, 0.2, 128).deltas(epsilons)
    coarse = loss_pairs.LaplacePair(0.1, 500, 0.2, steps).deltas(epsilons)
    assert np.all(coarse >= fine - 1e-9)  # the bound on rounding aside


def test_one_coordinate_has_a_closed_form():
    epsilons = np.linspace(0.0, 2.0, 129)  # grid points
    expected = np.maximum(-np.expm1((epsilons - 2.0) / 2.0), 0.0)
    assert laplace_pair(2.0, 1, 0.0).deltas(epsilons) == pytest.approx(expected, abs=1e-12)
    # Of the shift itself only numerical zeros are left.
    assert laplace_pair(2.0, 1, 0.0).deltas(np.array([2.0, 5.0])).max() < 1e-12


def test_dropout_composes_with_the_closed_form_at_delta_zero():
    """No epsilon exceeds ln((1 - mu) e^(k epsilon) + mu), whatever delta is."""
    for dropout in (0.1, 0.5, 0.99):
        for delta in (1e-2, 1e-5, 1e-11):
            answer = compose([vector(0.05, 96, dropout)], ANY, delta)
            plain = compose([vector(0.05, 96)], ANY, delta / (1 - dropout))
            assert before_dropout(answer.epsilon, dropout) == pytest.approx(plain.epsilon, rel=5e-3)
    assert compose([vector(0.05, 96, 1.0)], ANY, DELTA).epsilon == 0.0
    assert laplace_pair(0.0, 5, 0.0) is IDENTICAL


@pytest.mark.parametrize(
    ("scale", "sensitivity", "coordinates"),
    [(1e6, 1e12, 10**12), (1e-300, 1.0, 1), (1.0, 1e4, 2), (1e-3, 768.0, 768), (1e300, 1.0, 9)],
)
def test_extreme_vectors_end_in_the_sum_or_below(scale, sensitivity, coordinates):
    event = LaplaceVector(scale=scale, sensitivity=sensitivity, coordinates=coordinates)
    assert compose([event], ANY, DELTA).epsilon <= promises(event, ANY).epsilon


# ------------------------------------------------------------------------------------- promises


def of_gaussian(epsilon: float, shift: float) -> float:
    tail = norm.logcdf(-shift / 2 - epsilon / shift)
    return norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon + tail)


@pytest.mark.parametrize("times", [1, 2, 7, 30])
@pytest.mark.parametrize("lost", [0.0, 1e-7])
def test_promises_beside_noise_cost_what_their_worst_pairs_do(times, lost):
    """Sums of the losses of randomised response, averaged over a Gaussian mechanism's delta."""
    each, noise = 1.28 / times, 2.5
    likely = 1.0 / (1.0 + math.exp(-each))
    losses = {each * (2 * k - times): binom.pmf(k, times, likely) for k in range(times + 1)}
    survives = (1.0 - lost) ** times

    def delta_of(epsilon):
        inside = sum(p * of_gaussian(epsilon - at, 1 / noise) for at, p in losses.items())
        return 1.0 - survives + survives * inside

    expected = brentq(lambda e: delta_of(e) - DELTA, 0.0, 9.0, xtol=1e-12)
    event = ApproximateDP(epsilon=each, delta=lost)
    answer = compose([Repeated(count=times, event=event), Gaussian(noise_multiplier=noise)],
                     "add-or-remove", DELTA)  # fmt: skip
    summed = answer.values["pld + basic"]
    assert expected * (1 - 1e-9) <= answer.values.get("pairs-pld", answer.epsilon)
    assert answer.epsilon == pytest.approx(min(summed, expected), rel=1.1e-2)
    assert answer.epsilon <= summed


def test_many_promises_compose_below_their_sum_and_keep_it():
    (one,) = proven([PrivacyEvent(unit="record", event=Repeated(count=100,
                     event=PureDP(epsilon=0.05)))], delta=DELTA)  # fmt: skip
    assert (one.delta, one.pure) == (DELTA, pytest.approx(5.0))
    assert 1.95 < one.epsilon < 1.98
    events = [PrivacyEvent(unit="record", event=PureDP(epsilon=0.05))]
    (alone,) = proven(events, delta=DELTA)
    assert (alone.epsilon, alone.delta, alone.pure) == (0.05, 0.0, None)
    assert proven_at(events, unit="record", adjacency="add-or-remove", delta=0.1,
                     point=Protected(spread=0)) == 0.0  # fmt: skip


def test_parts_give_the_worst_of_both_values():
    parts = Parallel(parts=((vector(0.05, 768),), (PureDP(epsilon=2.0),)), replaced_inside=True)
    answer = compose([parts], ANY, DELTA)
    assert (answer.epsilon, answer.pure) == (pytest.approx(6.338, rel=1e-3), 38.4)


def test_promises_compose_at_every_point_of_a_curve():
    rounds = Repeated(count=20, event=UserEntityGaussian(rate=0.1, noise_multiplier=5.0, users=40))
    noisy = PrivacyEvent(unit="user-entity", event=rounds)
    many = PrivacyEvent(unit="user-entity", event=Repeated(count=50, event=PureDP(epsilon=0.02)))
    (without, _), (both, _) = proven([noisy], delta=DELTA), proven([noisy, many], delta=DELTA)
    assert [p.spread for p in both.curve] == [p.spread for p in without.curve]
    for point, less in zip(both.curve, without.curve, strict=True):
        assert less.epsilon < point.epsilon <= less.epsilon + 1.0 + 1e-9  # 50 times 0.02
    assert both.curve[0].epsilon < without.curve[0].epsilon + 0.7


def test_metric_privacy_is_only_added_up():
    answer = compose([Repeated(count=40, event=MetricPrivacy(epsilon=0.1, metric="l2"))], ANY, 0.1)
    assert (answer.epsilon, answer.accountant, answer.pure) == (pytest.approx(4.0), "metric", None)


def test_promises_too_large_for_a_grid_have_no_pair():
    assert promised_pair(Promise(1e6)) is None
    assert promised_pair(Promise(math.inf)) is None
    answer = compose([Repeated(count=3, event=PureDP(epsilon=1e6))], ANY, DELTA)
    assert (answer.epsilon, answer.accountant) == (3e6, "basic")
