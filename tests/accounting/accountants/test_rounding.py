"""Rounding of Fourier transforms never lowers an epsilon, and costs little where it can show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from scipy.fft import irfft, next_fast_len, rfft

from uedp_bench.accounting.accountants import dp_accounting_losses
from uedp_bench.accounting.accountants.dp_accounting import (
    library_epsilons,
    pld_epsilon,
    to_dp_event,
)
from uedp_bench.accounting.accountants.dp_accounting_losses import composed
from uedp_bench.accounting.accountants.privacy_loss_grid import Losses, Round, discretise
from uedp_bench.accounting.accountants.user_entity import dominating_pairs, user_entity_epsilon
from uedp_bench.accounting.events import Gaussian, PoissonSampled, Protected


def sampled(rate: float, noise: float) -> PoissonSampled:
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))


def tilted_delta(part: Losses, rounds: int, epsilon: float) -> float:
    """Delta of the composition with masses weighted so that their mean lies at epsilon."""
    index = np.arange(part.masses.size)
    target = epsilon / part.step - part.first * rounds

    def weighted(order: float) -> tuple[np.ndarray, float]:
        exponents = np.log(np.maximum(part.masses, 1e-300)) + order * index
        log_moment = float(np.logaddexp.reduce(exponents))
        return np.exp(exponents - log_moment), log_moment

    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2.0
        below = rounds * float(weighted(middle)[0] @ index) < target
        low, high = (middle, high) if below else (low, middle)
    masses, log_moment = weighted(high)
    deviation = np.sqrt(rounds * float(masses @ (index - masses @ index) ** 2))
    first, last = int(target - 12 * deviation), int(target + 12 * deviation)
    size = next_fast_len(max(last - first + 1, index.size), real=True)
    composed = np.roll(irfft(rfft(masses, size) ** rounds, size), -(first % size))
    where = np.arange(first, last + 1)
    loss = part.step * (part.first * rounds + where)
    back = np.exp(rounds * log_moment - high * where) * -np.expm1(epsilon - loss)
    return float((composed[: where.size] * back)[loss > epsilon].sum())


@pytest.mark.parametrize(("rate", "noise", "rounds"), [(0.1, 50.0, 100_000), (0.5, 30.0, 5_000)])
@pytest.mark.parametrize("delta", [1e-10, 1e-12])
def test_small_deltas_are_met_by_users_alone(
    rate: float, noise: float, rounds: int, delta: float
) -> None:
    event = sampled(rate, noise)
    epsilon = pld_epsilon([(event, rounds)], "add-or-remove", delta)
    pair, _ = dominating_pairs(event, Protected(spread=0))
    window = pair.window()
    part = discretise(Round(((1.0, pair),), rounds), [window], window.deviation / 300)
    assert 0.2 * delta < tilted_delta(part, rounds, epsilon) <= delta


def test_a_heavy_tail_costs_no_more_than_dp_accounting_says() -> None:
    event = sampled(0.001, 0.7)
    ours = user_entity_epsilon(((event, 10_000),), Protected(spread=0), 1e-5)
    assert ours == pytest.approx(pld_epsilon([(event, 10_000)], "add-or-remove", 1e-5), rel=1e-3)


def test_any_number_of_rounds_has_an_epsilon() -> None:
    epsilon = pld_epsilon([(sampled(0.1, 5e5), 10**12)], "add-or-remove", 1e-5)
    assert 0.0 < epsilon < 10.0  # as if everybody took part: two standard deviations


def test_next_to_no_noise_is_no_error() -> None:
    """Losses are larger than the exponential of any float."""
    epsilons = library_epsilons([(sampled(0.3, 1e-6), 10)], "add-or-remove", 1e-5)
    assert epsilons["pld"] > 1e12
    assert epsilons["rdp"] > 1e9


RELATIONS = {
    "add-or-remove": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "replace-one": NeighboringRelation.REPLACE_ONE,
}


@pytest.mark.parametrize("adjacency", RELATIONS)
def test_rounds_are_composed_once_for_all_deltas(monkeypatch, adjacency) -> None:
    steps = []

    def counted(rounds, adjacency, step):
        steps.append(step)
        return composed(rounds, adjacency, step)

    monkeypatch.setattr(dp_accounting_losses, "composed", counted)
    rounds = [(sampled(0.31, 0.91), 3)]
    first = [pld_epsilon(rounds, adjacency, delta) for delta in (1e-5, 1e-6)]
    assert [pld_epsilon(rounds, adjacency, delta) for delta in (1e-5, 1e-6)] == first
    assert len(steps) == 1
    accountant = PLDAccountant(RELATIONS[adjacency], steps[0])
    accountant.compose(to_dp_event(rounds[0][0]), 3)
    assert first == pytest.approx([accountant.get_epsilon(d) for d in (1e-5, 1e-6)], rel=1e-6)
    other = [(sampled(0.31, 0.92), 3)]
    assert pld_epsilon(other, adjacency, 1e-5) < first[0] < first[1]


@pytest.mark.parametrize("adjacency", RELATIONS)
@pytest.mark.parametrize(
    ("rounds", "step"),
    [
        ([(sampled(1 / 6, 0.8), 2)], 1e-3),
        ([(sampled(1e-6, 0.5), 1000)], 1e-3),
        ([(sampled(0.004, 1.2), 300), (sampled(0.9, 3.0), 2)], 5e-4),
        ([(sampled(0.999, 0.7), 1), (Gaussian(noise_multiplier=2.0), 5)], 1e-3),
        ([(sampled(1.0, 2.0), 3)], 1e-3),
        ([(sampled(0.5, 300.0), 40)], 1e-5),
        ([(sampled(0.5, 1.0), 2)], (1.0 - 1e-10) * math.log(2.0) / 1000),
    ],
    ids=[
        "a run",
        "few take part",
        "two kinds",
        "nearly all, and all",
        "all",
        "much noise",
        "the least loss is on the grid",
    ],
)
def test_losses_are_those_of_the_accountant_of_dp_accounting(rounds, step, adjacency) -> None:
    accountant = PLDAccountant(RELATIONS[adjacency], step)
    for event, count in rounds:
        accountant.compose(to_dp_event(event), count)
    ours = composed(rounds, adjacency, step)
    for epsilon in (0.0, 0.01, 0.3, 1.0, 3.0, 10.0):
        # To the bit; another processor's logarithms may differ in the last of them.
        expected = pytest.approx(accountant.get_delta(epsilon), rel=1e-9, abs=1e-18)
        assert ours.get_delta_for_epsilon(epsilon) == expected
