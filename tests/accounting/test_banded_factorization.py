"""Rounds with correlated noise are one Gaussian mechanism; every step is tried by brute force."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.special import ndtr

from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.accounting.banded_factorization import BandedFactorization, sensitivity_of
from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import (
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    PureDP,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import Asked, Refusal
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.selection import Trials, charge

DELTA = 1e-5


def banded(**fields: Any) -> BandedFactorization:
    defaults = {"rounds": 12, "coefficients": (0.8, 0.6), "noise_multiplier": 2.0, "separation": 4,
                "participations": 3, "population": 50}  # fmt: skip
    return BandedFactorization(**{**defaults, **fields})


def matrix(coefficients: tuple[float, ...], rounds: int) -> np.ndarray:
    toeplitz = np.zeros((rounds, rounds))
    for j, value in enumerate(coefficients[:rounds]):
        toeplitz += np.diag(np.full(rounds - j, value), -j)
    return toeplitz


def patterns(rounds: int, separation: int, most: int) -> Any:
    for count in range(1, most + 1):
        for chosen in combinations(range(rounds), count):
            if all(b - a >= separation for a, b in pairwise(chosen)):
                yield list(chosen)


# ----------------------------------------------------------------------------------- sensitivity


@pytest.mark.parametrize("rounds", [1, 3, 7, 9])
@pytest.mark.parametrize(("separation", "most"), [(1, 9), (2, 2), (3, 3), (4, 1), (9, 2)])
def test_the_sensitivity_is_that_of_the_worst_schedule_with_the_worst_vectors(
    rounds: int, separation: int, most: int
) -> None:
    rng = np.random.default_rng([rounds, separation, most])
    for bands in range(1, separation + 1):
        coefficients = (1.0, *rng.normal(size=bands - 1))
        columns = matrix(coefficients, rounds)
        # What a unit adds may point anywhere: inner products of its vectors lie in [-1, 1].
        worst = max(
            math.sqrt(np.abs(columns[:, p].T @ columns[:, p]).sum())
            for p in patterns(rounds, separation, min(most, rounds))
        )
        assert sensitivity_of(coefficients, rounds, separation, most) == pytest.approx(
            worst, rel=1e-12
        )


def test_it_is_that_of_jax_privacy() -> None:
    # jax-privacy 2.0.0, toeplitz.minsep_sensitivity_squared([1, 0.5, 0.25], 4, 3, 10).
    assert sensitivity_of((1.0, 0.5, 0.25), 10, 4, 3) ** 2 == pytest.approx(3.875, rel=1e-12)


def test_bands_that_reach_the_next_round_of_a_unit_prove_nothing() -> None:
    overlapping = banded(coefficients=(1.0, 0.5, 0.5), separation=2)
    with pytest.raises(Refusal, match=r"3 rounds.* 2 "):
        compose([overlapping], "add-or-remove", DELTA)
    # The formula of columns apart would be too small for them.
    columns = matrix((1.0, 0.5, 0.5), 12)[:, [0, 2]]
    apart = math.sqrt((columns**2).sum())
    assert np.linalg.norm(columns.sum(axis=1)) > 1.1 * apart


@pytest.mark.parametrize("coefficients", [(), (0.0, 1.0), (-1.0,), (1.0, math.nan), (math.inf,)])
def test_no_matrix_that_has_no_inverse(coefficients: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError):
        banded(coefficients=coefficients)


# -------------------------------------------------------------------------------------- adaptivity


def _divergence(shift: float, ratio: float) -> float:
    """Of N(shift, 1) from N(0, 1)."""
    return float(
        ndtr(shift / 2 - math.log(ratio) / shift)
        - ratio * ndtr(-shift / 2 - math.log(ratio) / shift)
    )


@pytest.mark.parametrize("ratio", [0.3, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("second", ["sign", "saves", "turns"])
def test_later_vectors_that_follow_from_earlier_outcomes_gain_nothing(
    second: str, ratio: float
) -> None:
    """Theorem G by integration: two rounds, the second moves as the outcome of the first says."""
    first, whole = 0.7, 1.5
    left = math.sqrt(whole**2 - first**2)
    x = np.linspace(-9.0, 10.0, 1901)
    y = x[:, None]
    moves = {
        "sign": np.where(x > 0.3, left, -left),
        "saves": np.where(x > 0.3, left, 0.0),
        "turns": left * np.cos(3.0 * x),
    }[second]

    def normal(at: np.ndarray) -> np.ndarray:
        return np.exp(-(at**2) / 2.0) / math.sqrt(2.0 * math.pi)

    upper = normal(x - first) * normal(y - moves)
    lower = normal(x) * normal(y)
    step = float(x[1] - x[0])
    divergence = np.maximum(upper - ratio * lower, 0.0).sum() * step**2
    bound = _divergence(whole, ratio)
    assert divergence <= bound + 1e-5
    if second == "sign":  # all of it is spent, whatever happens: it is attained
        assert divergence == pytest.approx(bound, abs=1e-4)


# ------------------------------------------------------------------------------------- what it says


def test_all_rounds_are_one_gaussian_mechanism_exactly() -> None:
    event = banded()
    (guarantee,) = proven([PrivacyEvent(unit="user", event=event)], delta=DELTA)
    assert event.sensitivity == pytest.approx(math.sqrt(3), rel=1e-12)
    assert (guarantee.accountant, guarantee.status) == ("gaussian", "given")
    assert guarantee.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(3) / 2.0, DELTA), rel=1e-6)
    # dp-accounting knows the mechanism as Gaussian(2 / sqrt(3)).
    plain = Gaussian(noise_multiplier=2.0 / math.sqrt(3))
    (plain_guarantee,) = proven([PrivacyEvent(unit="user", event=plain)], delta=DELTA)
    assert guarantee.epsilon == pytest.approx(plain_guarantee.epsilon, rel=1e-3)
    assert any("any data" in text for text in guarantee.assumptions)


@pytest.mark.parametrize(
    ("adjacency", "moves"), [("add-or-remove", 1), ("zero-out", 1), ("replace-one", 2)]
)
def test_a_unit_that_is_replaced_leaves_its_rounds_and_another_joins(
    adjacency: Any, moves: int
) -> None:
    answer = compose([banded()], adjacency, DELTA, Asked(alone=True))
    shift = moves * math.sqrt(3) / 2.0
    assert answer.epsilon == pytest.approx(gaussian_epsilon(shift, DELTA), rel=1e-6)


def test_independent_noise_is_one_band_and_costs_what_its_rounds_do() -> None:
    one = banded(coefficients=(1.0,), separation=1, participations=12)
    rounds = Repeated(count=12, event=Gaussian(noise_multiplier=2.0))
    alone = Asked(alone=True)
    banded_epsilon, composed_epsilon = (
        compose([e], "add-or-remove", DELTA, alone).epsilon for e in (one, rounds)
    )
    assert banded_epsilon == pytest.approx(composed_epsilon, rel=1e-3)


def test_the_curve_is_that_of_everybody_who_takes_part_in_every_round() -> None:
    event = banded(noise_multiplier=20.0)
    declared = PrivacyEvent(unit="user-entity", event=event, protected=Protected(spread=3))
    guarantees = {g.unit: g for g in proven([declared], delta=DELTA)}
    sampled = UserEntityGaussian(
        rate=1.0, noise_multiplier=20.0 / event.sensitivity, users=event.population
    )
    same = PrivacyEvent(unit="user-entity", event=sampled, protected=Protected(spread=3))
    expected = {g.unit: g for g in proven([same], delta=DELTA)}
    for unit in ("user", "user-entity"):
        assert guarantees[unit].epsilon == pytest.approx(expected[unit].epsilon, rel=1e-6)
    points = [(p.spread, p.epsilon) for p in guarantees["user-entity"].curve]
    assert [spread for spread, _ in points] == [0, 1, 3, 10, 30, 49]
    for (_, epsilon), other in zip(points, expected["user-entity"].curve, strict=True):
        assert epsilon == pytest.approx(other.epsilon, rel=1e-3)  # the end of noise is coarser
    shift = (1 + 2 * 3) * event.sensitivity / 20.0
    assert guarantees["user-entity"].epsilon == pytest.approx(
        gaussian_epsilon(shift, DELTA), rel=1e-6
    )


def test_it_composes_with_itself_and_with_others() -> None:
    shift = banded().sensitivity / 2.0

    def epsilon(*events: Any) -> float:
        return compose(events, "add-or-remove", DELTA, Asked(alone=True)).epsilon

    twice = gaussian_epsilon(math.sqrt(2) * shift, DELTA)
    assert epsilon(banded(), banded()) == pytest.approx(twice, rel=1e-6)
    assert epsilon(Repeated(count=2, event=banded())) == pytest.approx(twice, rel=1e-6)
    beside = gaussian_epsilon(math.hypot(shift, 1 / 3), DELTA)
    assert epsilon(banded(), Gaussian(noise_multiplier=3.0)) == pytest.approx(beside, rel=5e-3)
    summed = epsilon(banded()) + 0.5
    assert 0.95 * summed < epsilon(banded(), PureDP(epsilon=0.5)) <= summed
    sampled = Repeated(
        count=10, event=PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=1.0))
    )
    both = epsilon(banded(), sampled)
    assert max(epsilon(banded()), epsilon(sampled)) < both < epsilon(banded()) + epsilon(sampled)


def test_no_noise_is_infinite_and_endless_noise_nothing() -> None:
    none = compose([banded(noise_multiplier=0.0)], "add-or-remove", DELTA)
    assert (none.epsilon, none.reason) == (math.inf, "no noise was added")
    assert compose([banded(noise_multiplier=math.inf)], "add-or-remove", DELTA).epsilon == 0.0


def test_a_user_with_an_entity_is_meant_under_add_or_remove_alone() -> None:
    (guarantee,) = (
        g
        for g in proven(
            [PrivacyEvent(unit="user-entity", adjacency="zero-out", event=banded())], delta=DELTA
        )
        if g.unit == "user-entity"
    )
    assert guarantee.status == "refused"
    assert "user-entity" in guarantee.reason


def test_choosing_among_random_trials_counts_every_round_s_noise() -> None:
    chosen = Selection(
        tried={"mechanism.dp-ftrl.clip": [0.1, 0.2]}, repetitions="poisson", mean=2.0
    )
    event = PrivacyEvent(unit="user", event=banded(), stage="dp-ftrl")
    ((guarantee,), _) = charge(
        proven([event], delta=DELTA), Trials(selection=chosen, events=((event,), (event,)))
    )
    assert proven([event], delta=DELTA)[0].epsilon < guarantee.epsilon < math.inf
    assert banded().gaussian_rounds == 12
