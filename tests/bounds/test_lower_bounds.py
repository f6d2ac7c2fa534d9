"""Lower bounds on epsilon: published values, false alarms, power, order and bad input."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from dp_accounting import get_epsilon_gaussian
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm
from scipy.stats import nct as scipy_nct

from uedp_bench.bounds import one_run
from uedp_bench.bounds.lower_bounds import (
    METHODS,
    WITH_GAUSSIAN,
    _limits_above,
    _nct_shift,
    best_of,
    epsilon_lower_bound,
    epsilon_of_auc,
    normality_p_value,
)
from uedp_bench.bounds.one_run import (
    Guesses,
    one_run_bound,
    one_run_f_dp_bound,
    one_run_p_value,
    score_guesses,
)
from uedp_bench.bounds.trade_off import PERFECT
from uedp_bench.errors import InputError

RANKED = ("clopper-pearson", "clopper-pearson-f-dp", "one-run", "one-run-f-dp")
ALARMS = 64  # of 1,000 trials: the 97.5 % point of a binomial of rate 5 %
DELTA = 1e-5


def gaussian_scores(mu: float, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(mu, 1.0, n), rng.normal(0.0, 1.0, n)


# ----------------------------------------------------------------------------- published values


@pytest.mark.parametrize(
    ("canaries", "guesses", "correct", "delta", "p", "bound", "f_dp"),
    [
        (100, 100, 60, 0.0, 0.99844314, 0.051915, 0.094903),
        (100, 100, 90, 1e-5, 1.0875117e-4, 1.630358, 3.587927),
        (1000, 200, 180, 1e-5, 4.3622454e-4, 1.796285, 2.901243),
        (1000, 1000, 600, 1e-5, 1.0, 0.297227, 0.583540),
    ],
)
def test_one_run_reference_values(canaries, guesses, correct, delta, p, bound, f_dp):
    counts = (canaries, guesses, correct)
    assert one_run_p_value(*counts, epsilon=1.0, delta=delta) == pytest.approx(p, rel=1e-7)
    assert one_run_bound(*counts, delta=delta) == pytest.approx(bound, abs=6e-7)
    assert one_run_f_dp_bound(*counts, delta=delta or 1e-6) == pytest.approx(f_dp, abs=6e-7)


def concave_roc(members: np.ndarray, others: np.ndarray) -> list[tuple[int, int]]:
    """(false, true) positives at the vertices of the ROC curve's concave hull, both ends too."""
    scores = np.unique(np.concatenate([members, others]))
    counts = [len(side) - np.searchsorted(np.sort(side), scores) for side in (others, members)]
    hull: list[tuple[int, int]] = [(0, 0)]
    for x, y in zip(*(column[::-1].tolist() for column in counts), strict=True):
        while len(hull) > 1:
            (a, b), (c, d) = hull[-2:]
            if (d - b) * (x - c) > (y - d) * (c - a):
                break
            hull.pop()
        hull.append((x, y))
    return hull


@pytest.mark.parametrize(
    ("mu", "bound", "f_dp"),
    [(0.0, 0.0, 0.0), (1.0, 1.13346, 2.164749), (2.0, 2.311945, 4.7218075),
     (4.0, 4.395568, 9.133752)],
)  # fmt: skip
def test_deterministic_normal_scores(mu, bound, f_dp):
    """The reference pays for the vertices of the ROC curve's hull, as many as the data have.

    That number is only known after looking; ours pays for one that the number of scores fixes.
    It is smaller, so that the bounds are larger, and they stay below the truth.
    """
    n, delta = 10_000, 1e-6
    others = norm.ppf((np.arange(n) + 0.5) / n)
    hull = np.array(concave_roc(others + mu, others))
    ways, share = Guesses(hull.sum(axis=1), hull[:, 1]), 0.05 / len(hull)
    assert one_run.best_one_run(2 * n, ways, delta, share) == pytest.approx(bound, rel=1e-5)
    epsilon = one_run.gaussian_epsilon(one_run.best_f_dp(2 * n, ways, share), delta)
    assert epsilon == pytest.approx(f_dp, rel=1e-5)
    truth = get_epsilon_gaussian(1.0 / mu, delta) if mu else 0.0
    for method, reference in (("one-run", bound), ("one-run-f-dp", f_dp)):
        ours = epsilon_lower_bound(others + mu, others, delta=delta, method=method)
        assert 1.1 * reference <= ours <= truth


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
@pytest.mark.parametrize("counts", [(20, 20, 20), (50, 30, 22), (50, 30, 1), (50, 30, 0)])
def test_p_value_by_its_definition(counts, epsilon):
    canaries, guesses, correct = counts
    law = binom(guesses, 1.0 / (1.0 + math.exp(-epsilon)))
    beta = law.sf(correct - 1)
    steps = [(law.cdf(correct - 1) - law.cdf(correct - i - 1)) / i for i in range(1, correct + 1)]
    expected = min(1.0, beta + 2 * canaries * 0.003 * max(steps, default=0.0))
    p_value = one_run_p_value(*counts, epsilon=epsilon, delta=0.003)
    assert p_value == pytest.approx(expected, rel=1e-9)


def test_the_f_dp_test_of_perfect_privacy_is_the_binomial_one():
    """No way is passed over in the search that the curve would have refuted."""
    for guesses in (10, 60, 200):
        for correct in range(guesses + 1):
            excess = one_run.f_dp_excess(200, guesses, correct, PERFECT.least, 0.01)
            assert excess <= 0.0 or binom.sf(correct - 1, guesses, 0.5) <= 0.01


# ----------------------------------------------------------------------------- false alarms


def alarms(bound, scores: int = 500, trials: int = 1000) -> int:
    rng = np.random.default_rng(20240607)
    sides = rng.normal(size=(trials, 2, scores))
    return sum(bound(ins, outs) > 0.0 for ins, outs in sides)


@pytest.mark.parametrize("method", METHODS)
def test_noise_is_not_a_leak(method):
    assert alarms(partial(epsilon_lower_bound, delta=DELTA, method=method)) <= ALARMS


@pytest.mark.parametrize("scores", [20, 64])
@pytest.mark.parametrize("method", METHODS)
def test_few_scores_of_noise_at_small_confidence(method, scores):
    """At 60 % confidence, 40 % of false alarms are allowed: Bonferroni keeps what it says."""
    bound = partial(epsilon_lower_bound, delta=1e-9, method=method, confidence=0.6)
    assert alarms(bound, scores) <= 430  # the 97.5 % point of rate 40 %


@pytest.mark.parametrize("levels", [2, 5])
@pytest.mark.parametrize("method", RANKED)
def test_tied_noise_is_not_a_leak(method, levels):
    def bound(ins, outs):
        coarse = [np.round(norm.cdf(side) * (levels - 1)) for side in (ins, outs)]
        return epsilon_lower_bound(*coarse, delta=DELTA, method=method)

    assert alarms(bound) <= ALARMS


def every_threshold_unpaid(ins, outs):
    """Both rates at their own 95 % limits, as if the threshold had been fixed."""
    ranks = np.arange(1, len(outs) + 1)
    directions = ((ins, outs), (-outs, -ins))
    limits = [_limits_above(often, rare, ranks, 2 * 0.05) for often, rare in directions]
    return max(each.epsilon(DELTA) for each in limits)


def every_number_of_guesses_unpaid(ins, outs):
    order = np.argsort(-np.concatenate([outs, ins]))
    right = np.cumsum(order >= len(outs))
    ways = Guesses(np.arange(1, len(order) + 1), right)
    return one_run.best_one_run(len(order), ways, DELTA, 0.05)


@pytest.mark.parametrize("faulty", [every_threshold_unpaid, every_number_of_guesses_unpaid])
def test_the_check_catches_an_estimator_that_does_not_pay(faulty):
    """The same formulas, at the threshold that looks best, fail the very same check."""
    assert alarms(faulty) > ALARMS


# ----------------------------------------------------------------------------- a known mechanism


@pytest.mark.parametrize(
    ("method", "least"),
    [
        ("clopper-pearson", 2.3),
        ("clopper-pearson-f-dp", 7.4),
        ("one-run", 2.6),
        ("one-run-f-dp", 4.0),
        ("nct", 9.2),
    ],
)
def test_a_gaussian_mechanism_of_known_epsilon(method, least):
    """Never above the truth (in more than 5 % of runs), and not idle either."""
    truth = get_epsilon_gaussian(0.5, DELTA)
    bounds = [
        epsilon_lower_bound(*gaussian_scores(2.0, 500, seed), delta=DELTA, method=method)
        for seed in range(60)
    ]
    assert np.sum(np.array(bounds) > truth) <= 6
    assert np.median(bounds) > least


def test_pure_privacy_is_approached_and_not_passed():
    """Randomised response at epsilon 1: tied scores whose best bound is known, at delta 0."""
    keep = 1.0 / (1.0 + math.exp(-1.0))
    rng = np.random.default_rng(5)
    for method in ("clopper-pearson", "one-run"):
        bounds = [
            epsilon_lower_bound(
                rng.random(4000) < keep, rng.random(4000) >= keep, delta=0.0, method=method
            )
            for _ in range(40)
        ]
        assert np.sum(np.array(bounds) > 1.0) <= 5
        assert np.median(bounds) > (0.6 if method == "clopper-pearson" else 0.85)


def test_both_directions_are_looked_at():
    """A leak that only shows in the lowest scores is found, as one in the highest is."""
    rng = np.random.default_rng(2)
    ins, outs = rng.normal(size=(2, 2000))
    outs[:400] -= 50.0
    below = epsilon_lower_bound(ins, outs, delta=DELTA)
    assert below > 3.0
    assert epsilon_lower_bound(-outs, -ins, delta=DELTA) == below


# ----------------------------------------------------------------------------- order


@pytest.mark.parametrize("method", METHODS)
def test_order_in_separation_confidence_and_delta(method):
    outs = norm.ppf((np.arange(400) + 0.5) / 400)

    def bound(mu=2.0, delta=1e-4, confidence=0.95):
        return epsilon_lower_bound(
            outs + mu, outs, delta=delta, confidence=confidence, method=method
        )

    by_mu = [bound(mu=mu) for mu in (-3.0, 0.0, 0.5, 1.0, 2.0, 4.0)]
    assert by_mu == sorted(by_mu)
    assert by_mu[:2] == [0.0, 0.0]
    assert by_mu[-3] < by_mu[-2] < by_mu[-1]
    by_confidence = [bound(confidence=c) for c in (0.5, 0.9, 0.95, 0.99, 1 - 1e-6)]
    assert by_confidence == sorted(by_confidence, reverse=True)
    assert by_confidence[0] > by_confidence[-1] >= 0.0
    by_delta = [bound(delta=d) for d in (1e-9, 1e-5, 1e-3, 1e-2, 0.3)]
    assert by_delta == sorted(by_delta, reverse=True)
    assert by_delta[0] > by_delta[-1]


@given(correct=st.integers(0, 80), delta=st.floats(0.0, 1e-3), confidence=st.floats(0.5, 0.999))
@settings(max_examples=50, deadline=None)
def test_one_run_is_what_its_p_value_says(correct, delta, confidence):
    bound = one_run_bound(100, 80, correct, delta=delta, confidence=confidence)
    p = partial(one_run_p_value, 100, 80, correct, delta=delta)
    assert p(epsilon=bound + 1e-6) >= 1.0 - confidence
    if bound > 0.0:
        assert p(epsilon=bound - min(bound, 1e-6)) <= 1.0 - confidence
    if correct < 80:
        more = one_run_bound(100, 80, correct + 1, delta=delta, confidence=confidence)
        assert more >= bound


FLOATS = st.integers(-1000, 1000).map(float)


@given(
    ins=st.lists(FLOATS, min_size=1, max_size=60),
    outs=st.lists(FLOATS, min_size=1, max_size=60),
    shift=st.integers(0, 300),
)
@settings(max_examples=60, deadline=None)
def test_ranks_alone_count(ins, outs, shift):
    """Any increasing map and any order of the scores leave rank-based bounds as they are."""
    count = min(len(ins), len(outs))  # fair coins
    ins, outs = np.array(ins[:count]) + shift, np.array(outs[:count])
    for method in RANKED:
        bound = partial(epsilon_lower_bound, delta=1e-3, confidence=0.8, method=method)
        epsilon = bound(ins, outs)
        assert epsilon >= 0.0
        assert epsilon == bound(np.arctan(ins / 50.0), np.arctan(outs / 50.0))
        assert epsilon == bound(7.0 * ins[::-1] - 3.0, 7.0 * np.sort(outs) - 3.0)


@pytest.mark.parametrize(
    ("scores", "one_run", "f_dp", "mu", "nct"),
    [(50, 0.7787, 1.2851, 0.7991, 3.3825), (500, 1.5799, 2.1573, 1.0424, 4.5930)],
)
def test_noncentral_t_reference_values(scores, one_run, f_dp, mu, nct):
    others = norm.ppf((np.arange(scores) + 0.5) / scores)
    sides = others + 1.1547, others
    bounds = {"one-run": one_run, "one-run-f-dp": f_dp, "nct": nct}
    for method, reference in bounds.items():
        epsilon = epsilon_lower_bound(*sides, delta=DELTA, method=method)
        assert epsilon == pytest.approx(reference, abs=6e-5)
    assert _nct_shift(*sides, 0.05) == pytest.approx(mu, abs=6e-5)


def test_nct_limit_solves_the_noncentral_t_distribution():
    ins, outs = gaussian_scores(0.6, 80)
    outs = outs[:55]
    pooled = (79 * ins.var(ddof=1) + 54 * outs.var(ddof=1)) / 133
    precision = (80 * 55 / 135) ** 0.5
    statistic = precision * (ins.mean() - outs.mean()) / pooled**0.5
    shift = _nct_shift(ins, outs, 0.05)
    tail = scipy_nct.sf(statistic, 133, shift * precision)
    assert tail == pytest.approx(0.05, rel=1e-6)


def test_normality_is_seen_where_it_is_and_where_it_is_not():
    rng = np.random.default_rng(4)
    sides = [gaussian_scores(3.0, 100, seed) for seed in range(300)]
    normal = [normality_p_value(*pair) for pair in sides]
    assert sum(p < 0.05 for p in normal) <= 24  # the 99 % point of rate 5 %
    heavy = rng.standard_t(2, (2, 300))
    assert normality_p_value(*heavy) < 1e-6
    assert normality_p_value([1.0] * 30, [0.0] * 30) is None
    assert normality_p_value(heavy[0][:10], heavy[1][:9]) is None


@pytest.mark.parametrize(("auc", "epsilon"), [(0.3, 0.0), (0.5, 0.0), (0.792892, 5.1742)])
def test_epsilon_of_auc_is_that_of_the_gaussian_mechanism(auc, epsilon):
    assert epsilon_of_auc(auc, DELTA) == pytest.approx(epsilon, abs=1e-3)
    assert math.isinf(epsilon_of_auc(1.0, DELTA))


def test_a_normal_fit_has_no_unit():
    ins, outs = gaussian_scores(1.5, 300)
    bound = partial(epsilon_lower_bound, delta=DELTA, method="nct")
    for scale in (1e-200, 1.0, 1e200):
        assert bound(scale * ins, scale * outs) == pytest.approx(bound(ins, outs), rel=1e-9)
    assert bound(ins + 40.0, outs + 40.0) == pytest.approx(bound(ins, outs), rel=1e-9)


# ----------------------------------------------------------------------------- several bounds


def test_limits_of_both_rates_share_the_significance_of_their_threshold():
    """Clopper-Pearson limits at half of a share each, for hits and for false alarms."""
    often, rare, share = np.arange(10.0), np.arange(6.0) - 2.5, 0.02
    limits = _limits_above(often, rare, np.array([2]), share)
    threshold = np.sort(rare)[-2]
    hits = int((often > threshold).sum())
    assert limits.likely == pytest.approx([beta.ppf(share / 2, hits, len(often) - hits + 1)])
    assert limits.rare == pytest.approx([beta.ppf(1 - share / 2, 2, len(rare) - 1)])


def test_the_best_of_several_pays_for_each():
    confidences: list[float] = []

    def bound(value: float, confidence: float) -> float:
        confidences.append(confidence)
        return value

    assert best_of([partial(bound, v) for v in (0.5, 2.0, 0.0)], confidence=0.94) == 2.0
    assert confidences == pytest.approx([0.98] * 3)
    with pytest.raises(InputError, match="bounds: none"):
        best_of([])


def test_the_best_of_twenty_attacks_on_noise():
    """Twenty blind attacks in each of 100 audits: unpaid, most audits would raise an alarm."""
    rng = np.random.default_rng(3)

    def best(confidence_of):
        count = 0
        for _ in range(100):
            attacks = [
                partial(epsilon_lower_bound, *rng.normal(size=(2, 100)), delta=DELTA, method="nct")
                for _ in range(20)
            ]
            count += confidence_of([lambda c, a=a: a(confidence=c) for a in attacks]) > 0.0
        return count

    assert best(partial(best_of, confidence=0.95)) <= 10
    assert best(lambda bounds: max(bound(0.95) for bound in bounds)) > 25


# ----------------------------------------------------------------------------- scores as they come


def test_ties_count_against_the_attack():
    ways = score_guesses(np.array([1.0] * 60 + [2.0] * 4), np.array([1.0] * 64))
    guesses, right = (
        dict(zip(ways.counts, column, strict=True)) for column in (ways.counts, ways.right)
    )
    assert sorted(guesses) == [8, 16, 32, 64, 128]
    assert right[8] == 4  # four above all others, then non-members of the tie
    assert all(
        epsilon_lower_bound(np.zeros(500), np.zeros(500), delta=DELTA, method=m) == 0.0
        for m in METHODS
    )


@pytest.mark.parametrize("method", RANKED)
def test_infinities_sort(method):
    bound = partial(epsilon_lower_bound, delta=DELTA, method=method)
    ins, outs = gaussian_scores(1.0, 400)
    with_ends = bound(np.append(ins, np.inf), np.append(outs, -np.inf))
    assert with_ends == bound(np.append(ins, 1e300), np.append(outs, -1e300))
    assert bound(np.full(99, np.inf), np.full(99, -np.inf)) > 1.0
    assert bound(np.full(99, np.inf), np.full(99, np.inf)) == 0.0


ONE_ON_A_SIDE = [(1, 1), (1, 3), (3, 1)]


@pytest.mark.parametrize(
    ("method", "sizes"),
    [(method, sizes) for method in METHODS for sizes in ONE_ON_A_SIDE]
    + [(method, sizes) for method in RANKED for sizes in [(2, 2), (3, 4)]],
)
def test_too_few_scores_refute_nothing(method, sizes):
    ins, outs = (np.arange(n) + at for n, at in zip(sizes, (100.0, 0.0), strict=True))
    assert epsilon_lower_bound(ins, outs, delta=DELTA, confidence=0.999, method=method) == 0.0


def test_delta_zero():
    ins, outs = gaussian_scores(2.0, 500)
    for method in ("clopper-pearson", "one-run"):
        bounds = [epsilon_lower_bound(ins, outs, delta=d, method=method) for d in (0.0, 1e-12)]
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)
    for method in WITH_GAUSSIAN:
        with pytest.raises(InputError, match=r"delta: 0 with .*one-run"):
            epsilon_lower_bound(ins, outs, delta=0.0, method=method)


GOOD = [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("members", "nonmembers", "options", "message"),
    [
        ([0.1, math.nan], GOOD, {}, "^members: 1 of 2.*NaN.* 1"),
        (GOOD, [math.nan], {}, "nonmembers: 1 of 1"),
        ([], GOOD, {}, "^members: no values"),
        (GOOD, [], {}, "^nonmembers: no values"),
        ([GOOD], GOOD, {}, r"^members: .*\(1, 3\)"),
        (["a"], GOOD, {}, "^members: .*real"),
        (GOOD, [1j], {}, "^nonmembers: .*real"),
        (GOOD, GOOD, {"delta": 1.0}, r"delta: 1\.0.*\[0, 1\)"),
        (GOOD, GOOD, {"delta": -1e-9}, "delta: -1e-09"),
        (GOOD, GOOD, {"delta": math.nan}, "delta: nan"),
        (GOOD, GOOD, {"confidence": 1.0}, "confidence: 1.0"),
        (GOOD, GOOD, {"confidence": 0.0}, "confidence: 0.0"),
        (GOOD, GOOD, {"method": "one_run"}, "'one_run'.*'one-run'"),
        ([1.0] * 10, [0.0] * 90, {"method": "one-run"}, "members: 10 .*90 nonmembers"),
        ([1.0, math.inf], GOOD, {"method": "nct"}, "^members: .*infinite"),
        ([1.0, 1.0], [0.0, 0.0], {"method": "nct"}, "members: .*vary"),
    ],
)
def test_bad_input_is_named(members, nonmembers, options, message):
    with pytest.raises(InputError, match=message):
        epsilon_lower_bound(members, nonmembers, **{"delta": DELTA, **options})


@pytest.mark.parametrize(
    ("counts", "delta", "message"),
    [
        ((100, 101, 60), 0.0, "guesses: 101 .*100"),
        ((100, 50, 51), 0.0, "correct: 51 .*50"),
        ((0, 0, 0), 0.0, "canaries: 0"),
        ((100, -1, -1), 0.0, "guesses: -1"),
        ((100, 50.5, 20), 0.0, "guesses: 50.5"),
        ((10**9, 10**9, 10**9 - 1), 0.0, "guesses: 1,000,000,000 .*10,000,000"),
        ((100, 50, 40), 1.5, "delta: 1.5"),
    ],
)
def test_bad_counts_are_named(counts, delta, message):
    for bound in (one_run_bound, one_run_f_dp_bound, partial(one_run_p_value, epsilon=1.0)):
        with pytest.raises(InputError, match=message):
            bound(*counts, delta=delta or 1e-6)


def test_counts_at_their_limits():
    assert one_run_bound(10, 0, 0, delta=0.0) == 0.0
    assert one_run_bound(100, 100, 0, delta=0.0) == 0.0
    # q^100 = 0.05 where all guesses are right.
    q = 0.05**0.01
    assert one_run_bound(100, 100, 100, delta=0.0) == pytest.approx(math.log(q / (1.0 - q)))
    assert math.isfinite(one_run_f_dp_bound(100, 100, 100, delta=DELTA))
