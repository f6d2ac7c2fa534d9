"""Proofs and ceilings computed again from the events that a file records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from uedp_bench.accounting.by_unit import events_by_unit
from uedp_bench.accounting.event_contract import unknown_kind
from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.accounting.guarantee import Guarantee, NoiseSource, missing, states_none
from uedp_bench.accounting.ledger import proven, unreviewed_events
from uedp_bench.bounds.ceilings import JudgedUsers, ceilings, check_measured
from uedp_bench.components import registry
from uedp_bench.components.registry import not_reviewed
from uedp_bench.contracts.recorded_identity import STATED_THERE, parts_of, unreviewed_of_result
from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.errors import PrivacyError, UedpBenchError
from uedp_bench.leaderboard.validation.report import Problem, error, note, plain, shown
from uedp_bench.statistics.intervals import fraction_estimate

TOLERANCE = 1e-3
"""Relative. Accountants of other versions round differently; noise is solved for to a tolerance."""


def close(a: float, b: float) -> bool:
    """True if two numbers are the same up to `TOLERANCE`; infinities are."""
    return a == b or math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12)


def check_proofs(result: Result) -> Iterator[Problem]:
    """Every proof is what the events are worth, and nothing that they are worth is left out."""
    if result.status == "failed":
        return
    try:
        proofs = worth(result.events, result.spec.delta)
    except Exception as reason:  # no accountant was made for these numbers
        what = plain(f"{type(reason).__name__}: {reason}", 200)
        yield error("events", f"cannot be accounted for: {what}")
        return
    left = {(g.unit, g.adjacency): g for g in proofs}
    strangers = (*unreviewed_of_result(result), *unreviewed_events(result.events))
    strange = {(s.unit, s.adjacency): s.unknown for s in events_by_unit(result.events) if s.unknown}
    for kind in dict.fromkeys(kind for kinds in strange.values() for kind in kinds):
        yield note("events", unknown_kind(kind))
    seen: set[tuple[str, str]] = set()
    for at, guarantee in enumerate(result.guarantees):
        if guarantee.kind == "claimed":
            continue
        where, key = f"guarantees.{at}", (guarantee.unit, guarantee.adjacency)
        if guarantee.kind == "proven" and strangers and math.isfinite(guarantee.epsilon):
            yield error(f"{where}.kind", f"'proven' must be 'stated': {not_reviewed(strangers)}")
        elif guarantee.kind == "stated" and strangers == (STATED_THERE,):
            yield note(f"{where}.kind", "is 'stated', and all of its components are reviewed here")
        if key in seen:
            yield error(where, f"{guarantee.unit} ({guarantee.adjacency}) is proven twice")
        seen.add(key)
        again = left.pop(key, None)
        if guarantee.status == "refused":
            continue  # a run may know more reasons than its events
        if key in strange:
            kinds = ", ".join(shown(kind) for kind in strange[key])
            yield note(where, f"cannot be computed again here: events of the kind {kinds}")
            continue
        if again is None:
            yield error(where, f"no event speaks of {guarantee.unit} ({guarantee.adjacency})")
        elif again.status == "refused":
            what = plain(again.reason, 200)
            yield error(f"{where}.status", f"is given, and its events are refused: {what}")
        else:
            yield from _proof(result, where, guarantee, again)
    # Without events nothing happened, and what was planned says for which units that is refused.
    for unit, adjacency in left:
        what = f"proven, {unit} ({adjacency}), is missing: events speak of it"
        yield error("guarantees", what)


def _proof(result: Result, where: str, stored: Guarantee, again: Guarantee) -> Iterator[Problem]:
    """Compares one proof with what its events are worth."""
    if states_none(stored.assumptions):
        again = _as_then(stored, again)
    if _adds_up(stored) and not _adds_up(again):
        what = (
            f"adds promises up; composed they are worth {shown(again.epsilon)} at {again.delta:g}"
        )
        yield note(where, what)
        again = _summed(stored, again)
    if stored.protected != again.protected:
        yield error(f"{where}.protected", "is not the point that the events declare")
    finite = not (math.isinf(stored.epsilon) and math.isinf(again.epsilon))
    if finite and stored.notion != again.notion:
        yield error(
            f"{where}.notion", f"{stored.notion!r} is not the {again.notion!r} of its events"
        )
    if finite and not close(stored.delta, again.delta):
        what = f"{shown(stored.delta)} is not the {shown(again.delta)} that its events are worth"
        yield error(f"{where}.delta", what)
    event_assumptions = {text for event in result.events for text in event.assumptions}
    for text in again.assumptions:
        if text in event_assumptions and text not in stored.assumptions:
            yield error(f"{where}.assumptions", f"lack one of its events: {shown(text)}")
    if math.isfinite(stored.epsilon):
        yield from _general(where, stored, result.spec.noise_source)
    if result.spec.selection is not None and math.isfinite(stored.epsilon):
        return  # what the choice of settings adds is checked where it is recorded
    yield from same_epsilons(where, stored, again)


def _adds_up(guarantee: Guarantee) -> bool:
    return "basic" in guarantee.accountant.split(" + ")


def _summed(stored: Guarantee, again: Guarantee) -> Guarantee:
    """Today's proof, or the sum of older versions where that is no less: it still holds."""
    then = {(p.spread, p.sentences): p.epsilon for p in stored.curve}
    curve = tuple(
        point.model_copy(
            update={"epsilon": max(point.epsilon, then.get((point.spread, point.sentences), 0.0))}
        )
        for point in again.curve
    )
    if stored.delta == 0.0 and again.pure is not None:
        again = again.model_copy(update={"delta": 0.0, "epsilon": again.pure})
    epsilon = max(stored.epsilon, again.epsilon)
    return again.model_copy(update={"epsilon": epsilon, "curve": curve})


_FAR = 20.0
"""Epsilon from which the end of the sampler of noise may count."""


def _as_then(stored: Guarantee, again: Guarantee) -> Guarantee:
    """Today's proof, less what the end of the sampler of noise has raised since.

    Older versions did not count it: a note says so, and such a value is no sign of a changed file.
    """
    if again.epsilon > stored.epsilon > _FAR:
        again = again.model_copy(update={"epsilon": stored.epsilon, "notion": stored.notion})
    then = {(p.spread, p.sentences): p.epsilon for p in stored.curve}
    curve = []
    for point in again.curve:
        value = then.get((point.spread, point.sentences), 0.0)
        raised = point.epsilon > value > _FAR
        curve.append(point.model_copy(update={"epsilon": value}) if raised else point)
    return again.model_copy(update={"curve": tuple(curve)})


def _general(where: str, guarantee: Guarantee, source: NoiseSource) -> Iterator[Problem]:
    """The assumptions that every proof has; older versions stated none of them."""
    if states_none(guarantee.assumptions):
        what = (
            "are of a version that did not state what all proofs assume of noise and seeds, "
            "nor count the end of its sampler in delta"
        )
        yield note(f"{where}.assumptions", what)
        return
    for text in missing(guarantee.assumptions, source, guarantee.notion):
        yield error(f"{where}.assumptions", f"lack one of every proof: {shown(text)}")


def same_epsilons(
    where: str, stored: Guarantee, again: Guarantee, origin: str = "its events"
) -> Iterator[Problem]:
    """Compares epsilon and the points of the curve with those computed again from `of`."""
    if not close(stored.epsilon, again.epsilon):
        difference = "less" if stored.epsilon < again.epsilon else "more"
        what = f"proven epsilon {shown(stored.epsilon)} is {difference} than {shown(again.epsilon)}"
        yield error(
            f"{where}.epsilon", f"{what}, which {origin} are worth at delta {stored.delta:g}"
        )
    points = {(p.spread, p.sentences): p.epsilon for p in again.curve}
    if {(p.spread, p.sentences) for p in stored.curve} != set(points):
        what = f"has {len(stored.curve)} points, and not the {len(points)} that its events have"
        yield error(f"{where}.curve", what)
        return
    for number, point in enumerate(stored.curve):
        value = points[point.spread, point.sentences]
        if not close(point.epsilon, value):
            difference = "less" if point.epsilon < value else "more"
            what = f"{shown(point.epsilon)} is {difference} than {shown(value)}"
            yield error(f"{where}.curve.{number}.epsilon", f"{what}, which {origin} are worth")


@lru_cache(maxsize=256)
def worth(events: tuple[PrivacyEvent, ...], delta: float) -> tuple[Guarantee, ...]:
    """`ledger.proven`, once for all results of equal events."""
    return proven(events, delta=delta)


_OFF = 1e-6
"""By how much a count may differ from a whole number, and an interval from its own."""


def check_ceilings(result: Result) -> Iterator[Problem]:
    """Problems where a ceiling is not what proofs allow, or a metric lies above it."""
    for attack in result.ceilings.keys() - result.leakage.keys():
        yield error(f"ceilings.{attack}", "is of no attack that ran")
    for attack, metrics in result.leakage.items():
        judged = JudgedUsers.from_details(result.details.get(attack, {}))
        if judged is None:
            yield from _unjudged(result, attack)
            continue
        yield from _counts(attack, metrics, judged)
        again = ceilings(metrics, judged, result.guarantees, result.events)
        yield from _compared(attack, result.ceilings.get(attack, {}), again)
        try:
            check_measured(metrics, judged, result.guarantees, result.events, attack)
        except PrivacyError as reason:
            yield error(f"leakage.{attack}", plain(str(reason), 400))


def _unjudged(result: Result, attack: str) -> Iterator[Problem]:
    where = f"details.{attack}.judged"
    if "judged" in result.details.get(attack, {}):
        yield error(where, "has no numbers of members, non_members and most_records")
    elif attack in result.ceilings or (result.leakage[attack] and _must_judge(result, attack)):
        yield error(where, "is missing: ceilings depend on it")


def _must_judge(result: Result, attack: str) -> bool:
    """True if the recorded version of an attack says how many users it judged."""
    parts = parts_of(result)
    versions = [] if parts is None else [p.version for p in parts.attacks if p.name == attack]
    try:
        kind: Any = registry.attacks.get(attack)
    except UedpBenchError:
        return False
    since: int | None = kind.judges_users_since
    return since is not None and max(versions, default=0) >= since


def _counts(attack: str, metrics: Mapping[str, Estimate], judged: JudgedUsers) -> Iterator[Problem]:
    """Problems where rates of users are not those of so many members."""
    for name, rate in metrics.items():
        if not name.startswith("tpr_user_"):
            continue
        hits = round(rate.value * judged.members)
        own = fraction_estimate(min(max(hits, 0), judged.members), judged.members)
        if not all(map(_same, (rate.value, rate.low, rate.high), (own.value, own.low, own.high))):
            what = f"is not the exact interval of {hits} of {judged.members:,} members"
            yield error(f"leakage.{attack}.{name}", what)


def _same(stored: float | None, own: float | None) -> bool:
    return stored is not None and own is not None and math.isclose(stored, own, abs_tol=_OFF)


def _compared(
    attack: str, stored: Mapping[str, float], again: Mapping[str, float]
) -> Iterator[Problem]:
    for name in dict.fromkeys((*stored, *again)):
        where = f"ceilings.{attack}.{name}"
        if name not in again:
            yield error(where, "is there, and no proof bounds it")
        elif name not in stored:
            yield error(where, f"is missing: proofs allow {shown(again[name])}")
        elif not close(stored[name], again[name]):
            yield error(where, f"{shown(stored[name])} is not the {shown(again[name])} of proofs")
