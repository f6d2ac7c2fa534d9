"""Disjoint parts of the data, each treated by events of its own (docs/proofs.md, section 12)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from uedp_bench.accounting.event_contract import Adjacency, AnyEvent, Event, PrivacyUnit
from uedp_bench.accounting.events import NonPrivate

_MOST_NAMED = 8
"""Most different parts that a sentence names."""


def _of_a_part(event: Event) -> Event:
    """Refuse what no part can hold."""
    if isinstance(event, NonPrivate):
        raise ValueError("'non-private' stands by itself, and not inside of another event")
    if _holds_parts(event):
        raise ValueError("parts of parts are parts: write them side by side")
    return event


def _holds_parts(event: Event) -> bool:
    inner = getattr(event, "event", None)
    return isinstance(event, Parallel) or (isinstance(inner, Event) and _holds_parts(inner))


class Parallel(Event):
    """Every unit lies in exactly one part of the data, and meets the events of that part alone.

    The assignment of units to parts is public, or independent of all data, and stays the same
    wherever the event is repeated. Parts may interact: what one of them does may depend on what the
    others have released. Clients with a mechanism each are parts, and so are the rounds of one
    client if each of them uses rows that no other round uses.

    `parts` holds the events of each part, in order. `replaced_inside` says that a unit that is
    replaced stays in its part; without it nothing is proven under replace-one, for a unit that
    moves leaves one part and joins another.
    """

    kind: Literal["parallel"] = "parallel"
    parts: Annotated[
        tuple[tuple[Annotated[AnyEvent, AfterValidator(_of_a_part)], ...], ...], Field(min_length=1)
    ]
    replaced_inside: bool = False

    def disjoint(self) -> tuple[tuple[Event, ...], ...]:
        """The parts."""
        return self.parts

    def refusal(self, adjacency: Adjacency) -> str:
        """Refuse replace-one, unless a replaced unit is known to stay in its part."""
        if adjacency == "replace-one" and not self.replaced_inside:
            return (
                "parallel parts are not accounted for replace-one unless a replaced unit stays in "
                "its part (replaced_inside)"
            )
        return ""

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """Refuse entities, which several parts may mention."""
        if unit in ("entity", "user-entity"):
            return f"parallel parts do not protect {unit}: several parts may mention an entity"
        return ""

    def text(self, unit: PrivacyUnit) -> str:
        """Number of parts, with the events of each kind of part."""
        counts: dict[str, int] = {}
        for part in self.parts:
            inside = "; then ".join(event.text(unit) for event in part) or "nothing"
            counts[inside] = counts.get(inside, 0) + 1
        clauses = [f"in {count:,} of them: {inside}" for inside, count in counts.items()]
        left = len(clauses) - _MOST_NAMED
        more = [f"and {left:,} more that differ"] if left > 0 else []
        each = "; ".join([*clauses[:_MOST_NAMED], *more])
        return f"each {unit} is in one of {len(self.parts):,} parts of the data; {each}"
