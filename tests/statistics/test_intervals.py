"""Closed forms, reference implementations and coverage of the shared statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from uedp_bench.contracts.results import Estimate
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import (
    Scores,
    auc,
    auc_estimate,
    fraction_estimate,
    mean_estimate,
    range_estimate,
    ratio_estimate,
    roc_points,
    seed_estimate,
    sum_of_ratios_estimate,
    tpr_at_fpr,
)

small = st.lists(st.integers(-4, 4), min_size=1, max_size=30)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(small, small)
def test_auc_is_that_of_scikit_learn_with_ties(a: list[int], b: list[int]) -> None:
    expected = roc_auc_score([1] * len(a) + [0] * len(b), a + b)
    assert auc(a, b) == pytest.approx(expected)


def test_auc_of_constant_scores_is_one_half() -> None:
    assert auc([1.0] * 5, [1.0] * 9) == 0.5


def slow_bootstrap_sd(a: Scores, b: Scores, rounds: int) -> float:
    draw, out = rng(7), []
    for _ in range(rounds):
        sides = []
        for side in (a, b):
            users = np.unique(side.users)
            chosen = draw.choice(users, size=len(users))
            sides.append(np.concatenate([side.values[side.users == u] for u in chosen]))
        out.append(auc(*sides))
    return float(np.std(out))


def test_auc_interval_is_that_of_a_bootstrap_of_whole_users() -> None:
    draw = rng(1)
    users = np.repeat(np.arange(40), 5)
    # Records of a user are alike: a bootstrap of records would be far too narrow.
    a = Scores(np.round(np.repeat(draw.normal(0.5, 1, 40), 5) + draw.normal(0, 0.1, 200), 1), users)
    b = Scores(np.round(np.repeat(draw.normal(0.0, 1, 40), 5) + draw.normal(0, 0.1, 200), 1), users)
    estimate = auc_estimate(a, b, rng())
    assert estimate.value == pytest.approx(auc(a.values, b.values))
    width = (estimate.high - estimate.low) / (2 * 1.96)
    assert width == pytest.approx(slow_bootstrap_sd(a, b, 1000), rel=0.12)
    by_record = auc_estimate(
        Scores(a.values, np.arange(200)), Scores(b.values, np.arange(200)), rng()
    )
    assert by_record.high - by_record.low < 0.6 * (estimate.high - estimate.low)


def test_auc_interval_covers_one_half_under_the_null() -> None:
    draw, covered = rng(3), 0
    users = np.repeat(np.arange(30), 4)
    for _ in range(100):
        sides = [
            Scores(np.repeat(draw.normal(size=30), 4) + draw.normal(size=120), users)
            for _ in range(2)
        ]
        estimate = auc_estimate(sides[0], sides[1], draw)
        covered += estimate.low <= 0.5 <= estimate.high
    assert 88 <= covered <= 100


@pytest.mark.parametrize(("users", "others"), [(2, 2), (5, 5), (12, 12), (3, 30), (30, 3)])
def test_auc_interval_of_separate_classes_covers_at_small_sizes(users: int, others: int) -> None:
    """Every resample is separate too: a bootstrap alone would be sure of a perfect attack."""
    draw = rng(5)
    above = Scores(np.arange(users) + 100.0, np.arange(users))
    below = Scores(np.arange(others) + 0.0, np.arange(others))
    estimate, reversed_ = auc_estimate(above, below, draw), auc_estimate(below, above, draw)
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert (reversed_.value, reversed_.low) == (0.0, 0.0)
    assert estimate.low == pytest.approx(1.0 - reversed_.high)
    # Where the AUC lies just outside of the interval, classes are hardly ever separate.
    shift = math.sqrt(2.0) * stats.norm.ppf(estimate.low)
    high, low = (draw.normal(size=(20_000, size)) for size in (users, others))
    separate = (high + shift).min(axis=1) > low.max(axis=1)
    assert separate.mean() <= 0.025


def test_auc_interval_of_separate_classes_draws_as_any_other() -> None:
    """What is drawn after it depends on no score."""
    states = []
    for shift in (0.0, 100.0):
        draw, users = rng(6), np.arange(9)
        auc_estimate(Scores(np.arange(9.0) + shift, users), Scores(np.arange(9.0), users), draw)
        states.append(draw.random())
    assert states[0] == states[1]


def test_auc_of_one_user_has_no_interval() -> None:
    one = Scores(np.array([1.0, 2.0]), np.array([3, 3]))
    assert auc_estimate(one, one, rng()).low is None


def test_tpr_takes_the_point_not_above_the_limit() -> None:
    negatives = np.arange(100.0)
    positives = np.array([97.5, 98.5, 99.5, 50.0])
    assert tpr_at_fpr(positives, negatives, 0.01).hits == 2
    assert tpr_at_fpr(positives, negatives, 0.019).hits == 2
    assert tpr_at_fpr(positives, negatives, 0.02).hits == 3
    assert tpr_at_fpr(positives, negatives, 1.0).value == 1.0


def test_tpr_below_one_over_n_is_the_rate_without_false_positives() -> None:
    rate = tpr_at_fpr(np.arange(150.0, 250.0), np.arange(200.0), 0.001)
    assert rate.zero_false_positives
    assert rate.false_positive_rate == 0.0
    assert rate.value == 0.5  # 199 ties with the largest negative and does not count
    assert not tpr_at_fpr([1.0], np.arange(1000.0), 0.001).zero_false_positives


@given(small, small, st.floats(0, 1))
def test_tpr_is_the_best_threshold_within_the_limit(
    a: list[int], b: list[int], limit: float
) -> None:
    best = max(
        np.mean(np.array(a) > t)
        for t in range(-6, 6)
        if np.sum(np.array(b) > t) <= limit * len(b) + 1e-9
    )
    rate = tpr_at_fpr(a, b, limit)
    assert rate.value == pytest.approx(best)
    assert rate.false_positive_rate <= limit + 1e-9


@given(small, small)
def test_roc_points_rise_from_zero_to_one(a: list[int], b: list[int]) -> None:
    curve = np.array(roc_points(a, b))
    assert (np.diff(curve, axis=0) >= 0).all()
    assert curve[0, 0] == 0.0
    assert tuple(curve[-1]) == (1.0, 1.0)


def test_thinned_roc_keeps_the_area() -> None:
    draw = rng(5)
    a, b = draw.normal(1, 1, 5000), draw.normal(0, 1, 5000)
    curve = roc_points(a, b)
    assert len(curve) <= 110
    x, y = np.array(curve).T
    assert np.trapezoid(y, x) == pytest.approx(auc(a, b), abs=0.005)


def test_clopper_pearson_has_its_published_values() -> None:
    none, some = fraction_estimate(0, 10), fraction_estimate(3, 10)
    assert (none.low, none.high) == (0.0, pytest.approx(0.3084971078))
    reference = stats.binomtest(3, 10).proportion_ci(0.95, method="exact")
    assert (some.low, some.high) == (pytest.approx(reference.low), pytest.approx(reference.high))
    assert fraction_estimate(5, 5).high == 1.0
    for hits, trials in ((1, 0), (-1, 3), (4, 3)):
        with pytest.raises(InputError, match="fraction"):
            fraction_estimate(hits, trials)


def test_seed_interval_is_student_t_and_one_seed_has_none() -> None:
    estimate = seed_estimate([1.0, 2.0, 3.0])
    assert estimate.high == pytest.approx(2.0 + 4.302652729911275 / math.sqrt(3))
    assert estimate.low == pytest.approx(2.0 - 4.302652729911275 / math.sqrt(3))
    assert seed_estimate([4.0]).model_dump() == {"value": 4.0, "low": None, "high": None}
    assert seed_estimate([1.0, math.inf]).value == math.inf
    with pytest.raises(InputError, match=r"seeds: .*infinit"):
        seed_estimate([math.inf, -math.inf])


def test_mean_interval_covers_the_mean() -> None:
    draw = rng(11)
    covered = 0
    for _ in range(100):
        estimate = mean_estimate(draw.exponential(2.0, 60), draw)
        covered += estimate.low <= 2.0 <= estimate.high
    assert 86 <= covered <= 99


def test_ratio_weighs_clusters_by_their_denominators() -> None:
    top, bottom = np.array([1.0, 2.0, 30.0]), np.array([1.0, 1.0, 10.0])
    estimate = ratio_estimate(top, bottom, rng(), np.array([5, 5, 9]))
    assert estimate.value == pytest.approx(33 / 12)
    assert (estimate.low, estimate.high) == (1.5, 3.0)  # only one cluster, or only the other
    assert ratio_estimate(top, bottom, rng(), np.zeros(3, dtype=np.int64)).low is None
    assert ratio_estimate([1.0, math.inf], [1.0, 1.0], rng()) == Estimate(value=math.inf)
    with pytest.raises(InputError, match=r"ratio: .*denominators"):
        ratio_estimate([1.0], [0.0], rng())


def test_ratios_of_one_sum_see_the_same_resamples() -> None:
    draw = rng(7)
    hits, ones = (draw.random(200) < 0.3).astype(float), np.ones(200)
    users = np.arange(200) // 4
    alike = sum_of_ratios_estimate(
        np.stack([hits, hits]), np.stack([ones, ones]), [1.0, -1.0], rng(), users
    )
    assert (alike.value, alike.low, alike.high) == (0.0, 0.0, 0.0)
    one, other = (ones.cumsum() <= 50).astype(float), (ones.cumsum() > 120).astype(float)
    estimate = sum_of_ratios_estimate(
        np.stack([hits * one, hits * other]), np.stack([one, other]), [1.0, -1.0], rng(), users
    )
    means = [hits[:50].mean(), hits[120:].mean()]
    assert estimate.value == pytest.approx(means[0] - means[1])
    # The interval of a difference of independent groups, from the variances of their user means.
    by_user = hits.reshape(50, 4).mean(axis=1)
    error = math.hypot(stats.sem(by_user[:13]), stats.sem(by_user[30:]))
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * error, rel=0.2)
    with pytest.raises(InputError, match=r"ratio: .*denominators"):
        sum_of_ratios_estimate(np.zeros((2, 3)), np.eye(2, 3) * [[1], [0]], [1.0, 1.0], rng())


@pytest.mark.parametrize("rows", [[30, 30], [30] * 10, [8] * 10, [200, 3], [100, 100, 4], [2, 2]])
def test_range_of_alike_groups_seldom_leaves_zero_out(rows: list[int]) -> None:
    draw, inside = rng(3), np.eye(len(rows)).repeat(rows, axis=1)
    hits = (draw.random((100, sum(rows))) < 0.8).astype(float)
    estimates = [range_estimate(inside * one, inside, draw) for one in hits]
    assert sum(one.low > 0.0 for one in estimates) <= 11  # 5 % and three standard errors
    apart = range_estimate(inside * inside[0], inside, draw)
    assert apart.value == apart.high == 1.0
    # No interval of a difference is shorter than that of its least group (Clopper-Pearson).
    assert apart.low <= 0.05 ** (1.0 / min(rows)) + 0.05


def test_intervals_are_reproducible() -> None:
    values = rng(2).normal(size=50)
    assert mean_estimate(values, rng(4)) == mean_estimate(values, rng(4))


@pytest.mark.parametrize(
    "call",
    [
        lambda bad: auc(bad, [1.0]),
        lambda bad: auc([1.0], bad),
        lambda bad: tpr_at_fpr(bad, [1.0], 0.1),
        lambda bad: roc_points([1.0], bad),
        lambda bad: seed_estimate(bad),
        lambda bad: mean_estimate(bad, rng()),
    ],
)
def test_nan_and_nothing_are_refused(call) -> None:
    with pytest.raises(InputError, match="NaN"):
        call([0.0, math.nan])
    with pytest.raises(InputError, match="no values"):
        call([])


def test_many_groups_of_one_user_have_no_interval():
    """A resample hardly ever holds all of them."""
    groups = np.eye(15)
    estimate = sum_of_ratios_estimate(
        groups * 0.5, groups, np.full(15, 1 / 15), np.random.default_rng(0)
    )
    assert estimate.value == pytest.approx(0.5)
    assert estimate.low is None


@pytest.mark.parametrize("seed", range(5))
def test_intervals_within_a_run_never_leave_the_range_of_the_metric(seed) -> None:
    """They are percentiles of possible values: of shares, areas under curves, means of bits."""
    draw = rng(seed)
    hits = (draw.random(12) < 0.9).astype(float)
    few = Scores(draw.random(4) + 0.9, np.arange(4))
    others = Scores(draw.random(5), np.arange(5))
    bits = -np.log2(draw.random(6))
    for estimate, low, high in (
        (mean_estimate(hits, draw), 0.0, 1.0),
        (ratio_estimate(hits, np.ones(12), draw, np.arange(12) // 4), 0.0, 1.0),
        (auc_estimate(few, others, draw), 0.0, 1.0),
        (mean_estimate(bits, draw), 0.0, bits.max()),
    ):
        assert low <= estimate.low <= estimate.value <= estimate.high <= high
