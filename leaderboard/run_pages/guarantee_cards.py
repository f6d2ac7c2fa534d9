"""Guarantees, lower bounds and privacy events in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from uedp_bench.accounting.events import PrivacyEvent, Protected
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import LowerBound
from uedp_bench.leaderboard.cell_text import PER_DISTANCE, at_distances, number
from uedp_bench.leaderboard.rows import Stat
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table

_NOTIONS = {
    "dp": "differential privacy",
    "metric-dp": "metric differential privacy (metric-dp): ε is per unit of distance",
    "simulation": "simulation: who computes sees nothing that its own input and what is revealed "
    "do not tell; this ε is 0 and compares with no other",
    "none": "nothing is promised",
}
_TONES = {"given": "good", "refused": "warn", "refuted": "bad"}


@dataclass(frozen=True)
class Card:
    """A guarantee as readers see it.

    Attributes:
        kind: claimed, stated or proven.
        epsilon: epsilon as text, "refused" where there is none.
        unit: protected unit.
        status: status in words, with `tone` as its colour.
        reason: reason of the status.
        facts: labels and values.
    """

    kind: str
    epsilon: str
    unit: str
    status: str
    tone: str
    reason: str
    note: str
    facts: tuple[tuple[str, str], ...]
    assumptions: tuple[str, ...]


def card(guarantee: Guarantee, epsilon_at: Mapping[str, Stat] = MappingProxyType({})) -> Card:
    """Card of a guarantee.

    Args:
        guarantee: guarantee to show.
        epsilon_at: epsilon of metric DP between the words of some pairs.
    """
    status = {
        "given": "given",
        "refused": "refused: no proof for what was executed",
        "refuted": "refuted: an attack bounds ε from below above this claim",
    }[guarantee.status]
    tone = _TONES[guarantee.status]
    if (guarantee.kind, guarantee.status) == ("stated", "given"):
        status, tone = "stated, and not proven: it rests on what nobody reviewed", "warn"
    if guarantee.notion == "none" and guarantee.status == "given":
        status, tone = "no protection", "warn"
    facts = [
        ("δ", f"{guarantee.delta:g}"),
        ("neighbours differ by", guarantee.adjacency),
        ("notion", _NOTIONS[guarantee.notion]),
        ("accountant", guarantee.accountant),
    ]
    if guarantee.pure is not None:
        facts.insert(1, ("ε at δ = 0", number(guarantee.pure)))
    if guarantee.notion == "metric-dp":
        facts += [("ε between words", text) for text in at_distances(epsilon_at)]
    if guarantee.source:
        facts.append(("source", guarantee.source))
    if guarantee.curve:
        facts.append(("for entities", protected(guarantee.protected)))
    distance = f" {PER_DISTANCE}" if guarantee.notion == "metric-dp" else ""
    epsilon = f"ε = {number(guarantee.epsilon)}{distance}"
    return Card(
        guarantee.kind, epsilon, guarantee.unit, status, tone, guarantee.reason, guarantee.note,
        tuple(facts), guarantee.assumptions,
    )  # fmt: skip


def protected(point: Protected | None) -> str:
    """The declared point of a curve: which entities a guarantee is about."""
    if point is None:
        return "that any number of other users mention"
    if point.spread == 0:
        return "that no other user mentions"
    users = f"{point.spread:,} other user{'s' * (point.spread > 1)}"
    rows = f"{point.sentences_per_user:,} sentence{'s' * (point.sentences_per_user > 1)}"
    return f"that at most {users} mention{'s' * (point.spread == 1)}, in at most {rows} each"


def bounds(lower_bounds: tuple[LowerBound, ...]) -> Table:
    """Table of the lower bounds that attacks gave."""
    head = ("attack", "unit", "neighbours differ by", "ε at least", "confidence", "strict ε", "δ",
            "spread", "sentences", "method", "must hold")  # fmt: skip
    rows = [
        (
            one.attack, one.unit, one.adjacency, one.epsilon, f"{100 * one.confidence:.6g} %",
            one.strict_epsilon, f"{one.delta:g}", one.spread, one.sentences, one.method,
            "; ".join(one.assumptions),
        )
        for one in lower_bounds
    ]  # fmt: skip
    return table("lower bounds on ε", head, rows, numbers=(4, 6))


def events(privacy_events: tuple[PrivacyEvent, ...]) -> Table:
    """Table of the events: what happened to private data."""
    rows = [
        (
            one.stage, one.unit, one.adjacency, one.event.text(one.unit),
            "; ".join(one.assumptions),
            "" if one.protected is None else f"entities {protected(one.protected)}",
        )
        for one in privacy_events
    ]  # fmt: skip
    head = ("stage", "unit", "neighbours differ by", "what happened", "assumptions", "protected")
    return table("privacy events: the accountants' only input", head, rows)
