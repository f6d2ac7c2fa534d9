"""Events, refusals and claims against the spec, and lower bounds against claims and proofs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import claimed, proven_at
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.contracts.results import Result
from uedp_bench.errors import PrivacyError
from uedp_bench.leaderboard.validation.derived_from_spec import Derived, Unknown, derive
from uedp_bench.leaderboard.validation.proofs import close
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, plain, shown


def check_claims(result: Result) -> Iterator[Problem]:
    """Compares what a result promises with what its spec does, and with its attacks."""
    if result.status == "failed":
        return
    derived = derive(result)
    yield from _planned(result, derived)
    yield from _refusals(result, derived)
    yield from _claims(result, derived)
    yield from _bounds(result)
    yield from _refuted(result, derived)


def _planned(result: Result, derived: Derived) -> Iterator[Problem]:
    """Compares the events that happened with those that the mechanisms plan."""
    if isinstance(derived.events, Unknown):
        if derived.events.impossible:
            yield error("spec.mechanism", f"allows no run: {derived.events.reason}")
        else:
            yield note("events", f"not compared with the spec: {derived.events.reason}")
        return
    proofs = [g for g in result.guarantees if g.kind != "claimed"]
    if all(g.status == "refused" for g in proofs) and proofs:
        return  # where events are not those planned, a run refuses its proofs
    count, plan_count = len(result.events), len(derived.events)
    if count != plan_count:
        yield error("events", f"has {count} events, and the mechanisms plan {plan_count}")
        return
    for at, (fact, plan) in enumerate(zip(result.events, derived.events, strict=True)):
        differs = _difference(_compared_part(plan, fact), _compared_part(fact, fact), ())
        if differs is not None:
            where, planned, happened = differs
            what = f"is {shown(happened)}, and its mechanism plans {shown(planned)}"
            yield error(place(("events", at, *where)), what)


def _compared_part(event: PrivacyEvent, fact: PrivacyEvent) -> dict[str, Any]:
    """The part of an event in which both must agree; older versions named no stage."""
    return event.model_dump(exclude={"assumptions"} | (set() if fact.stage else {"stage"}))


def _difference(
    plan: Any, fact: Any, where: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Any, Any] | None:
    """Place and values of the first difference, kinds of events first."""
    parts: Iterable[tuple[Any, Any, Any]]
    if isinstance(plan, dict) and isinstance(fact, dict):
        names = sorted({*plan, *fact}, key=lambda name: (name != "kind", name))
        parts = ((name, plan.get(name), fact.get(name)) for name in names)
    elif isinstance(plan, list | tuple) and isinstance(fact, list | tuple):
        if len(plan) != len(fact):
            return where, plan, fact
        parts = zip(range(len(plan)), plan, fact, strict=True)
    else:
        numbers = isinstance(plan, int | float) and isinstance(fact, int | float)
        same = close(plan, fact) if numbers else plan == fact
        return None if same else (where, plan, fact)
    differences = (
        _difference(planned, happened, (*where, name)) for name, planned, happened in parts
    )
    return next(filter(None, differences), None)


def _refusals(result: Result, derived: Derived) -> Iterator[Problem]:
    """Problems where something is proven that a mechanism, the source or the vocabulary forbids."""
    reasons = () if isinstance(derived.refusals, Unknown) else derived.refusals
    vocabulary = result.provenance.get("vocabulary")
    private = isinstance(vocabulary, dict) and vocabulary.get("private") is True
    if private and result.events and derived.processed is False:
        reasons = (*reasons, "the vocabulary comes from private text")
    for at, guarantee in enumerate(result.guarantees):
        proof = (
            guarantee.kind != "claimed"
            and guarantee.status == "given"
            and math.isfinite(guarantee.epsilon)
        )
        if proof and reasons:
            what = f"'given' must be 'refused': {plain('; '.join(reasons), 200)}"
            yield error(f"guarantees.{at}.status", what)


def _claims(result: Result, derived: Derived) -> Iterator[Problem]:
    """Compares claims with what the papers compute at the parameters of the spec."""
    at = [n for n, stored in enumerate(result.guarantees) if stored.kind == "claimed"]
    again = claims_at(derived, result.spec.delta)
    if isinstance(again, Unknown):
        if at:
            yield note(f"guarantees.{at[0]}", f"claim not computed again: {again.reason}")
        return
    if len(at) != len(again):
        what = f"has {len(at)} claims, and the mechanisms of the spec make {len(again)}"
        yield error("guarantees", what)
        return
    for number, claim in zip(at, again, strict=True):
        stored, where = result.guarantees[number], f"guarantees.{number}"
        for name in ("unit", "adjacency", "notion", "accountant"):
            if getattr(stored, name) != getattr(claim, name):
                what = f"{shown(getattr(stored, name))} is not the {getattr(claim, name)!r} claimed"
                yield error(f"{where}.{name}", what)
        for name in ("epsilon", "delta"):
            if not close(getattr(stored, name), getattr(claim, name)):
                what = f"{shown(getattr(stored, name))} is not the {shown(getattr(claim, name))} "
                yield error(f"{where}.{name}", f"{what}that the paper's accountant gives")
        if (stored.status == "refused") != (claim.status == "refused"):
            yield error(f"{where}.status", f"{stored.status!r} should be {claim.status!r}")


def claims_at(derived: Derived, delta: float) -> tuple[Guarantee, ...] | Unknown:
    """The claims at a delta, or why they do not follow."""
    if isinstance(derived.claims, Unknown):
        return derived.claims
    try:
        return claimed(derived.claims, delta)
    except Exception as reason:  # as of proofs
        return Unknown(plain(f"{type(reason).__name__}: {reason}", 200))


def _bounds(result: Result) -> Iterator[Problem]:
    """Problems where a bound lies above a proof."""
    proofs = [g for g in result.guarantees if g.kind == "proven" and g.status == "given"]
    again = partial(proven_at, result.events)
    for at, bound in enumerate(result.lower_bounds):
        try:
            check_bounds([bound], proofs, again)
        except PrivacyError as reason:
            yield error(f"lower_bounds.{at}.strict_epsilon", plain(str(reason), 400))
        except Exception as reason:  # as of proofs
            what = plain(f"{type(reason).__name__}: {reason}", 200)
            yield error(f"lower_bounds.{at}", f"cannot be compared with what is proven: {what}")


def _refuted(result: Result, derived: Derived) -> Iterator[Problem]:
    """Problems where a claim below a bound is not marked as refuted, or another one is."""
    at = [n for n, stated in enumerate(result.guarantees) if stated.kind == "claimed"]
    claims = [result.guarantees[number] for number in at]
    unrefuted = [
        claim.model_copy(update={"status": "given"}) if claim.status == "refuted" else claim
        for claim in claims
    ]
    claims_known = not isinstance(claims_at(derived, result.spec.delta), Unknown)

    def claimed_at(delta: float) -> Sequence[Guarantee]:
        claims_at_delta = claims_at(derived, delta)
        return (
            unrefuted
            if isinstance(claims_at_delta, Unknown) or len(claims_at_delta) != len(at)
            else claims_at_delta
        )

    judged = check_bounds(
        result.lower_bounds, unrefuted, _infinite, claimed_at if claims_known else None
    )
    yield from _marks(at, claims, judged, sure=claims_known)
    at = [n for n, stated in enumerate(result.guarantees) if stated.kind == "stated"]
    stated = [result.guarantees[number] for number in at]
    unmarked = [
        one.model_copy(update={"status": "given"}) if one.status == "refuted" else one
        for one in stated
    ]
    try:
        verdicts = check_bounds(result.lower_bounds, unmarked, partial(proven_at, result.events))
    except Exception:  # the check of events said it already
        return
    yield from _marks(at, stated, verdicts, sure=True)


def _marks(
    at: Sequence[int], stored: Sequence[Guarantee], judged: Sequence[Guarantee], *, sure: bool
) -> Iterator[Problem]:
    """Problems where a guarantee is not marked as refuted and a bound refutes it, or is and none.

    Args:
        at: places of the guarantees in the file.
        stored: guarantees in the file.
        judged: the same, refuted where a bound lies above them.
        sure: True if what they promise at every delta is known.
    """
    for number, claim, verdict in zip(at, stored, judged, strict=True):
        where = f"guarantees.{number}.status"
        if verdict.status == "refuted" and claim.status != "refuted":
            what = f"{claim.status!r} must be 'refuted': {plain(verdict.reason, 300)}"
            yield error(where, what)
        elif claim.status == "refuted" and verdict.status != "refuted":
            what = "'refuted', and no bound of this file exceeds the claim at its delta"
            yield error(where, what) if sure else note(where, what)


def _infinite(**_: Any) -> float:
    """Proven epsilon where claims alone are wanted: infinity."""
    return math.inf
