"""The events of all stages together, by unit and adjacency, with their contradictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.accounting.event_contract import (
    COMPUTATION,
    Adjacency,
    Event,
    PrivacyUnit,
    Protected,
    UnknownEvent,
)
from uedp_bench.accounting.events import FixedSizeSampled, NonPrivate, PrivacyEvent, one_and_count
from uedp_bench.accounting.protocol_events import Parallel

_Key = tuple[PrivacyUnit, Adjacency]


@dataclass(frozen=True)
class UnitEvents:
    """The events about one unit and one adjacency.

    Attributes:
        events: the events, in order.
        declared: the point of the curve that they protect, where one is declared.
        conflicts: reasons why they cannot be accounted for together; empty if they can.
        unprotected: reasons of private data used without protection, in any stage but those that
            say how they protect this very unit.
    """

    unit: PrivacyUnit
    adjacency: Adjacency
    events: tuple[PrivacyEvent, ...]
    declared: Protected | None
    conflicts: tuple[str, ...]
    unprotected: tuple[str, ...]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Kinds of its events that nobody registered here, each once."""
        inside = [one for event in self.events for one in _inside(_base(event))]
        return tuple(dict.fromkeys(one.kind for one in inside if isinstance(one, UnknownEvent)))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of all events, each once."""
        texts = [text for event in self.events for text in event.assumptions]
        for event in self.events:
            texts += _base(event).assumptions_of(self.unit)
        return tuple(dict.fromkeys(texts))


def events_by_unit(events: Sequence[PrivacyEvent]) -> tuple[UnitEvents, ...]:
    """Group events by unit and adjacency, in the order in which these first occur.

    Events that name no stage are of one stage for each unit: nothing says that events of different
    units look at the same noise.

    Args:
        events: the events of all stages of one release.
    """
    stages: dict[str, list[PrivacyEvent]] = {}
    for event in events:
        stages.setdefault(_stage(event), []).append(event)
    implied = [event for stage in stages.values() for event in _implied(stage)]
    groups: dict[_Key, list[PrivacyEvent]] = {}
    for event in (*events, *implied):
        groups.setdefault((event.unit, event.adjacency), []).append(event)
    return tuple(
        UnitEvents(
            unit=key[0],
            adjacency=key[1],
            events=tuple(group),
            declared=_declared(group),
            conflicts=tuple(_conflicts(key, group, implied, stages, groups)),
            unprotected=_unprotected(group, events),
        )
        for key, group in groups.items()
    )


def _unprotected(group: Sequence[PrivacyEvent], events: Sequence[PrivacyEvent]) -> tuple[str, ...]:
    """Reasons why nothing protects the unit of a group.

    A stage that names itself describes one release, each event for its own unit: what it does not
    protect of another unit says nothing about a unit for which it has an event of its own.
    """
    own = {event.stage for event in group if event.stage}
    return tuple(
        event.event.reason
        for event in events
        if isinstance(event.event, NonPrivate)
        and _beside(event, group[0].unit)
        and (event in group or event.stage not in own)
    )


def _stage(event: PrivacyEvent) -> str:
    return event.stage or f"that names itself nowhere and protects {event.unit}"


def _base(event: PrivacyEvent) -> Event:
    return one_and_count(event.event)[0]


def _inside(event: Event) -> list[Event]:
    """An event and those of its disjoint parts."""
    return [event, *(one_and_count(each)[0] for part in event.disjoint() for each in part)]


def _beside(event: PrivacyEvent, unit: PrivacyUnit) -> bool:
    """True if an event may protect or spoil a unit: of computation, only another of computation."""
    return (event.unit == COMPUTATION) == (unit == COMPUTATION)


def _points(group: Sequence[PrivacyEvent]) -> list[Protected]:
    return list(dict.fromkeys(event.protected for event in group if event.protected is not None))


def _declared(group: Sequence[PrivacyEvent]) -> Protected | None:
    points = _points(group)
    return points[0] if len(points) == 1 else None


def _implied(stage: Sequence[PrivacyEvent]) -> list[PrivacyEvent]:
    """User events that a stage's user-entity events contain; none unless all of them have one."""
    if any(event.unit == "user" for event in stage):
        return []
    groups = [event for event in stage if event.unit == "user-entity"]
    if any(isinstance(_base(event), NonPrivate | FixedSizeSampled | Parallel) for event in groups):
        return []
    alone = {"unit": "user", "protected": None}
    return [event.model_copy(update={**alone, "stage": _stage(event)}) for event in groups]


def _conflicts(
    key: _Key,
    group: Sequence[PrivacyEvent],
    implied: Sequence[PrivacyEvent],
    stages: dict[str, list[PrivacyEvent]],
    groups: dict[_Key, list[PrivacyEvent]],
) -> list[str]:
    unit, adjacency = key
    reasons = []
    others = sorted(a for u, a in groups if u == unit and a != adjacency)
    if others:
        reasons.append(f"events of unit {unit} differ in adjacency: {adjacency}, {others[0]}")
    speaking = {_stage(event) for event in group}
    for stage, every in stages.items():
        own = [event for event in every if _beside(event, unit)]
        if own and stage not in speaking:
            protected = ", ".join(dict.fromkeys(f"{e.unit} ({e.adjacency})" for e in own))
            reasons.append(
                f"the stage {stage} says nothing about {unit} ({adjacency}): "
                f"it protects {protected}"
            )
    points = _points(group)
    if len(points) > 1:
        texts = " and ".join(
            f"spread {p.spread} with {p.sentences_per_user} sentences a user" for p in points
        )
        reasons.append(f"events declare different points of the curve: {texts}")
    meant = [event for event in group if not any(event is other for other in implied)]
    reasons += [reason for event in meant if (reason := _misplaced(event))]
    return list(dict.fromkeys(reasons))


def _misplaced(event: PrivacyEvent) -> str:
    """Reason why an event cannot speak of its unit; empty if it can."""
    every = _inside(_base(event))
    return next(filter(None, (_unfit(one, event.unit, event.adjacency) for one in every)), "")


def _unfit(one: Event, unit: PrivacyUnit, adjacency: Adjacency) -> str:
    if isinstance(one, NonPrivate | UnknownEvent):
        return ""
    simulated = one.notion == "simulation"
    if simulated != (unit == COMPUTATION) and not one.disjoint():
        if simulated:
            return f"a simulation speaks of the unit {COMPUTATION}, not of {unit}"
        return f"{one.kind} does not speak of the unit {COMPUTATION}: no simulation is shown"
    return one.misplaced(unit, adjacency)
