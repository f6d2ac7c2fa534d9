"""Guarantees, lower bounds and privacy events in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from uedp_bench.accounting.events import (
    ApproximateDP,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceVector,
    MetricPrivacy,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PrivacyUnit,
    Protected,
    PureDP,
    Repeated,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.cell_text import PER_DISTANCE, at_distances, number
from uedp_bench.leaderboard.rows import Stat
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table
from uedp_bench.results import LowerBound

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
        kind: claimed or proven.
        epsilon: as text, "refused" where there is none.
        unit: what is protected.
        status: in words, with `tone` as its colour.
        reason: of the status.
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


def card(found: Guarantee, epsilon_at: Mapping[str, Stat] = MappingProxyType({})) -> Card:
    """What is known of a guarantee.

    Args:
        found: the guarantee.
        epsilon_at: of metric DP, epsilon between the words of some pairs.
    """
    status = {
        "given": "given",
        "refused": "refused: no proof for what was executed",
        "refuted": "refuted: an attack bounds ε from below above this claim",
    }[found.status]
    tone = _TONES[found.status]
    if found.notion == "none" and found.status == "given":
        status, tone = "no protection", "warn"
    facts = [
        ("δ", f"{found.delta:g}"),
        ("neighbours differ by", found.adjacency),
        ("notion", _NOTIONS[found.notion]),
        ("accountant", found.accountant),
    ]
    if found.notion == "metric-dp":
        facts += [("ε between words", text) for text in at_distances(epsilon_at)]
    if found.source:
        facts.append(("source", found.source))
    if found.curve:
        facts.append(("for entities", protected(found.protected)))
    distance = f" {PER_DISTANCE}" if found.notion == "metric-dp" else ""
    epsilon = f"ε = {number(found.epsilon)}{distance}"
    return Card(
        found.kind, epsilon, found.unit, status, tone, found.reason, found.note, tuple(facts),
        found.assumptions,
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


def bounds(found: tuple[LowerBound, ...]) -> Table:
    """Table of the lower bounds that attacks gave."""
    head = ("attack", "unit", "neighbours differ by", "ε at least", "confidence", "strict ε", "δ",
            "spread", "sentences", "method", "must hold")  # fmt: skip
    rows = [
        (
            one.attack, one.unit, one.adjacency, one.epsilon, f"{100 * one.confidence:.6g} %",
            one.strict_epsilon, f"{one.delta:g}", one.spread, one.sentences, one.method,
            "; ".join(one.assumptions),
        )
        for one in found
    ]  # fmt: skip
    return table("lower bounds on ε", head, rows, numbers=(4, 6))


def events(found: tuple[PrivacyEvent, ...]) -> Table:
    """Table of the events: what happened to private data."""
    rows = [
        (
            one.stage, one.unit, one.adjacency, event_text(one.event, one.unit),
            "; ".join(one.assumptions),
            "" if one.protected is None else f"entities {protected(one.protected)}",
        )
        for one in found
    ]  # fmt: skip
    head = ("stage", "unit", "neighbours differ by", "what happened", "assumptions", "protected")
    return table("privacy events: the accountants' only input", head, rows)


def event_text(event: Event, unit: PrivacyUnit) -> str:
    """An event in a sentence."""
    if isinstance(event, Repeated):
        return f"{event.count:,} times, one after the other: {event_text(event.event, unit)}"
    if isinstance(event, PoissonSampled):
        return f"each {unit} takes part with probability {event.rate:g}; {_noise(event.event)}"
    if isinstance(event, FixedSizeSampled):
        drawn = f"{event.sample:,} of {event.population:,}"
        return f"{drawn} are drawn without replacement (unit {unit}); {_noise(event.event)}"
    if isinstance(event, UserEntityGaussian | TwoLevelUserEntityGaussian | SentenceSampledGaussian):
        return _round(event)
    if isinstance(event, _Noise):
        return _noise(event)
    return event.text(unit)


def _round(
    event: UserEntityGaussian | TwoLevelUserEntityGaussian | SentenceSampledGaussian,
) -> str:
    noise = f"Gaussian noise of {event.noise_multiplier:g} times it is added to the sum"
    who = f"of {event.users:,} users"
    if isinstance(event, SentenceSampledGaussian):
        return (
            f"each sentence {who}, at most {event.sentences_per_user:,} of each, takes part with "
            f"probability {event.rate:g}; its gradient is clipped to a norm, and {noise}"
        )
    clipped = "its update is clipped to a norm"
    if isinstance(event, TwoLevelUserEntityGaussian):
        clipped = (
            f"its sentences' gradients are clipped to {event.sentence_bound:g} times a norm, and "
            "their sum to the norm"
        )
    return f"each {who} takes part with probability {event.rate:g}; {clipped}, and {noise}"


_Noise = NonPrivate | Gaussian | PureDP | ApproximateDP | LaplaceVector | MetricPrivacy


def _noise(event: _Noise) -> str:
    if isinstance(event, NonPrivate):
        return f"private data was used without protection: {event.reason}"
    if isinstance(event, Gaussian):
        return (
            "a sum of clipped vectors is released with Gaussian noise of "
            f"{event.noise_multiplier:g} times the clip bound"
        )
    if isinstance(event, PureDP):
        return f"a mechanism that is ({event.epsilon:g}, 0)-DP"
    if isinstance(event, ApproximateDP):
        group = f", of which {event.group:,} change at once" if event.group > 1 else ""
        return f"a mechanism that is ({event.epsilon:g}, {event.delta:g})-DP for one element{group}"
    if isinstance(event, LaplaceVector):
        dropped = f"; the element is dropped with probability {event.dropout:g}, first"
        return (
            f"Laplace noise of scale {event.scale:g} on every coordinate, where neighbours are at "
            f"most {event.sensitivity:g} apart (l1){dropped if event.dropout else ''}"
        )
    return f"metric privacy: ε = {event.epsilon:g} per unit of distance ({event.metric})"
