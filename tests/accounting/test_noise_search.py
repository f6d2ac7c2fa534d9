"""Calibration: the answer meets the target, and a little less protection does not."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.noise_search import (
    largest_count,
    largest_value,
    sentence_noise,
    smallest_noise,
)
from uedp_bench.errors import InputError
from uedp_bench.one_run.planning.account import prove
from uedp_bench.one_run.planning.calibration import Target, solve
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism

Curve = Callable[[float], float]


def curves() -> st.SearchStrategy[Curve]:
    """Decreasing functions of the noise: powers, exponentials, jumps, flat and infinite parts."""
    scale = st.floats(1e-3, 1e3)
    power = st.builds(lambda a, b: lambda x: a / x**b, scale, st.floats(0.2, 4.0))
    bent = st.builds(lambda a, b: lambda x: a / x + b / x**3, scale, scale)
    early = st.builds(lambda a, b: lambda x: math.inf if x < a else b / x, scale, scale)
    late = st.builds(lambda a, b: lambda x: max(0.0, a / x - b), scale, scale)
    steps = st.builds(lambda a: lambda x: float(math.ceil(min(a / x, 1e12))), scale)
    fall = st.builds(lambda a: lambda x: math.exp(min(700.0, a / x)) - 1.0, scale)
    return st.one_of(power, bent, early, late, steps, fall)


@settings(deadline=None, max_examples=300)
@given(curves(), st.floats(0.05, 50.0))
def test_smallest_noise_meets_the_target_and_less_does_not(curve: Curve, target: float) -> None:
    evaluations = []

    def epsilon_of(noise: float) -> float:
        evaluations.append(noise)
        return curve(noise)

    try:
        noise = smallest_noise(epsilon_of, target)
    except InputError:
        assert curve(1e9) > target
        return
    assert curve(noise) <= target
    assert noise == 1e-9 or curve(noise * 0.999) > target
    assert len(evaluations) < 90


@settings(deadline=None, max_examples=100)
@given(st.floats(0.3, 3.0), st.floats(1e-2, 1e2))
def test_few_evaluations_where_the_curve_is_smooth(power: float, scale: float) -> None:
    evaluations = []

    def epsilon_of(noise: float) -> float:
        evaluations.append(noise)
        return scale / noise**power + (scale / noise) ** (1.5 * power)

    smallest_noise(epsilon_of, 2.0)
    assert len(evaluations) <= 9 + abs(math.log(evaluations[-1], 4))


@settings(deadline=None, max_examples=200)
@given(st.floats(0.1, 3.0), st.floats(1e-4, 10.0), st.integers(1, 10**6), st.floats(0.5, 20.0))
def test_largest_count(power: float, scale: float, upper: int, target: float) -> None:
    def epsilon_of(count: int) -> float:
        return scale * count**power

    if epsilon_of(1) > target:
        with pytest.raises(InputError, match="even 1"):
            largest_count(epsilon_of, target, upper)
        return
    count = largest_count(epsilon_of, target, upper)
    assert 1 <= count <= upper
    assert epsilon_of(count) <= target
    assert count == upper or epsilon_of(count + 1) > target


@settings(deadline=None, max_examples=100)
@given(st.floats(0.5, 3.0), st.floats(1e-3, 1e3), st.floats(0.05, 1.0))
def test_largest_value_stays_within_its_bound(power: float, scale: float, upper: float) -> None:
    value = largest_value(lambda q: scale * q**power, 1.0, upper)
    assert value <= upper
    assert scale * value**power <= 1.0
    assert value == upper or scale * (value * 1.001) ** power > 1.0


def test_impossible_and_meaningless_targets() -> None:
    with pytest.raises(InputError, match="reaches"):
        smallest_noise(lambda _: 3.0, 2.0)
    with pytest.raises(InputError, match="above 0"):
        smallest_noise(lambda x: 1 / x, 0.0)
    with pytest.raises(ValueError, match="NaN"):
        smallest_noise(lambda _: math.nan, 1.0)
    with pytest.raises(InputError, match="epsilon"):
        Target(math.nan, 1e-5)
    with pytest.raises(InputError, match="delta"):
        Target(1.0, 0.0)


@pytest.mark.parametrize(("sentences", "published"), [(0, 0.52), (1, 0.59), (3, 0.75), (10, 1.29)])
def test_noise_of_sentence_sampling_in_units_of_a_users_bound(
    sentences: int, published: float
) -> None:
    """Noise for epsilon 8 at q = 0.1, T = 60, n = 6, from a coarser accountant."""
    noise = sentence_noise(0.1, 60, 6, Protected(spread=sentences), (8.0, 1e-5)) / 6
    assert 0.97 * published < noise <= published


GROUP = {"sampling_rate": 0.1, "rounds": 60, "sentences_per_user": 6, "protected_sentences": 3}


def test_uedp_group_needs_no_number_of_users() -> None:
    solution = solve(PlannedMechanism.from_settings("uedp-group", GROUP), Target(8.0, 1e-5))
    own = sentence_noise(0.1, 60, 6, Protected(spread=3), (8.0, 1e-5))
    assert solution.value == pytest.approx(own, rel=2e-4)
    assert solution.point is not None
    assert (solution.point.spread, solution.point.sentences) == (3, 3)
    assert 7.99 < solution.epsilon <= 8.0
    many = solve(
        PlannedMechanism.from_settings("uedp-group", {**GROUP, "users": 5000}), Target(8.0, 1e-5)
    )
    assert many.value == solution.value


def test_an_explicit_noise_overrides_a_mechanisms_own_calibration() -> None:
    settings = {**GROUP, "noise_multiplier": 3.0, "users": 50}
    planned = PlannedMechanism.from_settings("uedp-group", settings)
    rounds = solve(planned, Target(8.0, 1e-5), "rounds")
    assert 1 < rounds.value < 60
    more = solve(planned.replaced(noise_multiplier=6.0), Target(8.0, 1e-5), "rounds")
    assert more.value > 60


@pytest.mark.parametrize(
    ("parameter", "sizes"),
    [
        ("noise_multiplier", {"users_per_round": 40}),
        ("rounds", {"users_per_round": 40, "noise_multiplier": 0.2}),
    ],
)
def test_solutions_are_the_last_that_hold(parameter: str, sizes: dict[str, float]) -> None:
    planned = PlannedMechanism.from_settings(
        "uedp", {"users": 300, "rounds": 20, "estimator": "f_E", **sizes}
    )
    solution = solve(planned, Target(2.0, 1e-5, 3), parameter)

    def epsilon(value: float) -> float:
        events, _ = planned.replaced(**{parameter: value}).plan()
        return prove(events, 1e-5, points=[3])[0].curve[0].epsilon

    assert epsilon(solution.value) == solution.epsilon <= 2.0
    worse = solution.value * 0.999 if parameter == "noise_multiplier" else solution.value + 1
    assert epsilon(worse) > 2.0


def test_counts_end_at_their_population() -> None:
    small = PlannedMechanism.from_settings(
        "dp-sgd", {"records": 200, "steps": 3, "noise_multiplier": 2.0}
    )
    batch = solve(small, Target(1.0, 1e-5), "batch_size").value
    assert 1 < batch < 200
    assert solve(small, Target(50.0, 1e-5), "batch_size").value == 200
    # The published noise is in proportion to the users of a round.
    settings = {"users": 300, "rounds": 20, "estimator": "f_E", "noise_multiplier": 0.5}
    everybody = solve(
        PlannedMechanism.from_settings("uedp", settings), Target(2.0, 1e-5, 3), "users_per_round"
    )
    assert everybody.value == 300
    assert everybody.epsilon <= 2.0


def test_a_curve_is_calibrated_at_the_spread_asked_for() -> None:
    planned = PlannedMechanism.from_settings(
        "uedp", {"users": 200, "users_per_round": 20, "estimator": "f_E"}
    )
    noises = [
        solve(planned, Target(4.0, 1e-5, spread), "noise_multiplier").value
        for spread in (0, 1, 10, None)
    ]
    assert noises == sorted(noises)
    assert noises[-1] > 5 * noises[0]


def test_word_level_systems_solve_for_epsilon() -> None:
    planned = PlannedMechanism.from_settings("dpnr", {"epsilon": 1})
    solution = solve(planned, Target(8.0, 1e-5), "epsilon")
    assert solution.value > 5 * 8.0 / 768  # the epsilons of 768 coordinates add up at delta 0 alone
    assert 7.99 < solution.epsilon <= 8.0


@pytest.mark.parametrize(
    ("name", "settings", "target", "parameter", "message"),
    [
        ("user-dp", {"users": 500}, Target(8, 1e-5), "round", "'round'.*'rounds'"),
        ("user-dp", {"users": 500}, Target(8, 1e-5, 3), "rounds", "spread 3: .*curve"),
        ("user-dp", {}, Target(8, 1e-5), "noise_multiplier", "--set users=N"),
        ("uedp", {"users": 500, "entity_cap": 2}, Target(8, 1e-5), "rounds", "uedp.*w_e"),
        ("uedp", {"users": 500, "estimator": "f_E"}, Target(8, 1e-5, 500), "rounds", "only 499"),
        ("noiseless", {}, Target(8, 1e-5), "rounds", "noiseless.*'rounds'"),
    ],
)
def test_refusals(
    name: str, settings: dict[str, object], target: Target, parameter: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        solve(PlannedMechanism.from_settings(name, settings), target, parameter)


@settings(deadline=None, max_examples=100)
@given(curves(), st.floats(0.05, 50.0), st.floats(0.3, 3.0))
def test_a_coarse_curve_says_where_to_search_and_nothing_else(
    curve: Curve, target: float, wrong: float
) -> None:
    try:
        noise = smallest_noise(curve, target, lambda x: wrong * curve(x))
    except InputError:
        assert curve(1e9) > target
        return
    assert curve(noise) <= target
    assert noise == 1e-9 or curve(noise * 0.999) > target


def test_a_coarse_curve_saves_evaluations() -> None:
    evaluations = []

    def epsilon_of(noise: float) -> float:
        evaluations.append(noise)
        return 40.0 / noise**1.3 + 3.0 / noise

    noise = smallest_noise(epsilon_of, 2.0, lambda x: 1.001 * (40.0 / x**1.3 + 3.0 / x))
    assert epsilon_of(noise) <= 2.0 < epsilon_of(noise * 0.9998)
    assert len(evaluations) < 8
