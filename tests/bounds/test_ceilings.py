"""Ceilings of proofs on telling users apart: never below the exact curves, and hardly above."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from uedp_bench.accounting.events import (
    Gaussian,
    MetricPrivacy,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.ledger import proven
from uedp_bench.bounds.ceilings import (
    RATES,
    JudgedUsers,
    bounds_users,
    ceilings,
    check_measured,
    least_auc,
    proven_curve,
)
from uedp_bench.bounds.trade_off import TradeOffCurve
from uedp_bench.contracts.results import Estimate
from uedp_bench.errors import PrivacyError
from uedp_bench.statistics.intervals import Scores, auc, auc_estimate, tpr_at_fpr

JUDGED = JudgedUsers(members=400, non_members=400, most_records=1)
SEVERAL = JUDGED.model_copy(update={"most_records": 3})


def ceilings_of(event, unit="user", adjacency="add-or-remove", judged=JUDGED, delta=1e-5):
    events = (PrivacyEvent(unit=unit, adjacency=adjacency, event=event),)
    return ceilings(RATES, judged, proven(events, delta=delta), events)


def gaussian(mu, **more):
    return ceilings_of(Gaussian(noise_multiplier=1.0 / mu), **more)


@pytest.mark.parametrize(
    ("mu", "percent", "tenth", "area"),
    [
        (0.268, 2.0, 0.24, 0.575),
        (0.502, 3.4, 0.48, 0.639),
        (0.925, 8.1, 1.5, 0.743),
        (1.666, 25.5, 7.7, 0.881),
    ],
)
def test_known_ceilings_of_gaussian_mechanisms(mu, percent, tenth, area):
    limits = gaussian(mu)
    assert 100 * limits["tpr_user_at_1pct_fpr"] == pytest.approx(percent, rel=0.02)
    assert 100 * limits["tpr_user_at_0.1pct_fpr"] == pytest.approx(tenth, rel=0.03)
    assert limits["auc_user"] == pytest.approx(area, abs=0.0015)
    for name in ("auc", "tpr_at_1pct_fpr", "tpr_at_0.1pct_fpr"):
        assert limits[name] == limits[name.replace("auc", "auc_user").replace("tpr", "tpr_user")]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.02, 6.0), st.floats(0.0, 1.0))
def test_no_ceiling_is_below_the_exact_gaussian_curve(mu, rate):
    event = PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=1.0 / mu))
    curve = proven_curve((event,), "user", "add-or-remove")
    assert curve.true_positives(rate)[0] >= norm.cdf(mu + norm.ppf(rate)) * (1 - 1e-12)
    assert norm.cdf(mu / math.sqrt(2)) <= curve.area() <= norm.cdf(mu / math.sqrt(2)) + 2e-3


@settings(max_examples=100, deadline=None)
@given(st.floats(0.0, 20.0), st.floats(0.0, 1.0), st.integers(1, 4))
def test_randomized_responses_of_a_group_reach_no_more_than_the_ceiling(epsilon, rate, group):
    right = 1.0 / (1.0 + math.exp(-epsilon))
    # Likelihood ratios e^((2 k - n) epsilon) of k right answers of n are tests in this order.
    k = np.arange(group, -1, -1)
    ways = np.array([math.comb(group, int(each)) for each in k])
    hits = np.concatenate([[0], np.cumsum(ways * right**k * (1 - right) ** (group - k))])
    false = np.concatenate([[0], np.cumsum(ways * right ** (group - k) * (1 - right) ** k)])
    reached = np.interp(rate, false, hits)
    curve = TradeOffCurve(np.array([epsilon]), np.array([0.0]))
    assert curve.true_positives(rate, group)[0] >= reached - 1e-12
    assert curve.area(group) >= float(np.sum(np.diff(false) * (hits[1:] + hits[:-1]) / 2)) - 1e-12
    if group == 1:
        assert curve.true_positives(rate, group)[0] == pytest.approx(reached, abs=1e-9)


def test_a_pure_proof_is_the_curve_of_randomized_response():
    limits = ceilings_of(PureDP(epsilon=2.0))
    assert limits["tpr_user_at_1pct_fpr"] == pytest.approx(0.01 * math.exp(2.0), abs=2e-6)
    assert limits["auc_user"] == pytest.approx(math.exp(2) / (1 + math.exp(2)), abs=1e-4)


def test_without_loss_nothing_is_above_chance():
    limits = ceilings_of(PureDP(epsilon=0.0))
    assert limits["auc_user"] == pytest.approx(0.5, abs=1e-4)
    assert limits["tpr_user_at_1pct_fpr"] == pytest.approx(0.01, abs=2e-6)


def test_points_of_no_use_leave_the_trivial_ceiling():
    nothing = TradeOffCurve(np.array([]), np.array([]))
    assert nothing.true_positives([0.0, 0.5]).tolist() == [1.0, 1.0]
    assert nothing.area() == 1.0
    huge = TradeOffCurve(np.array([1e6]), np.array([1e-5]))
    assert huge.true_positives([0.0, 1e-300, 1.0]).tolist() == pytest.approx([1e-5, 1.0, 1.0])


def test_records_of_a_user_are_a_group():
    alone, three = (gaussian(0.3, unit="record", judged=one) for one in (JUDGED, SEVERAL))
    assert alone == pytest.approx(gaussian(0.3))
    exact = norm.cdf(0.9 + norm.ppf(0.01))
    assert exact <= three["tpr_user_at_1pct_fpr"] <= 1.05 * exact
    assert norm.cdf(0.9 / math.sqrt(2)) <= three["auc"] <= norm.cdf(0.9 / math.sqrt(2)) + 4e-3


def test_replaced_records_say_nothing_of_users_with_several():
    replaced = {"unit": "record", "adjacency": "replace-one"}
    assert gaussian(0.3, **replaced) == pytest.approx(gaussian(0.6))
    assert gaussian(0.3, **replaced, judged=SEVERAL) == {}


def test_replaced_users_take_each_others_place_whole():
    assert gaussian(0.3, adjacency="replace-one", judged=SEVERAL) == pytest.approx(gaussian(0.6))


@pytest.mark.parametrize("unit", ["client", "entity", "sentence", "word", "attribute"])
def test_proofs_for_other_units_set_no_ceiling(unit):
    assert gaussian(0.3, unit=unit) == {}


def test_what_is_not_proven_or_not_finite_sets_no_ceiling():
    assert ceilings_of(NonPrivate(reason="no noise")) == {}
    assert ceilings_of(MetricPrivacy(epsilon=1.0, metric="l2")) == {}
    events = (PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=1.0)),)
    (proof,) = proven(events, delta=1e-5)
    assert bounds_users(proof, JUDGED) == 1
    for change in ({"kind": "stated"}, {"kind": "claimed"}, {"status": "refused"},
                   {"epsilon": math.inf}, {"notion": "metric-dp"}):  # fmt: skip
        assert ceilings(RATES, JUDGED, [proof.model_copy(update=change)], events) == {}


def test_a_user_with_an_entity_bounds_the_user():
    event = Repeated(count=5, event=UserEntityGaussian(rate=0.2, noise_multiplier=2.0, users=100))
    limits = ceilings_of(event, unit="user-entity")
    plain = ceilings_of(
        Repeated(count=5, event=PoissonSampled(rate=0.2, event=Gaussian(noise_multiplier=2.0)))
    )
    assert limits["auc_user"] == pytest.approx(plain["auc_user"], abs=1e-3)


def test_the_smaller_of_two_proofs_counts():
    events = tuple(
        PrivacyEvent(unit=unit, event=Gaussian(noise_multiplier=noise), stage="training")
        for unit, noise in (("user", 1.0), ("record", 4.0))
    )
    limits = ceilings(RATES, JUDGED, proven(events, delta=1e-5), events)
    assert limits == pytest.approx(gaussian(0.25))


@pytest.mark.parametrize("details", [{}, {"judged": None}, {"judged": {"members": 0}},
                                     {"judged": {**JUDGED.model_dump(), "more": 1}}])  # fmt: skip
def test_details_that_count_nobody_judge_nobody(details):
    assert JudgedUsers.from_details(details) is None
    assert JudgedUsers.from_details({"judged": JUDGED.model_dump()}) == JUDGED


# ------------------------------------------------------------------------------------------ checks

EVENTS = (PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=1.0)),)
PROOFS = proven(EVENTS, delta=1e-5)


def measured(members, others):
    """Metrics of users, of as many scores."""
    sides = [Scores(values, np.arange(len(values))) for values in (members, others)]
    rate = tpr_at_fpr(members, others, 0.01)
    return {
        "auc_user": auc_estimate(*sides, np.random.default_rng(0)),
        "tpr_user_at_1pct_fpr": Estimate(value=rate.value),
    }


def check(metrics, judged=JUDGED):
    check_measured(metrics, judged, PROOFS, EVENTS, "membership")


def test_an_attack_that_reaches_the_curve_is_no_bug():
    rng = np.random.default_rng(1)
    for _ in range(300):
        members, others = rng.normal(1.0, 1.0, 400), rng.normal(0.0, 1.0, 400)
        check(
            {
                "auc_user": Estimate(value=auc(members, others)),
                "tpr_user_at_1pct_fpr": Estimate(value=tpr_at_fpr(members, others, 0.01).value),
            }
        )


@pytest.mark.parametrize("metric", ["auc_user", "tpr_user_at_1pct_fpr"])
def test_a_metric_far_above_the_proof_is_refused_by_name(metric):
    rng = np.random.default_rng(1)
    metrics = measured(rng.normal(4.0, 1.0, 400), rng.normal(0.0, 1.0, 400))
    with pytest.raises(PrivacyError, match=metric):
        check({metric: metrics[metric]})


def test_few_users_refute_no_proof():
    check(
        measured(np.ones(10), np.zeros(10)), JudgedUsers(members=10, non_members=10, most_records=1)
    )


def test_records_are_not_compared_for_users_have_several():
    check({"auc": Estimate(value=1.0), "tpr_at_1pct_fpr": Estimate(value=1.0),
           "auc_bag_of_words": Estimate(value=1.0)})  # fmt: skip


def test_lower_limits_of_an_auc_err_as_rarely_as_they_say():
    rng = np.random.default_rng(3)
    true, errors = norm.cdf(1.0 / math.sqrt(2)), 0
    for _ in range(2000):
        value = auc(rng.normal(1.0, 1.0, 30), rng.normal(0.0, 1.0, 30))
        errors += least_auc(value, 30, 0.05) > true
    assert errors <= 100
    assert least_auc(1.0, 200, 1e-6) == pytest.approx(1e-6 ** (1 / 200))
    assert least_auc(0.0, 200, 1e-6) == 0.0
    assert 0.0 < least_auc(0.5, 200, 1e-6) < 0.5
