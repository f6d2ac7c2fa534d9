"""Guarantees from events: claims as their papers compute them, proofs where accountants hold.

Light at import: accountants, scipy and dp-accounting load when they are first needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, Literal

from uedp_bench.accounting.accountants.basic_composition import promises
from uedp_bench.accounting.accountants.composing import add_up, compose
from uedp_bench.accounting.accountants.dp_accounting import (
    pld_epsilon,
    rdp_epsilon,
    tf_privacy_epsilon,
)
from uedp_bench.accounting.accountants.loss_pairs import happens, representable
from uedp_bench.accounting.accountants.renyi import moments_epsilon
from uedp_bench.accounting.by_unit import UnitEvents, events_by_unit
from uedp_bench.accounting.event_contract import Adjacency, Event, PrivacyUnit, Protected
from uedp_bench.accounting.events import (
    DECLARED,
    Claim,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    one_and_count,
)
from uedp_bench.accounting.guarantee import (
    Answer,
    Asked,
    Condition,
    Guarantee,
    NoiseSource,
    Refusal,
    general,
)
from uedp_bench.components import registry
from uedp_bench.components.registry import is_reviewed, not_reviewed
from uedp_bench.errors import InputError, PrivacyError


def claimed(claims: Sequence[Claim], delta: float) -> tuple[Guarantee, ...]:
    """Compute every claim with its paper's own accountant, in order.

    Args:
        claims: claims of papers.
        delta: delta of the guarantees, in (0, 1).

    Raises:
        InputError: if delta is out of range.
    """
    _check_delta(delta)
    return tuple(_claimed(claim, delta) for claim in claims)


def proven(
    events: Sequence[PrivacyEvent],
    *,
    delta: float,
    refusals: Sequence[str] = (),
    points: Sequence[Protected] | None = None,
    source: NoiseSource = "seed",
    conditions: Sequence[Condition] = (),
    unreviewed: Sequence[str] = (),
) -> tuple[Guarantee, ...]:
    """Prove one guarantee for each unit and adjacency that the events speak of.

    Events of one unit compose. Events of different units that one stage emits describe the same
    release, each for its own unit; every stage releases something of its own, so a unit is refused
    unless every stage that emitted anything speaks of it. Private data used without protection
    anywhere makes every epsilon infinite, unless it is another unit's event of a stage that names
    itself and protects this one (as of text that is sent, beside text that was trained on). What
    holds for a user together with an entity holds for a user alone (spread 0, no sentences of
    others), so events of the unit user-entity also give the unit "user" where their stage does not
    speak of it; nothing follows in the other direction.

    Args:
        events: events of all stages; without any there is no unit, and no guarantee.
        delta: delta of the guarantees, in (0, 1).
        refusals: reasons why nothing can be proven whatever happened (private denominators, ...).
        points: points of the curve; by default the standard spreads, the declared point and
            everybody.
        source: source of the noise, which the assumptions name.
        conditions: conditions on the data and on public choices: broken, or assumed.
        unreviewed: components that emitted the events, or decide whether their conditions hold,
            and were not reviewed. Finite guarantees are then stated, and not proven; so are those
            of events whose own class was not reviewed.

    Raises:
        InputError: if delta is out of range.
    """
    _check_delta(delta)
    query = Asked(points=None if points is None else tuple(points))
    strangers = (*unreviewed, *unreviewed_events(events))
    mark = {"kind": "stated", "note": not_reviewed(strangers)} if strangers else {}
    out = []
    for claim in events_by_unit(events):
        needed = [one for one in conditions if one.concerns(claim.unit, claim.adjacency)]
        broken = [one.text for one in needed if one.broken]
        guarantee = _proven(claim, delta, [*refusals, *broken], query)
        if math.isfinite(guarantee.epsilon):
            assumed = (*guarantee.assumptions, *(one.text for one in needed))
            every = dict.fromkeys((*assumed, *general(source, guarantee.notion)))
            guarantee = guarantee.model_copy(update={"assumptions": tuple(every), **mark})
        out.append(guarantee)
    return tuple(out)


def unreviewed_events(events: Iterable[PrivacyEvent]) -> tuple[str, ...]:
    """Kinds of events whose classes were not reviewed, as "event KIND"."""
    kinds = dict.fromkeys(kind for one in events for kind in _kinds(one.event))
    return tuple(f"event {kind}" for kind in kinds if not is_reviewed(registry.events, kind))


def _kinds(event: Event) -> Iterator[str]:
    yield event.kind
    inner = getattr(event, "event", None)
    if inner is not None and hasattr(inner, "kind"):
        yield from _kinds(inner)
    for part in event.disjoint():
        for one in part:
            yield from _kinds(one)


def proven_at(
    events: Sequence[PrivacyEvent],
    *,
    unit: PrivacyUnit,
    adjacency: Adjacency,
    delta: float,
    point: Protected,
) -> float:
    """The proven epsilon at one point of the curve; where there is no curve, the only one.

    Args:
        events: events of all stages, as for `proven`.
        unit: unit of the guarantee.
        adjacency: adjacency of the guarantee.
        delta: delta of the guarantee, in (0, 1).
        point: point of the curve.

    Returns:
        Infinity if it is refused, or no event speaks of the unit.

    Raises:
        InputError: if delta is out of range.
    """
    _check_delta(delta)
    for claim in events_by_unit(events):
        if (claim.unit, claim.adjacency) == (unit, adjacency):
            return _proven(claim, delta, (), Asked(declared=point, points=())).epsilon
    return math.inf


def check_plan(planned: Sequence[PrivacyEvent], happened: Sequence[PrivacyEvent]) -> None:
    """Compare emitted events with planned ones, exactly and in order.

    Raises:
        PrivacyError: at the first event that differs, naming the field and both values.
    """
    for number, (plan, fact) in enumerate(zip_longest(planned, happened), start=1):
        if plan == fact:
            continue
        if plan is None or fact is None:
            present, event = ("happened", fact) if plan is None else ("was planned", plan)
            raise PrivacyError(
                f"privacy event {number} only {present}: {event.model_dump_json()} "
                f"({len(planned)} planned, {len(happened)} happened)"
            )
        field, left, right = _difference(plan.model_dump(), fact.model_dump())
        raise PrivacyError(
            f"privacy event {number} is not what was planned: {field} was planned as {left!r} "
            f"but happened as {right!r}"
        )


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta is {delta}; it must lie strictly between 0 and 1")


def _proven(claim: UnitEvents, delta: float, refusals: Sequence[str], query: Asked) -> Guarantee:
    # If private data was used without protection, nothing is left to contradict.
    reasons = [*refusals, *(() if claim.unprotected else claim.conflicts)]
    if query.declared is None:
        query = replace(query, declared=claim.declared)
    answer = _answer(claim, delta, reasons, replace(query, alone=claim.unit != "user-entity"))
    return Guarantee(
        kind="proven",
        notion="none" if math.isinf(answer.epsilon) else answer.notion,
        unit=claim.unit,
        adjacency=claim.adjacency,
        epsilon=answer.epsilon,
        delta=delta if answer.used is None else answer.used,
        pure=answer.pure,
        accountant=answer.accountant,
        source=answer.source,
        assumptions=claim.assumptions,
        curve=answer.curve,
        protected=claim.declared,
        status="refused" if reasons else "given",
        reason="; ".join(dict.fromkeys(reasons)) or answer.reason,
    )


def _answer(claim: UnitEvents, delta: float, reasons: list[str], query: Asked) -> Answer:
    """The answer for one unit; a refusal of the accountant joins `reasons`."""
    if claim.unprotected:
        reasons.extend(claim.unprotected if reasons else ())
        return Answer(math.inf, "none", reason="; ".join(dict.fromkeys(claim.unprotected)))
    if not reasons:
        try:
            return compose([event.event for event in claim.events], claim.adjacency, delta, query)
        except Refusal as refusal:
            reasons.append(str(refusal))
        except _BEYOND as error:
            reasons.append(_out_of_reach(error))
    return Answer(math.inf, "none")


_BEYOND = (ArithmeticError, ValueError)
"""Errors that accountants and their libraries raise for numbers out of their reach."""


def _out_of_reach(error: Exception) -> str:
    """Reason why such an accountant proves nothing; an error of the input is raised as it is."""
    if isinstance(error, InputError):
        raise error
    return f"no accountant computes with numbers of this size ({type(error).__name__}: {error})"


def _claimed(claim: Claim, delta: float) -> Guarantee:
    reason, status = "", "given"
    answer = Answer(math.inf, claim.accountant)
    try:
        answer = _claimed_answer(claim, delta)
    except Refusal as refusal:
        status = "given" if isinstance(claim.event, NonPrivate) else "refused"
        reason = str(refusal)
    except _BEYOND as error:
        status, reason = "refused", _out_of_reach(error)
    return Guarantee(
        kind="claimed",
        notion="none" if math.isinf(answer.epsilon) else answer.notion,
        unit=claim.unit,
        adjacency=claim.adjacency,
        epsilon=answer.epsilon,
        delta=delta if answer.used is None else answer.used,
        accountant=claim.accountant,
        source=claim.source,
        assumptions=claim.assumptions,
        status=_status(status),
        reason=reason or answer.reason,
        note=claim.note,
    )


def _status(status: str) -> Literal["given", "refused"]:
    return "refused" if status == "refused" else "given"


def _claimed_answer(claim: Claim, delta: float) -> Answer:
    base, count = one_and_count(claim.event)
    if reason := base.refusal(claim.adjacency):
        raise Refusal(reason)
    promise = promises(base, claim.adjacency)
    if (promise is not None) != (claim.accountant in ("basic", DECLARED)):
        raise Refusal(f"the {claim.accountant} accountant knows no event {base.kind}")
    if promise is not None and claim.accountant == DECLARED:
        return Answer(promise.epsilon, DECLARED, notion=base.notion, used=promise.delta)
    if claim.accountant == "basic":
        return add_up([(base, count)], claim.adjacency, delta)
    return Answer(_claimed_epsilon(claim, base, count, delta), claim.accountant)


def _claimed_epsilon(claim: Claim, event: Event, count: int, delta: float) -> float:
    """Epsilon of `count` rounds by the accountant that a paper used."""
    fixed = isinstance(event, FixedSizeSampled) and claim.accountant == "rdp"
    if not isinstance(event, Gaussian | PoissonSampled | FixedSizeSampled) or (
        isinstance(event, FixedSizeSampled) and not fixed
    ):
        raise Refusal(f"the {claim.accountant} accountant knows no event {event.kind}")
    if claim.adjacency == "replace-one" and claim.accountant != "pld" and not fixed:
        raise Refusal(f"the {claim.accountant} accountant does not account for replace-one")
    base = representable(event)
    if not happens(base, count):
        return 0.0
    if base.noise_multiplier == 0.0:
        return math.inf
    if claim.accountant == "moments":
        rate = base.rate if isinstance(base, PoissonSampled) else 1.0
        return moments_epsilon(rate, base.noise_multiplier, count, delta)
    if claim.accountant == "tf-privacy-rdp" and isinstance(base, Gaussian | PoissonSampled):
        return tf_privacy_epsilon(base, count, delta)
    accountant = rdp_epsilon if claim.accountant == "rdp" else pld_epsilon
    # The Renyi accountant of sampling without replacement knows one relation, whatever is claimed.
    return accountant([(base, count)], "replace-one" if fixed else claim.adjacency, delta)


def _difference(left: Any, right: Any, path: str = "") -> tuple[str, Any, Any]:
    """The first field in which two dumped events differ: its dotted name and both values."""
    if isinstance(left, dict) and isinstance(right, dict):
        # The kind first: other fields differ because of it.
        for key in sorted({*left, *right}, key=lambda name: (name != "kind", name)):
            if left.get(key) != right.get(key):
                return _difference(left.get(key), right.get(key), f"{path}.{key}".lstrip("."))
    return path, left, right
