"""Claims that a user declares: repeated as they stand, refuted where an attack finds more."""

from __future__ import annotations

import math

import pytest

from uedp_bench.accounting.declarations import MADE_ELSEWHERE, DeclaredClaim, DeclaredTraining
from uedp_bench.accounting.events import (
    DECLARED,
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from uedp_bench.accounting.guarantee import Guarantee, proves_something
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.components.component import parse_params
from uedp_bench.contracts.results import CurveEvidence, LowerBound
from uedp_bench.errors import InputError

EIGHT = DeclaredClaim(
    claimed_epsilon=8.0, claimed_delta=1e-5, claimed_unit="record", claimed_source="its model card"
)


def guarantees(declared: DeclaredClaim, delta: float) -> tuple[Guarantee, ...]:
    return (*claimed(declared.claims(), delta), *proven(declared.events(), delta=delta))


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_the_claim_is_repeated_at_its_own_delta_whatever_the_run_asks(delta: float) -> None:
    claim, _ = guarantees(EIGHT, delta)
    assert (claim.kind, claim.epsilon, claim.delta, claim.unit) == ("claimed", 8.0, 1e-5, "record")
    assert (claim.accountant, claim.status, claim.source) == (DECLARED, "given", "its model card")
    assert claim.note.startswith("declared by the user")


def test_nothing_is_proven_of_what_was_made_elsewhere() -> None:
    promises = guarantees(EIGHT, 1e-5)
    assert not proves_something(promises)
    assert (promises[1].epsilon, promises[1].notion, promises[1].unit) == (
        math.inf,
        "none",
        "record",
    )
    assert MADE_ELSEWHERE in promises[1].reason
    assert [one.kind for one in guarantees(DeclaredClaim(), 1e-5)] == ["proven"]


@pytest.mark.parametrize(
    ("strict", "delta", "status"), [(8.5, 1e-5, "refuted"), (7.5, 1e-5, "given"), (9, 0, "given")]
)
def test_a_bound_above_the_claim_refutes_it_from_its_delta_on(
    strict: float, delta: float, status: str
) -> None:
    bound = LowerBound(
        unit="record", adjacency="add-or-remove", epsilon=9.0, delta=delta, confidence=0.95,
        strict_epsilon=strict, method="test", attack="audit",
    )  # fmt: skip
    claim = check_bounds(
        [bound], guarantees(EIGHT, 1e-6), lambda **_: math.inf,
        lambda at: claimed(EIGHT.claims(), at),
    )[0]  # fmt: skip
    assert claim.status == status


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"claimed_delta": 1e-5}, "claimed_epsilon"),
        ({"claimed_epsilon": 1.0, "claimed_unit": "computation"}, "claimed_unit is 'computation'"),
        ({"claimed_epsilon": -1.0}, "claimed_epsilon"),
    ],
)
def test_claims_of_nothing_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_params(DeclaredClaim, values, "trained-elsewhere")


TRAINED = DeclaredTraining(
    claimed_noise_multiplier=1.0, claimed_sampling_rate=0.01, claimed_steps=1000,
    claimed_unit="record",
)  # fmt: skip


@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-2])
def test_a_claimed_training_says_epsilon_at_every_delta(delta: float) -> None:
    (claim,) = claimed(TRAINED.claims(), delta)
    step = PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0))
    event = PrivacyEvent(unit="record", event=Repeated(count=1000, event=step))
    (proof,) = proven([event], delta=delta)
    assert (claim.delta, claim.unit, claim.accountant) == (delta, "record", "pld")
    assert claim.epsilon == pytest.approx(proof.epsilon, rel=1e-2)
    assert claim.note.startswith("declared by the user")


def test_a_training_may_be_claimed_by_epsilon_and_by_noise() -> None:
    values = {"claimed_epsilon": 1.0, "claimed_delta": 1e-5, "claimed_noise_multiplier": 2.0}
    both = parse_params(DeclaredTraining, values, "trained-elsewhere").claims()
    assert [one.accountant for one in both] == [DECLARED, "pld"]
    assert both[1].event == Repeated(count=1, event=Gaussian(noise_multiplier=2.0))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"claimed_steps": 10}, "claimed_steps"),
        ({"claimed_sampling_rate": 0.1, "claimed_epsilon": 1.0}, "claimed_sampling_rate"),
        ({"claimed_noise_multiplier": 1.0, "claimed_delta": 1e-5}, "claimed_delta"),
        ({"claimed_noise_multiplier": 0.0}, "claimed_noise_multiplier"),
        ({"claimed_noise_multiplier": 1.0, "claimed_sampling_rate": 1.5}, "claimed_sampling_rate"),
        ({"claimed_noise_multiplier": 1.0, "claimed_steps": 0}, "claimed_steps"),
    ],
)
def test_a_claimed_training_that_says_too_little_is_refused(values: dict, field: str) -> None:
    with pytest.raises(InputError, match=field):
        parse_params(DeclaredTraining, values, "trained-elsewhere")


def test_unclaimed_training_leaves_parameters_of_runs_as_they_were() -> None:
    assert not [name for name in DeclaredTraining().model_dump() if "noise" in name]


def test_a_claimed_training_is_refuted_by_its_curve() -> None:
    """Counts of one event over trainings, that no epsilon at a single delta forbids."""
    counts = CurveEvidence(canaries=20, rates=((0.8, 0.2),), error=1e-6)
    bound = LowerBound(
        unit="record", epsilon=1.3, strict_epsilon=1.3, delta=1e-5, confidence=0.95, method="test",
        evidence=counts,
    )  # fmt: skip
    claims = TRAINED.claims()
    (judged, _) = check_bounds(
        [bound], guarantees(TRAINED, 1e-5), lambda **_: math.inf, lambda at: claimed(claims, at)
    )
    assert judged.status == "refuted"
    assert bound.strict_epsilon < judged.epsilon
