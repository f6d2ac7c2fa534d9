"""Claims, proofs, refusals and the comparison of plan and fact."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.events import (
    AnyEvent,
    Claim,
    FixedSizeSampled,
    Gaussian,
    LaplaceVector,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import (
    FRESH,
    REAL_VALUED,
    SECRET,
    CurvePoint,
    Guarantee,
    general,
)
from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.errors import InputError, PrivacyError

DELTA = 1e-5


def poisson(rate: float, noise: float, count: int) -> Repeated:
    inner = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))
    return Repeated(count=count, event=inner)


def fixed(population: int, sample: int, noise: float, count: int) -> Repeated:
    inner = FixedSizeSampled(
        population=population, sample=sample, event=Gaussian(noise_multiplier=noise)
    )
    return Repeated(count=count, event=inner)


def user(event: AnyEvent, **more: object) -> PrivacyEvent:
    return PrivacyEvent(unit="user", event=event, **more)


def group(users: int = 946, noise: float = 102.0, count: int = 50) -> PrivacyEvent:
    inner = UserEntityGaussian(rate=50 / 946, noise_multiplier=noise, users=users)
    event = Repeated(count=count, event=inner)
    return PrivacyEvent(unit="user-entity", event=event, assumptions=("public sizes",))


def only(guarantees: tuple[Guarantee, ...]) -> Guarantee:
    assert len(guarantees) == 1
    return guarantees[0]


@pytest.mark.parametrize(
    ("rate", "noise", "count", "rdp", "pld"),
    [
        (256 / 60_000, 1.1, 14_062, 2.596556, 2.381686),
        (0.01, 1.0, 1_000, 2.101367, 1.828244),
        (0.01, 0.7, 500, 4.375851, 3.596940),
    ],
)
def test_published_vectors(rate: float, noise: float, count: int, rdp: float, pld: float) -> None:
    answer = compose([poisson(rate, noise, count)], "add-or-remove", DELTA)
    assert answer.values["rdp"] == pytest.approx(rdp, abs=1e-6)
    assert answer.values["pld"] == pytest.approx(pld, abs=1e-6)
    assert (answer.accountant, answer.epsilon) == ("pld", answer.values["pld"])


def test_gaussian_calibration_vector() -> None:
    result = only(proven([user(Gaussian(noise_multiplier=3.730632))], delta=DELTA))
    assert result.epsilon == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("half", "epsilon"), [(1.0, 6.4666), (2.0, 2.4925)])
def test_fixed_size_vectors(half: float, epsilon: float) -> None:
    result = compose([fixed(1_000, 50, 2 * half, 100)], "replace-one", DELTA)
    assert result.values["rdp"] == pytest.approx(epsilon, abs=5e-5)
    # The pair is below: it is the worst case of one round but for its choice of direction.
    assert result.epsilon == result.values["fixed-size-pld"] < epsilon


def test_drawing_everybody_is_the_replace_one_gaussian() -> None:
    everybody = compose([fixed(50, 50, 4.0, 1)], "replace-one", DELTA)
    gaussian = compose([Gaussian(noise_multiplier=4.0)], "replace-one", DELTA)
    assert everybody.values["rdp"] == pytest.approx(gaussian.values["rdp"], rel=1e-8)
    assert everybody.epsilon == pytest.approx(gaussian.values["pld"], rel=1e-4)
    doubled = compose([Gaussian(noise_multiplier=2.0)], "add-or-remove", DELTA)
    assert gaussian.values["pld"] == pytest.approx(doubled.values["pld"], rel=1e-4)


def test_fixed_size_rounds_where_a_user_is_added() -> None:
    """By a coin it takes another's place: the coin's pair at half the noise, and no less."""
    added = compose([fixed(1_000, 50, 2.0, 100)], "add-or-remove", DELTA)
    coins = compose([poisson(0.05, 1.0, 100)], "add-or-remove", DELTA)
    assert list(added.values) == ["fixed-size-pld"]
    assert added.epsilon == pytest.approx(coins.values["pld"], rel=1e-3)
    replaced = compose([fixed(1_000, 50, 2.0, 100)], "replace-one", DELTA)
    assert added.epsilon < replaced.epsilon < 1.5 * added.epsilon


def test_fixed_size_is_refused_elsewhere() -> None:
    zeroed = user(fixed(1_000, 50, 2.0, 100), adjacency="zero-out")
    result = only(proven([zeroed], delta=DELTA))
    assert (result.status, result.epsilon, result.notion) == ("refused", math.inf, "none")
    assert "zero-out" in result.reason
    mixed = [user(fixed(1_000, 50, 2.0, 100)), user(Gaussian(noise_multiplier=2.0))]
    assert "no others" in only(proven(mixed, delta=DELTA)).reason
    more = user(fixed(10, 50, 2.0, 100), adjacency="replace-one")
    assert "50 units" in only(proven([more], delta=DELTA)).reason


def test_events_of_one_unit_compose() -> None:
    parts = [user(poisson(0.01, 1.0, 400)), user(poisson(0.01, 1.0, 600))]
    whole = only(proven([user(poisson(0.01, 1.0, 1_000))], delta=DELTA))
    assert only(proven(parts, delta=DELTA)).epsilon == pytest.approx(whole.epsilon, rel=1e-4)
    mixed = only(proven([*parts, user(Gaussian(noise_multiplier=5.0))], delta=DELTA))
    assert mixed.epsilon > whole.epsilon


@settings(deadline=None, max_examples=5)
@given(st.floats(0.005, 0.4), st.floats(0.8, 50.0), st.integers(1, 200))
def test_invariants(rate: float, noise: float, count: int) -> None:
    def value(rate: float, noise: float, count: int) -> float:
        return compose([poisson(rate, noise, count)], "add-or-remove", DELTA).values["pld"]

    base, slack = value(rate, noise, count), 1e-6
    assert value(rate, noise * 1.2, count) <= base * (1 + 1e-3) + slack
    assert value(min(1.0, rate * 1.2), noise, count) >= base * (1 - 1e-3) - slack
    assert value(rate, noise, 2 * count) >= base * (1 - 1e-3) - slack
    answer = compose([poisson(rate, noise, count)], "add-or-remove", DELTA)
    assert answer.epsilon == min(answer.values.values())


def test_user_entity_curve_and_the_user_it_contains() -> None:
    both = {g.unit: g for g in proven([group()], delta=DELTA)}
    assert set(both) == {"user-entity", "user"}
    curve = {p.spread: p.epsilon for p in both["user-entity"].curve}
    assert list(curve) == [0, 1, 3, 10, 30, 100, 945]
    assert both["user-entity"].epsilon == curve[945] == pytest.approx(52.6, abs=0.05)
    assert both["user"].epsilon == pytest.approx(curve[0], rel=1e-2)
    assumed = ("public sizes", *general())
    assert both["user"].assumptions == both["user-entity"].assumptions == assumed


def test_a_user_event_of_its_own_is_not_replaced() -> None:
    views = [group(), user(poisson(0.01, 1.0, 1_000))]
    views = [event.model_copy(update={"stage": "of one mechanism"}) for event in views]
    both = {g.unit: g for g in proven(views, delta=DELTA)}
    assert both["user"].epsilon == pytest.approx(1.828244, abs=1e-6)


def test_no_user_guarantee_from_a_part_of_the_rounds() -> None:
    raw = NonPrivate(reason="noise was told to somebody")
    other = PrivacyEvent(unit="user-entity", event=raw)
    assert {g.unit for g in proven([group(), other], delta=DELTA)} == {"user-entity"}


def test_from_user_level_nothing_follows() -> None:
    assert only(proven([user(poisson(0.01, 1.0, 10))], delta=DELTA)).unit == "user"


def test_unprotected_use_is_infinite_everywhere() -> None:
    raw = PrivacyEvent(unit="record", event=NonPrivate(reason="text published as it is"))
    for result in proven([user(poisson(0.01, 1.0, 10)), raw], delta=DELTA):
        assert (result.epsilon, result.notion, result.status) == (math.inf, "none", "given")
        assert result.reason == "text published as it is"
        assert result.delta == DELTA


def test_unprotected_use_of_one_unit_leaves_what_the_same_stage_says_of_another() -> None:
    word = PrivacyEvent(unit="word", event=LaplaceVector(scale=2.0, sensitivity=6.0), stage="one")
    raw = PrivacyEvent(unit="record", event=NonPrivate(reason="as it is"), stage="one")
    guarantees = {g.unit: g for g in proven([word, raw], delta=DELTA)}
    assert (guarantees["word"].epsilon, guarantees["word"].status) == (3.0, "given")
    assert (guarantees["record"].epsilon, guarantees["record"].reason) == (math.inf, "as it is")
    # Of another stage, of no stage, or of the unit itself it counts as before.
    for other in (
        raw.model_copy(update={"stage": "two"}),
        raw.model_copy(update={"stage": ""}),
        raw.model_copy(update={"unit": "word"}),
    ):
        assert {g.epsilon for g in proven([word, other], delta=DELTA)} == {math.inf}
    nameless = [event.model_copy(update={"stage": ""}) for event in (word, raw)]
    assert {g.epsilon for g in proven(nameless, delta=DELTA)} == {math.inf}


def test_refusals_are_joined() -> None:
    result = only(proven([user(poisson(0.1, 1, 1))], delta=DELTA, refusals=("a", "b")))
    assert (result.status, result.reason, result.epsilon) == ("refused", "a; b", math.inf)


@pytest.mark.parametrize(
    "events",
    [
        [user(poisson(0.1, 1, 1)), user(Gaussian(noise_multiplier=1), adjacency="replace-one")],
        [user(fixed(9, 3, 1, 1), adjacency="replace-one"),
         user(poisson(0.1, 1, 1), adjacency="replace-one")],
        [group(), PrivacyEvent(unit="user-entity", event=fixed(9, 3, 1, 1))],
        [group(946), group(945)],
        [user(UserEntityGaussian(rate=0.1, noise_multiplier=1, users=9))],
    ],
)  # fmt: skip
def test_what_does_not_compose_is_refused(events: list[PrivacyEvent]) -> None:
    unit = events[0].unit
    results = [g for g in proven(events, delta=DELTA) if g.unit == unit]
    assert results
    for result in results:
        assert (result.status, result.epsilon) == ("refused", math.inf)
        assert result.reason


def test_edges() -> None:
    assert proven([], delta=DELTA) == ()
    assert only(proven([user(poisson(0.1, 1.0, 0))], delta=DELTA)).epsilon == 0.0
    assert only(proven([user(poisson(0.0, 0.0, 9))], delta=DELTA)).epsilon == 0.0
    silent = only(proven([user(poisson(0.1, 0.0, 9))], delta=DELTA))
    assert (silent.epsilon, silent.notion, silent.reason) == (
        math.inf,
        "none",
        "no noise was added",
    )
    for result in proven([group(noise=0.0)], delta=DELTA):
        assert (result.epsilon, result.reason) == (math.inf, "no noise was added")
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            proven([user(poisson(0.1, 1.0, 1))], delta=delta)


def test_nan_is_refused() -> None:
    with pytest.raises(ValidationError):
        Gaussian(noise_multiplier=math.nan)
    with pytest.raises(ValidationError):
        PoissonSampled(rate=math.nan, event=Gaussian(noise_multiplier=1.0))
    with pytest.raises(ValidationError, match="epsilon"):
        CurvePoint(spread=0, epsilon=math.nan)


def test_infinity_survives_json() -> None:
    result = only(proven([user(NonPrivate(reason="none"))], delta=DELTA))
    assert '"epsilon":"inf"' in result.model_dump_json()
    assert Guarantee.model_validate_json(result.model_dump_json()) == result


def claim(event: AnyEvent, accountant: str, **more: object) -> Claim:
    return Claim(unit="user", event=event, accountant=accountant, source="a paper", **more)


def test_claims_use_their_own_accountant() -> None:
    event = poisson(50 / 946, 2.0, 50)
    moments, rdp, pld = claimed([claim(event, a) for a in ("moments", "rdp", "pld")], DELTA)
    assert round(moments.epsilon, 2) == 1.18
    assert moments.epsilon > rdp.epsilon > pld.epsilon
    assert {g.kind for g in (moments, rdp, pld)} == {"claimed"}
    noted = only(claimed([claim(event, "moments", note="sensitivity is twice that")], DELTA))
    assert noted.note == "sensitivity is twice that"


def test_claims_that_say_nothing() -> None:
    raw = only(claimed([claim(NonPrivate(reason="plain"), "rdp")], DELTA))
    assert (raw.epsilon, raw.notion, raw.status, raw.reason) == (math.inf, "none", "given", "plain")
    refused = only(claimed([claim(fixed(9, 3, 1, 1), "moments")], DELTA))
    assert (refused.status, refused.epsilon) == ("refused", math.inf)
    assert only(claimed([claim(poisson(0.1, 1.0, 0), "moments")], DELTA)).epsilon == 0.0
    assert only(claimed([claim(poisson(0.1, 0.0, 1), "moments")], DELTA)).epsilon == math.inf


def test_plan_kept() -> None:
    check_plan([user(poisson(0.1, 1.0, 5))], (user(poisson(0.1, 1.0, 5)),))
    check_plan([], [])


@pytest.mark.parametrize(
    ("happened", "words"),
    [
        (fixed(1_000, 50, 1.0, 5), ["event.event.kind", "poisson-sampled", "fixed-size-sampled"]),
        (poisson(0.1, 1.0, 4), ["event.count", "5", "4"]),
        (poisson(0.1, 0.9, 5), ["event.event.event.noise_multiplier", "1.0", "0.9"]),
        (poisson(0.2, 1.0, 5), ["event.event.rate", "0.1", "0.2"]),
    ],
)
def test_plan_broken(happened: AnyEvent, words: list[str]) -> None:
    same = user(Gaussian(noise_multiplier=1.0))
    with pytest.raises(PrivacyError) as caught:
        check_plan([same, user(poisson(0.1, 1.0, 5))], [same, user(happened)])
    for word in ["privacy event 2", *words]:
        assert word in str(caught.value)


@pytest.mark.parametrize("swap", [False, True])
def test_plan_of_another_length(swap: bool) -> None:
    short, long = [], [user(poisson(0.1, 1.0, 5))]
    with pytest.raises(PrivacyError, match="event 1 only"):
        check_plan(*((long, short) if swap else (short, long)))


def test_unmarked_events_of_different_units_are_not_taken_for_one_release() -> None:
    users, entities = user(poisson(0.1, 1.0, 20)), group(noise=20.0)
    alone = {g.unit: g for g in proven([entities], delta=DELTA)}
    both = {g.unit: g for g in proven([users, entities], delta=DELTA)}
    assert alone["user-entity"].status == "given"
    assert both["user"].epsilon > only(proven([users], delta=DELTA)).epsilon
    assert both["user-entity"].status == "refused"
    assert "user-entity" in both["user-entity"].reason


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
@pytest.mark.parametrize("sampled", [True, False])
def test_noise_beyond_what_floats_can_square(adjacency: str, sampled: bool) -> None:
    values = []
    for noise in (1e-200, 1e200):
        gaussian = Gaussian(noise_multiplier=noise)
        inner = PoissonSampled(rate=0.1, event=gaussian) if sampled else gaussian
        event = user(Repeated(count=3, event=inner), adjacency=adjacency)
        values.append(only(proven([event], delta=DELTA)).epsilon)
    assert values[0] == math.inf
    assert 0.0 <= values[1] < 1e-3


def test_a_curve_of_noise_beyond_what_floats_can_square() -> None:
    assert all(g.epsilon < 1e-3 for g in proven([group(noise=1e200)], delta=DELTA))


# ------------------------------------------------------------------------------ what all rest on


def test_every_proof_says_that_noise_is_real_fresh_and_secret() -> None:
    events = (
        user(poisson(0.1, 1.0, 5)),
        group(),
        user(LaplaceVector(scale=1.0, sensitivity=1.0)),
        user(fixed(100, 10, 1.0, 5), adjacency="replace-one"),
    )
    for event in events:
        for guarantee in proven([event], delta=DELTA):
            assert guarantee.assumptions[-3:] == (REAL_VALUED, FRESH, SECRET["seed"])
            assert "seed stays secret" in guarantee.assumptions[-1]
    (drawn,) = proven([events[0]], delta=DELTA, source="os")
    assert drawn.assumptions == general("os") == (REAL_VALUED, FRESH, SECRET["os"])
    assert "operating system" in SECRET["os"]


def test_what_is_refused_or_infinite_assumes_nothing_more() -> None:
    (refused,) = proven([user(poisson(0.1, 1.0, 5))], delta=DELTA, refusals=["private sizes"])
    (infinite,) = proven([user(poisson(0.1, 0.0, 5))], delta=DELTA)
    assert refused.assumptions == infinite.assumptions == ()


@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.5])
@pytest.mark.parametrize(
    "event",
    [
        {"kind": "pure-dp", "epsilon": 1e300},
        {"kind": "laplace-vector", "scale": 1e6, "sensitivity": 1e-300},
        {
            "kind": "poisson-sampled", "rate": 1e-20,
            "event": {"kind": "gaussian", "noise_multiplier": 1.0},
        },
        {"kind": "repeated", "count": 10**12, "event": {"kind": "pure-dp", "epsilon": 1e300}},
        {
            "kind": "banded-factorization", "rounds": 7, "coefficients": [1e4], "separation": 9,
            "noise_multiplier": 1e-160, "participations": 3, "population": 3,
        },
    ],
    ids=lambda event: event["kind"],
)  # fmt: skip
def test_numbers_that_no_accountant_reaches_are_refused(event: Any, delta: float) -> None:
    """Never an error of arithmetic, and never a number that was not computed."""
    at = "replace-one" if event["kind"] == "poisson-sampled" else "add-or-remove"
    happened = PrivacyEvent.model_validate({"unit": "client", "adjacency": at, "event": event})
    (guarantee,) = proven([happened], delta=delta)
    assert guarantee.status == "given" or (math.isinf(guarantee.epsilon) and guarantee.reason)
    (claimed_guarantee,) = claimed(
        [Claim(unit="client", adjacency=at, event=happened.event, accountant="pld", source="s")],
        delta,
    )
    assert claimed_guarantee.status == "given" or math.isinf(claimed_guarantee.epsilon)


def test_a_promise_is_kept_however_large() -> None:
    (guarantee,) = proven([PrivacyEvent(unit="user", event=PureDP(epsilon=1e300))], delta=1e-5)
    assert (guarantee.status, guarantee.epsilon) == ("given", 1e300)
