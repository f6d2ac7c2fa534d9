"""What events are worth: claims as their papers compute them, proofs where accountants hold.

Light at import: accountants, scipy and dp-accounting load when they are first needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal

from uedp_bench.accounting.events import (
    Adjacency,
    AnyEvent,
    Claim,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PrivacyUnit,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.proven import (
    SOURCES,
    Answer,
    Refusal,
    account,
    happens,
    noise_multiplier,
    pld_epsilon,
    rdp_epsilon,
    rounds_of,
)
from uedp_bench.errors import InputError, PrivacyError


def claimed(claims: Sequence[Claim], delta: float) -> tuple[Guarantee, ...]:
    """Every claim at its paper's own accountant, in the order given.

    Args:
        claims: what the papers have in mind.
        delta: in (0, 1).

    Raises:
        InputError: if delta is out of range.
    """
    _check_delta(delta)
    return tuple(_claimed(claim, delta) for claim in claims)


def proven(
    events: Sequence[PrivacyEvent], *, delta: float, refusals: Sequence[str] = ()
) -> tuple[Guarantee, ...]:
    """One guarantee for each unit and adjacency that the events speak of.

    Events of one unit compose; events of different units describe the same release, each for its
    own unit. Private data used without protection anywhere makes every epsilon infinite. What
    holds for a user together with an entity holds for a user alone (spread 0, no sentences of
    others), so user-entity rounds also give the unit "user" where no event speaks of it; nothing
    follows in the other direction.

    Args:
        events: what happened; none gives no guarantee, for there is no unit to speak of.
        delta: in (0, 1).
        refusals: reasons why nothing can be proven whatever happened (private denominators, ...).

    Raises:
        InputError: if delta is out of range.
    """
    _check_delta(delta)
    groups: dict[tuple[PrivacyUnit, Adjacency], list[PrivacyEvent]] = {}
    for event in (*events, *_implied(events)):
        groups.setdefault((event.unit, event.adjacency), []).append(event)
    unprotected = [e.event.reason for e in events if isinstance(e.event, NonPrivate)]
    guarantees = []
    for (unit, adjacency), group in groups.items():
        reasons = [*refusals]
        others = sorted(a for u, a in groups if u == unit and a != adjacency)
        if others:
            reasons.append(f"events of unit {unit} differ in adjacency: {adjacency}, {others[0]}")
        answer = _answer(group, adjacency, delta, reasons, unprotected)
        guarantees.append(
            Guarantee(
                kind="proven",
                notion="none" if math.isinf(answer.epsilon) else "dp",
                unit=unit,
                adjacency=adjacency,
                epsilon=answer.epsilon,
                delta=delta,
                accountant=answer.accountant,
                source=SOURCES[answer.accountant],
                assumptions=tuple(dict.fromkeys(text for e in group for text in e.assumptions)),
                curve=answer.curve,
                status="refused" if reasons else "given",
                reason="; ".join(dict.fromkeys(reasons)) or answer.reason,
            )
        )
    return tuple(guarantees)


def check_plan(planned: Sequence[PrivacyEvent], happened: Sequence[PrivacyEvent]) -> None:
    """Compares what training emitted with what was planned, exactly and in order.

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


def _implied(events: Sequence[PrivacyEvent]) -> list[PrivacyEvent]:
    """User events that user-entity events contain; none unless every one of them has its own."""
    if any(event.unit == "user" for event in events):
        return []
    groups = [event for event in events if event.unit == "user-entity"]
    alone = [_user_alone(event.event) for event in groups]
    return [
        event.model_copy(update={"unit": "user", "event": inner})
        for event, inner in zip(groups, alone, strict=True)
        if inner is not None and None not in alone
    ]


def _user_alone(event: AnyEvent) -> AnyEvent | None:
    if isinstance(event, UserEntityGaussian):
        noise = Gaussian(noise_multiplier=event.noise_multiplier)
        return PoissonSampled(rate=event.rate, event=noise)
    if isinstance(event, Repeated) and isinstance(event.event, UserEntityGaussian):
        base = event.event
        noise = Gaussian(noise_multiplier=base.noise_multiplier)
        return Repeated(count=event.count, event=PoissonSampled(rate=base.rate, event=noise))
    return None


def _answer(
    group: Sequence[PrivacyEvent],
    adjacency: Adjacency,
    delta: float,
    reasons: list[str],
    unprotected: Sequence[str],
) -> Answer:
    """The answer for one unit; a refusal of the accountant joins `reasons`."""
    if unprotected:
        reasons.extend(unprotected if reasons else ())
        return Answer(math.inf, "none", {}, reason="; ".join(dict.fromkeys(unprotected)))
    if not reasons:
        try:
            for event in group:
                _check_unit(event)
            return account([event.event for event in group], adjacency, delta)
        except Refusal as refusal:
            reasons.append(str(refusal))
    return Answer(math.inf, "none", {})


def _check_unit(event: PrivacyEvent) -> None:
    """Refuses a user-entity round that is offered for another unit or adjacency."""
    base = event.event.event if isinstance(event.event, Repeated) else event.event
    if isinstance(base, UserEntityGaussian) and (event.unit, event.adjacency) != (
        "user-entity",
        "add-or-remove",
    ):
        raise Refusal(
            "user-entity rounds speak of the unit user-entity under add-or-remove, "
            f"not of {event.unit} under {event.adjacency}"
        )


def _claimed(claim: Claim, delta: float) -> Guarantee:
    reason, status, epsilon = "", "given", math.inf
    try:
        epsilon = _claimed_epsilon(claim, delta)
    except Refusal as refusal:
        status = "given" if isinstance(claim.event, NonPrivate) else "refused"
        reason = str(refusal)
    return Guarantee(
        kind="claimed",
        notion="none" if math.isinf(epsilon) else "dp",
        unit=claim.unit,
        adjacency=claim.adjacency,
        epsilon=epsilon,
        delta=delta,
        accountant=claim.accountant,
        source=claim.source,
        assumptions=claim.assumptions,
        status=_status(status),
        reason=reason,
        note=claim.note,
    )


def _status(status: str) -> Literal["given", "refused"]:
    return "refused" if status == "refused" else "given"


def _claimed_epsilon(claim: Claim, delta: float) -> float:
    from uedp_bench.accounting.moments import moments_epsilon

    base, count = rounds_of(claim.event)
    fixed = isinstance(base, FixedSizeSampled) and claim.accountant == "rdp"
    if not isinstance(base, Gaussian | PoissonSampled) and not fixed:
        raise Refusal(f"the {claim.accountant} accountant knows no event {base.kind}")
    if fixed and claim.adjacency != "replace-one":
        raise Refusal(f"fixed-size rounds are accounted for replace-one, not {claim.adjacency}")
    if claim.adjacency == "replace-one" and claim.accountant != "pld" and not fixed:
        raise Refusal(f"the {claim.accountant} accountant does not account for replace-one")
    if not happens(base, count):
        return 0.0
    if noise_multiplier(base) == 0.0:
        return math.inf
    if claim.accountant == "moments":
        rate = base.rate if isinstance(base, PoissonSampled) else 1.0
        return moments_epsilon(rate, noise_multiplier(base), count, delta)
    accountant = rdp_epsilon if claim.accountant == "rdp" else pld_epsilon
    return accountant([(base, count)], claim.adjacency, delta)


def _difference(left: Any, right: Any, path: str = "") -> tuple[str, Any, Any]:
    """The first field in which two dumped events differ: its dotted name and both values."""
    if isinstance(left, dict) and isinstance(right, dict):
        # The kind first: other fields differ because of it.
        for key in sorted({*left, *right}, key=lambda name: (name != "kind", name)):
            if left.get(key) != right.get(key):
                return _difference(left.get(key), right.get(key), f"{path}.{key}".lstrip("."))
    return path, left, right
