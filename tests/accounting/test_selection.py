"""Selection: the theorems against exact output distributions, and who is charged for what."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.accounting.accountants.renyi import ORDERS, renyi
from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import (
    Claim,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.accounting.selection import (
    Trials,
    best_of_random,
    charge,
    epsilon_of_best,
    stopping_probability,
)
from uedp_bench.errors import InputError

TRIED = {"model.units": [8, 16, 32]}


def selection(repetitions="fixed", **fields):
    return Selection(tried=TRIED, repetitions=repetitions, **fields)


def negative_binomial(mean, eta, **fields):
    return selection("truncated-negative-binomial", mean=mean, eta=eta, **fields)


def rounds(noise=1.0, count=10, unit="user"):
    base = PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=noise))
    return PrivacyEvent(unit=unit, event=Repeated(count=count, event=base))


# ------------------------------------------------------------------------------------ the theorems


def pmf(gamma, eta, most):
    """Of the truncated negative binomial distribution, from its definition, k = 1 ... most."""
    k = np.arange(1, most + 1)
    terms = np.cumprod((np.arange(most) + eta) / (np.arange(most) + 1)) if eta else 1 / k
    scale = gamma**-eta - 1 if eta else -math.log(gamma)
    return (1 - gamma) ** k * terms / scale


@pytest.mark.parametrize("eta", [-0.5, 0.0, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("mean", [1.5, 10.0])
def test_the_stopping_probability_has_the_mean(mean, eta):
    gamma = stopping_probability(mean, eta)
    chances = pmf(gamma, eta, 200_000)
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    assert chances @ np.arange(1, 200_001) == pytest.approx(mean, rel=1e-6)


def test_closed_forms_of_the_stopping_probability():
    assert stopping_probability(20.0, 1.0) == pytest.approx(1 / 20)  # geometric
    assert stopping_probability(1.0, 0.0) == 1.0
    # Logarithmic: (1/gamma - 1) / ln(1/gamma).
    gamma = stopping_probability(5.0, 0.0)
    assert (1 / gamma - 1) / -math.log(gamma) == pytest.approx(5.0)


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("mean", [1.0, 7.0, 100.0])
def test_agrees_with_dp_accountings_event(shape, mean):
    from dp_accounting import dp_event as dp
    from dp_accounting.rdp import RdpAccountant

    base = dp.GaussianDpEvent(2.0)
    accountant = RdpAccountant(ORDERS)
    accountant.compose(dp.RepeatAndSelectDpEvent(base, mean, shape))
    mine = selection("poisson", mean=mean) if math.isinf(shape) else negative_binomial(mean, shape)
    once = renyi([Gaussian(noise_multiplier=2.0)], "add-or-remove", Protected(spread=0))
    assert epsilon_of_best(once, mine, 1e-6) == pytest.approx(
        accountant.get_epsilon(1e-6), rel=1e-6
    )


def best_of(law, generating):
    """The exact law of the best of K draws; a last outcome for K = 0."""
    below = np.concatenate([[0.0], np.minimum(np.cumsum(law), 1.0)])
    reached = generating(below)
    return np.append(np.diff(reached), reached[0])


def generating_function(chosen):
    if chosen.eta is None:
        return lambda x: np.exp(chosen.mean * (x - 1.0))
    gamma, eta = stopping_probability(chosen.mean, chosen.eta), chosen.eta
    if eta == 0.0:
        return lambda x: np.log1p(-(1 - gamma) * x) / math.log(gamma)
    return lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1)


def divergences(p, q):
    kept = p > 0
    with np.errstate(divide="ignore"):
        exponents = np.multiply.outer(ORDERS, np.log(p[kept])) + np.multiply.outer(
            1 - ORDERS, np.log(q[kept])
        )
    return np.logaddexp.reduce(exponents, axis=1) / (ORDERS - 1)


LAWS = st.lists(st.floats(0.001, 1.0), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(LAWS, LAWS, st.sampled_from([1.5, 5.0, 40.0]), st.sampled_from([-0.5, 0.0, 1.0, 2.0, None]))
def test_no_exact_law_of_the_best_exceeds_the_bound(left, right, mean, eta):
    chosen = selection("poisson", mean=mean) if eta is None else negative_binomial(mean, eta)
    p, q = (np.array(law) / sum(law) for law in (left, right))
    once = np.maximum(np.maximum(divergences(p, q), divergences(q, p)), 0.0)
    bound = best_of_random(once, chosen)
    best_p, best_q = (best_of(law, generating_function(chosen)) for law in (p, q))
    assert best_p.sum() == pytest.approx(1.0)
    exact = np.maximum(divergences(best_p, best_q), divergences(best_q, best_p))
    assert (exact <= bound * (1 + 1e-9) + 1e-9).all()


def test_the_law_of_the_best_that_the_bound_is_tested_on_is_that_of_simulated_trials():
    law, mean = np.array([0.5, 0.3, 0.2]), 4.0
    rng = np.random.default_rng(3)
    counts = rng.geometric(1 / mean, size=20_000)
    draws = [rng.choice(3, size=k, p=law).max() for k in counts]
    shares = np.bincount(draws, minlength=3) / len(draws)
    exact = best_of(law, generating_function(negative_binomial(mean, 1.0)))[:3]
    assert shares == pytest.approx(exact, abs=0.015)


def test_the_bound_bites_where_trials_are_many():
    """A mechanism whose best outcome is rare: the best of many leaks more than one trial."""
    p, q = np.array([0.99, 0.01]), np.array([0.997, 0.003])
    once = np.maximum(divergences(p, q), divergences(q, p))
    chosen = negative_binomial(50.0, 1.0)
    best = [best_of(law, generating_function(chosen)) for law in (p, q)]
    assert (divergences(*best)[50:] <= best_of_random(once, chosen)[50:]).all()
    assert best_of_random(once, chosen)[50] > once[50]


def test_a_fixed_number_has_no_such_bound():
    with pytest.raises(InputError, match="repetitions is 'fixed'"):
        best_of_random(ORDERS, selection())


# ----------------------------------------------------------------------------------------- charging


def charged(chosen, *events, tried=None, refusals=()):
    guarantees = proven(events, delta=1e-5)
    trials = Trials(chosen, tried or (events,) * 3, refusals)
    return guarantees, *charge(guarantees, trials)


def test_a_fixed_number_of_trials_costs_their_composition():
    guarantees, (total,), record = charged(selection(), rounds(count=10))
    (three,) = proven([rounds(count=30)], delta=1e-5)
    assert total.epsilon == pytest.approx(three.epsilon)
    assert total.epsilon > guarantees[0].epsilon
    assert total.accountant == "pld + selection"
    assert record["method"] == "composition of all 3 trials"
    (entry,) = record["guarantees"]
    assert (entry["charged"], entry["reason"]) == (True, "")
    assert entry["epsilon_of_one_trial"] == guarantees[0].epsilon


def test_a_random_number_of_trials_costs_what_the_theorem_says():
    _, (total,), record = charged(negative_binomial(3.0, 1.0), rounds(count=10))
    once = renyi([rounds(count=10).event], "add-or-remove", Protected(spread=0))
    best = epsilon_of_best(once, negative_binomial(3.0, 1.0), 1e-5)
    assert best <= total.epsilon == pytest.approx(best, rel=1e-8)
    assert total.accountant == "rdp + selection"
    assert "Theorem 2, mean 3, eta 1" in record["method"]
    assert any("kept secret" in text for text in total.assumptions)
    assert any("validation users" in text for text in total.assumptions)


def test_the_worst_setting_of_the_grid_is_charged_for():
    settings_ = tuple((rounds(noise=noise),) for noise in (1.0, 0.6, 2.0))
    chosen = selection("poisson", mean=4.0, scores="public")
    _, (total,), _ = charged(chosen, rounds(noise=1.0), tried=settings_)
    _, (worst,), _ = charged(chosen, rounds(noise=0.6))
    assert total.epsilon == worst.epsilon
    _, (fixed,), _ = charged(selection(), rounds(noise=1.0), tried=settings_)
    (all_,) = proven([event for events in settings_ for event in events], delta=1e-5)
    assert fixed.epsilon == pytest.approx(all_.epsilon)


@pytest.mark.parametrize("chosen", [selection(), negative_binomial(5.0, 0.0)])
def test_every_point_of_a_curve_is_charged(chosen):
    base = UserEntityGaussian(rate=0.05, noise_multiplier=20.0, users=40)
    point = Protected(spread=3)
    event = PrivacyEvent(unit="user-entity", event=Repeated(count=20, event=base), protected=point)
    guarantees, totals, record = charged(chosen, event)
    assert [g.unit for g in totals] == [g.unit for g in guarantees]
    for before, after in zip(guarantees, totals, strict=True):
        assert after.epsilon > before.epsilon
        assert len(after.curve) == len(before.curve)
        for old, new in zip(before.curve, after.curve, strict=True):
            assert (old.spread, old.sentences) == (new.spread, new.sentences)
            assert new.epsilon > old.epsilon
    curve = totals[[g.unit for g in totals].index("user-entity")]
    assert curve.epsilon == next(p.epsilon for p in curve.curve if p.spread == 3)
    user = totals[[g.unit for g in totals].index("user")]
    assert user.epsilon == pytest.approx(curve.curve[0].epsilon, rel=1e-6)
    assert all(entry["charged"] for entry in record["guarantees"])


@pytest.mark.parametrize(
    ("chosen", "refusals", "reason"),
    [
        (selection(charge=False), (), "asks for no charge"),
        (selection(scores="training"), (), "no post-processing"),
        (selection(), ("denominators are private",), "denominators are private"),
    ],
)
def test_what_is_not_charged_says_so_and_keeps_its_epsilon(chosen, refusals, reason):
    guarantees, (total,), record = charged(chosen, rounds(), refusals=refusals)
    assert total.epsilon == guarantees[0].epsilon
    assert total.accountant == guarantees[0].accountant
    assert any("not charged" in text and reason in text for text in total.assumptions)
    assert record["method"] == ""
    assert not record["guarantees"][0]["charged"]
    assert reason in record["guarantees"][0]["reason"]


def test_no_trial_hides_behind_the_stage_of_another():
    """User-entity rounds imply nothing for users beside events of the unit user: both count."""
    base = UserEntityGaussian(rate=0.1, noise_multiplier=1.0, users=9)
    group = PrivacyEvent(unit="user-entity", event=Repeated(count=10, event=base), stage="a")
    user = rounds().model_copy(update={"stage": "a"})
    _, (total,), _ = charged(selection(), user, tried=((user,), (group,)))
    (both,) = proven([rounds(count=20)], delta=1e-5)
    assert total.epsilon == pytest.approx(both.epsilon, rel=1e-2)


@pytest.mark.parametrize("chosen", [selection(), negative_binomial(5.0, 1.0)])
def test_trials_without_the_guarantee_are_not_charged(chosen):
    bare = PrivacyEvent(unit="user", event=NonPrivate(reason="no noise at all"))
    for other in ((bare,), (rounds(unit="record"),), (rounds(noise=0.0),)):
        guarantees, (total,), record = charged(chosen, rounds(), tried=((rounds(),), other))
        assert total.epsilon == guarantees[0].epsilon
        assert not record["guarantees"][0]["charged"]


def test_claims_refusals_and_infinity_stay_as_they_are():
    claim = Claim(unit="user", event=rounds().event, accountant="moments", source="paper")
    guarantees = (
        *claimed([claim], 1e-5),
        *proven([rounds()], delta=1e-5, refusals=["private sizes"]),
        *proven([rounds(noise=0.0)], delta=1e-5),
    )
    totals, record = charge(guarantees, Trials(selection(), ((rounds(),),) * 3))
    assert totals == guarantees
    assert record["guarantees"] == []


# -------------------------------------------------------------------------------- the declaration


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"repetitions": "poisson"}, "mean.*'poisson'"),
        ({"mean": 3.0}, "mean.*'fixed'"),
        ({"repetitions": "truncated-negative-binomial", "mean": 3.0}, "eta.*-binomial"),
        ({"repetitions": "poisson", "mean": 3.0, "eta": 1.0}, "eta.*'poisson'"),
        ({"repetitions": "poisson", "mean": 0.5}, r"mean\s.* 1"),
        ({"tried": {}}, r"tried.*\s.*1 item"),
        ({"tried": {"units": [1]}}, r"mechanism\.NAME\.x"),
        ({"tried": {"mechanism.clip": [1]}}, r"mechanism\.NAME\.x"),
        ({"tried": {"model.units": []}}, r"tried.*\s.*1 item"),
    ],
)
def test_a_declaration_that_says_too_little_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Selection(**{"tried": TRIED, **fields})


def test_settings_are_the_grid_and_only_what_concerns_a_mechanism():
    chosen = Selection(tried={"model.units": [8, 16], "mechanism.user-dp.clip": [1.0, 2.0, 3.0]})
    assert chosen.size == len(list(chosen.settings())) == 6
    assert chosen.concerning({"noiseless"}).tried == {"model.units": [8, 16]}
    only = Selection(tried={"mechanism.user-dp.clip": [1.0]})
    assert only.concerning({"noiseless"}) is None
    assert only.concerning({"user-dp", "deidentify"}) == only


def test_the_numbers_of_the_documentation():
    event = rounds(noise=0.84, count=60)
    many = [negative_binomial(10, 0), negative_binomial(10, 1), selection("poisson", mean=10)]
    epsilons = [charged(chosen, event)[1][0].epsilon for chosen in (selection(), *many)]
    assert epsilons == pytest.approx([13.27, 12.91, 14.07, 15.85], abs=0.006)
