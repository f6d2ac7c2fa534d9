"""Claims that a user declares: repeated as they stand, refuted where an attack finds more."""

from __future__ import annotations

import math

import pytest

from uedp_bench.accounting.consistency import check_bounds
from uedp_bench.accounting.declared_claim import MADE_ELSEWHERE, DeclaredClaim
from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee, proves_something
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.component import parse_params
from uedp_bench.errors import InputError
from uedp_bench.results import LowerBound

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
    found = guarantees(EIGHT, 1e-5)
    assert not proves_something(found)
    assert (found[1].epsilon, found[1].notion, found[1].unit) == (math.inf, "none", "record")
    assert MADE_ELSEWHERE in found[1].reason
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
    ("values", "said"),
    [
        ({"claimed_delta": 1e-5}, "claimed_epsilon"),
        ({"claimed_epsilon": 1.0, "claimed_unit": "computation"}, "claimed_unit is 'computation'"),
        ({"claimed_epsilon": -1.0}, "claimed_epsilon"),
    ],
)
def test_claims_of_nothing_are_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_params(DeclaredClaim, values, "trained-elsewhere")
