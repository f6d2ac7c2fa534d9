"""Claims and selections of settings computed again from the spec."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import claimed, proven_at
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.components.component import Number
from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.leaderboard.validation.derived_from_spec import (
    Derived,
    Unknown,
    ask,
    derive,
    held_out_users,
    pipeline_of,
    sizes_of,
)
from uedp_bench.leaderboard.validation.proofs import close, same_epsilons, worth
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, plain, shown
from uedp_bench.one_run.guaranteeing import trials_of
from uedp_bench.spec.grid import tried_runs


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
    again = _claims_at(derived, result.spec.delta)
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


def _claims_at(derived: Derived, delta: float) -> tuple[Guarantee, ...] | Unknown:
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
    claims_known = not isinstance(_claims_at(derived, result.spec.delta), Unknown)

    def claimed_at(delta: float) -> Sequence[Guarantee]:
        again = _claims_at(derived, delta)
        return unrefuted if isinstance(again, Unknown) or len(again) != len(at) else again

    judged = check_bounds(
        result.lower_bounds,
        unrefuted,
        lambda **_: math.inf,  # claims alone are judged
        claimed_at if claims_known else None,
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
        judged: the stored guarantees, refuted where a bound lies above them.
        sure: True if their epsilon is known at every delta.
    """
    for number, claim, verdict in zip(at, stored, judged, strict=True):
        where = f"guarantees.{number}.status"
        if verdict.status == "refuted" and claim.status != "refuted":
            what = f"{claim.status!r} must be 'refuted': {plain(verdict.reason, 300)}"
            yield error(where, what)
        elif claim.status == "refuted" and verdict.status != "refuted":
            what = "'refuted', and no bound of this file exceeds the claim at its delta"
            yield error(where, what) if sure else note(where, what)


MOST_SETTINGS = 1000
"""Settings of a grid whose cost is computed again."""


class _Entry(BaseModel):
    """The record of one proven guarantee."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    unit: str
    adjacency: str
    delta: float
    epsilon_of_one_trial: Number
    epsilon: Number
    charged: bool
    reason: str


class _Record(BaseModel):
    """Fields of the record that the declaration in the spec does not have."""

    model_config = ConfigDict(frozen=True, extra="allow")
    settings: int
    seeds: int | None = None
    method: str
    guarantees: tuple[_Entry, ...]


def check_selection(result: Result) -> Iterator[Problem]:
    """Problems where proofs do not cost what the choice of their settings costs."""
    selection = result.spec.selection
    if selection is None or result.status == "failed":
        if result.selection:
            yield error("selection", "is there, and the spec declares none")
        return
    try:
        record = _Record.model_validate(result.selection)
    except ValidationError as wrong:
        for each in wrong.errors(include_url=False, include_context=False):
            yield error(place(("selection", *each["loc"])), each["msg"])
        return
    declared = selection.model_dump(mode="json", exclude_none=True)
    expected = {**declared, "settings": selection.size}
    if record.seeds is not None or selection.seeds is not None:
        expected["seeds"] = selection.each
    for name, value in expected.items():
        if result.selection.get(name) != value:
            yield error(f"selection.{name}", "is not what spec.selection declares")
    if record.seeds is None and any(entry.charged for entry in record.guarantees):
        what = "is of a version whose runs of one seed drew the same noise, so its trials do not"
        yield error("selection", f"{what} compose and nothing is charged for; run it again")
    yield from _entries(result, record, selection)


def _entries(result: Result, record: _Record, selection: Selection) -> Iterator[Problem]:
    entries = {(e.unit, e.adjacency): (at, e) for at, e in enumerate(record.guarantees)}
    try:
        single = {(g.unit, g.adjacency): g for g in worth(result.events, result.spec.delta)}
    except Exception:  # the check of events said it already
        return
    charged: dict[tuple[str, str], Guarantee] | Unknown | None = None
    for number, guarantee in enumerate(result.guarantees):
        key, where = (guarantee.unit, guarantee.adjacency), f"guarantees.{number}"
        finite = guarantee.status == "given" and math.isfinite(guarantee.epsilon)
        # A choice among values that nobody sees costs nothing.
        if not finite or guarantee.kind == "claimed" or guarantee.notion == "simulation":
            continue
        if key not in entries:
            yield error("selection.guarantees", f"lack {guarantee.unit} ({guarantee.adjacency})")
            continue
        at, entry = entries[key]
        field = f"selection.guarantees.{at}"
        alone = single.get(key)
        if alone is None or alone.status == "refused":
            continue  # another check said it already
        if not close(entry.epsilon_of_one_trial, alone.epsilon):
            what = f"{shown(entry.epsilon_of_one_trial)} is not the {shown(alone.epsilon)}"
            yield error(f"{field}.epsilon_of_one_trial", f"{what} that the events are worth")
        for name in ("epsilon", "delta"):
            if not close(getattr(entry, name), getattr(guarantee, name)):
                what = f"{shown(getattr(entry, name))} is not that of {where}"
                yield error(f"{field}.{name}", what)
        if not entry.charged:
            if not entry.reason:
                what = "is empty: what is not charged has a reason"
                yield error(f"{field}.reason", what)
            if not any("not charged" in text for text in guarantee.assumptions):
                what = "do not say that the choice of settings is not charged"
                yield error(f"{where}.assumptions", what)
            yield from same_epsilons(where, guarantee, alone)
            continue
        if charged is None:
            charged = _charged(result, selection, tuple(single.values()))
        yield from _cost(where, guarantee, alone, charged)


def _cost(
    where: str,
    guarantee: Guarantee,
    alone: Guarantee,
    charged: dict[tuple[str, str], Guarantee] | Unknown,
) -> Iterator[Problem]:
    """A charged proof against its charge computed again; it is never below that of one trial."""
    if isinstance(charged, Unknown):
        if guarantee.epsilon < alone.epsilon and not close(guarantee.epsilon, alone.epsilon):
            what = f"{shown(guarantee.epsilon)} is less than {shown(alone.epsilon)} of one trial"
            yield error(f"{where}.epsilon", what)
        if charged.impossible:
            yield error("spec.selection", charged.reason)
        else:
            yield note(f"{where}.epsilon", f"its charge is not computed again: {charged.reason}")
        return
    again = charged.get((guarantee.unit, guarantee.adjacency))
    if again is not None:
        origin = "its events and the choice of settings"
        yield from same_epsilons(where, guarantee, again, origin)


def _charged(
    result: Result, selection: Selection, single: tuple[Guarantee, ...]
) -> dict[tuple[str, str], Guarantee] | Unknown:
    """The proofs with the charge for all settings that were tried."""
    if selection.size > MOST_SETTINGS:
        return Unknown(f"it has {selection.size} settings")
    return ask(lambda: _charge(result, selection, single))


def _charge(
    result: Result, selection: Selection, single: tuple[Guarantee, ...]
) -> dict[tuple[str, str], Guarantee]:
    from uedp_bench.accounting.selection import charge

    spec = result.spec
    sizes: Any = sizes_of(spec.source, held_out_users(result), spec.task, spec.clients)
    try:
        pipelines = [pipeline_of(run.mechanism, run.task) for run in tried_runs(result.spec)]
    except InputError as reason:
        raise InputError(plain(str(reason), 200)) from None
    charged, _ = charge(single, trials_of(selection, pipelines, sizes))
    return {(g.unit, g.adjacency): g for g in charged}
