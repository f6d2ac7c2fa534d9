"""Lower bounds against guarantees: each at its own unit, point and delta, and nothing by chance."""

from __future__ import annotations

import math
from functools import partial

import pytest

from uedp_bench.accounting.events import (
    Claim,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    PureDP,
    Repeated,
    SentenceSampledGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.accounting.ledger import claimed, proven, proven_at
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.contracts.results import CurveEvidence, LowerBound
from uedp_bench.errors import PrivacyError

USER = PrivacyEvent(
    unit="user",
    event=Repeated(count=20, event=PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=1.0))),
)
GROUP = PrivacyEvent(
    unit="user-entity",
    event=Repeated(count=20, event=UserEntityGaussian(rate=0.1, noise_multiplier=5.0, users=100)),
    protected=Protected(spread=3),
)
SENTENCES = PrivacyEvent(
    unit="user-entity",
    event=Repeated(
        count=20,
        event=SentenceSampledGaussian(
            rate=0.1, noise_multiplier=5.0, sentences_per_user=4, users=100
        ),
    ),
    protected=Protected(spread=3),
)


def bound(epsilon, unit="user", **more):
    values = {"delta": 1e-5, "confidence": 0.95, "method": "clopper-pearson", "attack": "audit"}
    return LowerBound(
        unit=unit, **{"epsilon": epsilon, "strict_epsilon": epsilon, **values, **more}
    )


def claim(epsilon, unit="user-entity", **more):
    values = {"adjacency": "add-or-remove", "delta": 1e-5, "accountant": "moments"}
    return Guarantee(kind="claimed", unit=unit, epsilon=epsilon, **{**values, **more})


def check(*bounds, events=(USER,), claims=()):
    guarantees = (*claims, *proven(events, delta=1e-5))
    return check_bounds(bounds, guarantees, partial(proven_at, events))


def value(event, **at):
    wanted = {"unit": event.unit, "adjacency": "add-or-remove", "delta": 1e-5,
              "point": Protected(spread=0), **at}  # fmt: skip
    return proven_at([event], **wanted)


# ------------------------------------------------------------------------------------------ proofs


def test_a_bound_above_the_proof_fails_with_both_numbers():
    epsilon = value(USER)
    check(bound(epsilon * 0.999))
    with pytest.raises(PrivacyError) as error:
        check(bound(epsilon * 1.001, confidence=0.95))
    message = str(error.value)
    for part in ("attack audit", "for user", f"{epsilon * 1.001:.6g}", f"{epsilon:.6g}", "1e-06"):
        assert part in message


def test_only_strict_bounds_are_checked_and_by_their_strict_value():
    high = 10 * value(USER)
    check(bound(high, strict_epsilon=None))
    check(bound(high, strict_epsilon=0.1))
    with pytest.raises(PrivacyError):
        check(bound(0.1, strict_epsilon=high))


def test_a_bound_is_compared_at_its_own_delta():
    loose, tight = value(USER, delta=1e-2), value(USER, delta=1e-7)
    assert loose < 0.8 * value(USER) < value(USER) < tight
    with pytest.raises(PrivacyError):
        check(bound(0.8 * value(USER), delta=1e-2))
    check(bound(1.01 * value(USER), delta=1e-7))
    with pytest.raises(PrivacyError):
        check(bound(1.01 * tight, delta=1e-7))


@pytest.mark.parametrize("event", [GROUP, SENTENCES])
def test_a_bound_is_compared_at_its_own_point(event):
    points = {k: value(event, point=Protected(spread=k)) for k in (0, 1, 3, 10)}
    assert sorted(points.values()) == list(points.values())
    check(bound(0.99 * points[10], "user-entity", spread=10, sentences=10), events=[event])
    with pytest.raises(PrivacyError, match="spread 3, 3 sentences"):
        check(bound(0.99 * points[10], "user-entity", spread=3, sentences=3), events=[event])
    with pytest.raises(PrivacyError):
        check(bound(1.01 * points[0], "user-entity", spread=0, sentences=0), events=[event])


def test_sentences_of_others_count_where_sentences_are_sampled():
    few = value(SENTENCES, point=Protected(spread=3))
    many = value(SENTENCES, point=Protected(spread=3, sentences_per_user=4))
    between = (few + many) / 2
    check(bound(between, "user-entity", spread=3, sentences=12), events=[SENTENCES])
    check(bound(between, "user-entity", spread=3), events=[SENTENCES])  # any number of them
    with pytest.raises(PrivacyError):
        check(bound(between, "user-entity", spread=3, sentences=3), events=[SENTENCES])


def test_a_bound_without_a_point_is_compared_with_everybody():
    # With less noise, nothing is proven for everybody: samplers of noise end somewhere.
    louder = UserEntityGaussian(rate=0.1, noise_multiplier=20.0, users=100)
    wide = GROUP.model_copy(update={"event": Repeated(count=20, event=louder)})
    everybody = value(wide, point=Protected(spread=99))
    assert 0 < everybody < float("inf")
    check(bound(0.99 * everybody, "user-entity"), events=[wide])
    with pytest.raises(PrivacyError):
        check(bound(1.01 * everybody, "user-entity"), events=[wide])


def test_a_user_bound_bounds_user_entity_from_below_at_no_spread():
    alone = value(GROUP)
    assert alone < value(GROUP, point=Protected(spread=3))
    check(bound(0.99 * alone), events=[GROUP])
    with pytest.raises(PrivacyError):
        check(bound(1.01 * alone), events=[GROUP])
    # Even where the proof for users themselves is missing.
    only = tuple(g for g in proven([GROUP], delta=1e-5) if g.unit == "user-entity")
    with pytest.raises(PrivacyError, match="user-entity"):
        check_bounds([bound(1.01 * alone)], only, partial(proven_at, [GROUP]))


def test_nothing_follows_for_other_units_and_adjacencies():
    check(bound(1e6, "record"), bound(1e6, "user-entity"), bound(1e6, adjacency="replace-one"))


def test_what_is_refused_or_infinite_cannot_be_exceeded():
    bare = PrivacyEvent(unit="user", event=NonPrivate(reason="no noise"))
    check(bound(1e6), events=[bare])
    refused = proven([USER], delta=1e-5, refusals=["private denominators"])
    assert check_bounds([bound(1e6)], refused, partial(proven_at, [USER])) == refused


def test_delta_zero_bounds_pure_guarantees_only():
    pure = PrivacyEvent(unit="user", event=PureDP(epsilon=1.0))
    check(bound(1e6, delta=0.0))
    check(bound(0.99, delta=0.0), events=[pure])
    with pytest.raises(PrivacyError):
        check(bound(1.01, delta=0.0), events=[pure])


# ------------------------------------------------------------------------------------------ claims


def test_a_claim_below_a_bound_is_refuted_and_keeps_its_epsilon():
    low = bound(1.0, "user-entity", spread=10, sentences=10)
    first, second, *others = check(
        low, bound(0.9, "user-entity", attack="other"), events=[GROUP],
        claims=[claim(0.22), claim(1.5)],
    )  # fmt: skip
    assert (first.status, first.epsilon) == ("refuted", 0.22)
    for part in ("audit", "lower bound 1 ", "clopper-pearson", "1 - 1e-06", "spread 10"):
        assert part in first.reason
    assert (second.status, second.reason) == ("given", "")
    assert all(g.status == "given" for g in others)


def test_the_reason_names_the_bound_of_the_table_and_the_one_that_decides():
    """A table said 2.30 (85 %) and the explanation 1.004: neither mentioned the other."""
    shown = bound(2.3, strict_epsilon=1.004)
    first, *_ = check(shown, bound(2.1, strict_epsilon=1.1), events=[], claims=[claim(0.2, "user")])
    assert first.status == "refuted"
    assert "lower bound 2.3 (confidence 0.95; at 1 - 1e-06, which decides, 1.004)" in first.reason


def test_a_user_bound_refutes_a_user_entity_claim_and_not_the_reverse():
    claims = (claim(0.2), claim(0.2, "user"))
    by_user = check(bound(0.3), events=[GROUP], claims=claims)
    assert [g.status for g in by_user[:2]] == ["refuted", "refuted"]
    by_entity = check(bound(0.3, "user-entity", spread=3, sentences=3), events=[GROUP],
                      claims=claims)  # fmt: skip
    assert [g.status for g in by_entity[:2]] == ["refuted", "given"]


def test_a_claim_holds_for_larger_deltas_and_says_nothing_of_smaller_ones():
    for delta, status in ((1e-5, "refuted"), (1e-3, "refuted"), (1e-6, "given")):
        assert check(bound(0.5, delta=delta), claims=[claim(0.2, "user")])[0].status == status


def test_claims_that_cannot_be_refuted():
    claims = (
        claim(math.inf, "user", notion="none"),
        claim(math.inf, "user", status="refused", reason="no accountant"),
        claim(0.2, "user", notion="metric-dp"),
        claim(0.2, "user", adjacency="replace-one"),
        claim(0.5, "user"),
    )
    assert check(bound(0.5), claims=claims)[: len(claims)] == claims
    loud = bound(0.6, strict_epsilon=None)
    assert check(loud, claims=[claim(0.5, "user")])[0].status == "given"


def test_a_claim_at_a_point_is_refuted_within_it_only():
    curve = (CurvePoint(spread=3, sentences=3, epsilon=0.2),)
    at = claim(0.2, protected=Protected(spread=3), curve=curve)
    for spread, sentences, status in (
        (3, 3, "refuted"), (2, 2, "refuted"), (4, 4, "given"), (2, 4, "given"),
        (None, None, "given"),
    ):  # fmt: skip
        low = bound(0.3, "user-entity", spread=spread, sentences=sentences)
        assert check(low, events=[GROUP], claims=[at])[0].status == status
    assert check(bound(0.3), events=[GROUP], claims=[at])[0].status == "refuted"


def test_a_claim_speaks_at_the_delta_of_the_bound_through_its_own_accountant():
    claims = (
        Claim(unit="user", event=USER.event, accountant="moments", source="a paper"),
        Claim(unit="user", event=USER.event, accountant="pld", source="another"),
    )
    statements = claimed(claims, 1e-5)
    strictly = claimed(claims, 1e-10)
    between = (strictly[0].epsilon + strictly[1].epsilon) / 2
    assert strictly[1].epsilon < between < strictly[0].epsilon
    guarantees = check_bounds(
        [bound(between, delta=1e-10)], statements, partial(proven_at, ()), partial(claimed, claims)
    )
    assert [g.status for g in guarantees] == ["given", "refuted"]
    assert f"{strictly[1].epsilon:.6g}" in guarantees[1].reason
    assert guarantees[1].epsilon == statements[1].epsilon


# ------------------------------------------------------------------------------------------ curves

ONCE = PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=1.0))
"""Epsilon 4.38 at delta 1e-5; a fair coin is guessed right with probability 0.69 at most."""


def counted(likely, rare, **more):
    """A bound of 0 whose scores are counts of one event over many trainings."""
    counts = CurveEvidence(canaries=20, rates=((likely, rare),), error=1e-6)
    return bound(0.0, evidence=counts, **more)


def test_a_proof_is_refuted_by_its_curve_where_no_point_is():
    check(counted(0.69, 0.31), events=(ONCE,))
    with pytest.raises(PrivacyError, match="curve proven"):
        check(counted(0.72, 0.28), events=(ONCE,))
    # Epsilon at a single delta allows nearly every guess to be right.
    assert math.log(0.72 / 0.28) < value(ONCE, delta=1e-5) / 4.0


@pytest.mark.parametrize(("likely", "status"), [(0.69, "given"), (0.72, "refuted")])
def test_a_claimed_curve_is_tested_at_every_delta(likely, status):
    promised = Claim(unit="user", event=ONCE.event, accountant="pld", source="paper")
    claims = claimed([promised], 1e-5)
    bounds = [counted(likely, 1.0 - likely)]
    (judged,) = check_bounds(bounds, claims, None, partial(claimed, [promised]))
    assert judged.status == status
    (by_point,) = check_bounds(bounds, claims, None)
    assert by_point.status == "given"


def test_a_stated_curve_is_refuted_with_its_reason():
    (stated,) = proven([ONCE], delta=1e-5, unreviewed=["mechanism mine"])
    worth = partial(proven_at, [ONCE])
    (kept,) = check_bounds([counted(0.69, 0.31)], [stated], worth)
    (judged,) = check_bounds([counted(0.72, 0.28)], [stated], worth)
    assert (kept.status, judged.status) == ("given", "refuted")
    assert "audit" in judged.reason


@pytest.mark.parametrize(
    "other", [{"unit": "record"}, {"adjacency": "replace-one"}, {"strict_epsilon": None}]
)
def test_counts_of_another_unit_refute_no_curve(other):
    check(counted(0.99, 0.01, **other), events=(ONCE,))


def test_a_claim_of_one_entity_is_not_refuted_by_a_wider_one():
    narrow = claim(0.1, protected=Protected(spread=1))
    wide = counted(0.99, 0.01, unit="user-entity", spread=3, sentences=3)
    same = counted(0.99, 0.01, unit="user-entity", spread=1, sentences=1)
    (kept,) = check_bounds([wide], [narrow], None)
    (judged,) = check_bounds([same], [narrow], None)
    assert (kept.status, judged.status) == ("given", "refuted")
