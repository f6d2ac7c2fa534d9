"""What the events of all stages say together: for which units, and where they contradict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.accounting.events import (
    Adjacency,
    AnyEvent,
    FixedSizeSampled,
    GroupRound,
    NonPrivate,
    PrivacyEvent,
    PrivacyUnit,
    Protected,
    Repeated,
    TwoLevelUserEntityGaussian,
)

_Key = tuple[PrivacyUnit, Adjacency]


@dataclass(frozen=True)
class Stated:
    """The events about one unit and one adjacency.

    Attributes:
        events: in order.
        declared: the point of the curve that they protect, where one is declared.
        conflicts: why they cannot be accounted for together; empty where they can.
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
    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of all events, each once."""
        texts = [text for event in self.events for text in event.assumptions]
        two = any(isinstance(_base(event), TwoLevelUserEntityGaussian) for event in self.events)
        if two and self.unit == "user-entity":
            texts.append(
                "at a point of the curve with so many sentences, no other user mentions the entity "
                "in more than sentences / spread of them"
            )
        return tuple(dict.fromkeys(texts))


def stated(events: Sequence[PrivacyEvent]) -> tuple[Stated, ...]:
    """One for each unit and adjacency, in the order in which they first occur.

    Events that name no stage are of one stage for each unit: nothing says that events of different
    units look at the same noise.

    Args:
        events: of all stages of one release.
    """
    stages: dict[str, list[PrivacyEvent]] = {}
    for event in events:
        stages.setdefault(_stage(event), []).append(event)
    implied = [event for stage in stages.values() for event in _implied(stage)]
    groups: dict[_Key, list[PrivacyEvent]] = {}
    for event in (*events, *implied):
        groups.setdefault((event.unit, event.adjacency), []).append(event)
    return tuple(
        Stated(
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
    """Why nothing protects the unit of a group.

    A stage that names itself describes one release, each event for its own unit: what it does not
    protect of another unit says nothing about a unit for which it has an event of its own.
    """
    own = {event.stage for event in group if event.stage}
    return tuple(
        event.event.reason
        for event in events
        if isinstance(event.event, NonPrivate) and (event in group or event.stage not in own)
    )


def _stage(event: PrivacyEvent) -> str:
    return event.stage or f"that names itself nowhere and protects {event.unit}"


def _base(event: PrivacyEvent) -> AnyEvent:
    return event.event.event if isinstance(event.event, Repeated) else event.event


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
    if any(isinstance(_base(event), NonPrivate | FixedSizeSampled) for event in groups):
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
    for stage, own in stages.items():
        if stage not in speaking:
            said = ", ".join(dict.fromkeys(f"{e.unit} ({e.adjacency})" for e in own))
            reasons.append(
                f"the stage {stage} says nothing about {unit} ({adjacency}): it protects {said}"
            )
    points = _points(group)
    if len(points) > 1:
        said = " and ".join(
            f"spread {p.spread} with {p.sentences_per_user} sentences a user" for p in points
        )
        reasons.append(f"events declare different points of the curve: {said}")
    meant = [event for event in group if not any(event is other for other in implied)]
    reasons += [reason for event in meant if (reason := _misplaced(event))]
    return list(dict.fromkeys(reasons))


def _misplaced(event: PrivacyEvent) -> str:
    """Why an event cannot speak of its unit; empty where it can."""
    base = _base(event)
    home = (event.unit, event.adjacency) == ("user-entity", "add-or-remove")
    if isinstance(base, GroupRound) and not home:
        return (
            "user-entity rounds speak of the unit user-entity under add-or-remove, "
            f"not of {event.unit} under {event.adjacency}"
        )
    if isinstance(base, FixedSizeSampled) and event.unit == "user-entity":
        return (
            "no bound is known for a user together with an entity in fixed-size rounds: who else "
            "takes part depends on whether the user does"
        )
    return ""
