"""Which accountant answers for which events: frozen events in, epsilon out, or a refusal.

dp-accounting answers for units that are sampled whole (`library`), our own accountant for a user
together with an entity (`user_entity`), plain sums for local noise (`local`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.accountants.curve import Asked, Sizes, curve_of
from uedp_bench.accounting.accountants.dp_accounting import Known, library_epsilons
from uedp_bench.accounting.accountants.local import (
    LOCAL,
    LocalEvent,
    local_epsilon,
    local_reason,
)
from uedp_bench.accounting.accountants.local import SOURCES as LOCAL_SOURCES
from uedp_bench.accounting.events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    GroupRound,
    MetricPrivacy,
    NonPrivate,
    PoissonSampled,
    Protected,
    UnknownEvent,
    one_and_count,
)
from uedp_bench.accounting.guarantee import CurvePoint

SOURCES = {
    "none": "",
    "pld": "privacy loss distribution, connect-the-dots (dp-accounting; arXiv:2207.04380)",
    "rdp": "Renyi accountant (dp-accounting; arXiv:1702.07476, arXiv:1908.10530)",
    "fixed-size-pld": "the pair of a replaced unit, connect-the-dots (docs/proofs.md, A.2)",
    "user-entity-pld": "opposed binomial mixtures, connect-the-dots (docs/accounting.md)",
    **LOCAL_SOURCES,
}

Base = Known | GroupRound | LocalEvent
"""Events of one round."""

_Central = Known | GroupRound


class Refusal(Exception):  # noqa: N818 - an answer of an accountant, caught by the ledger
    """The accountant does not understand the events; the message is the reason."""


@dataclass(frozen=True)
class Answer:
    """What the accountants say.

    Attributes:
        epsilon: the smallest valid value.
        accountant: the accountant that gave it; two joined by " + " where two did.
        values: epsilon by every accountant that is valid for these events.
        curve: for user-entity events.
        reason: why epsilon is infinite, where it is.
        notion: "metric-dp" where epsilon is per unit of distance.
        used: the delta that epsilon holds at; None for the one asked for.
    """

    epsilon: float
    accountant: str
    values: dict[str, float]
    curve: tuple[CurvePoint, ...] = ()
    reason: str = ""
    notion: Literal["dp", "metric-dp"] = "dp"
    used: float | None = None

    @property
    def source(self) -> str:
        """Where the accountants come from."""
        return "; ".join(SOURCES[name] for name in self.accountant.split(" + ") if SOURCES[name])


def rounds_of(event: Event) -> tuple[Base, int]:
    """The event of one round, and how often it happens."""
    if isinstance(event, NonPrivate):
        raise Refusal(event.reason)
    base, count = one_and_count(event)
    if isinstance(base, LOCAL):
        return base, count
    if isinstance(base, UnknownEvent):
        raise Refusal(base.reason)
    if not isinstance(base, _Central):
        raise Refusal(f"no accountant knows the event {base.kind}")
    return _representable(base), count


_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e8
"""Noise multipliers whose squares accountants can invert without overflow."""


def _representable(event: _Central) -> _Central:
    """The event with no more noise than it has: next to none is none, and 1e8 is the most."""
    noise = noise_multiplier(event)
    if _LEAST_NOISE <= noise <= _MOST_NOISE or noise == 0.0 or math.isinf(noise):
        return event
    change = {"noise_multiplier": 0.0 if noise < _LEAST_NOISE else _MOST_NOISE}
    if isinstance(event, PoissonSampled | FixedSizeSampled):
        return event.model_copy(update={"event": event.event.model_copy(update=change)})
    return event.model_copy(update=change)


def noise_multiplier(event: _Central) -> float:
    """Noise over sensitivity, wherever the event keeps it."""
    if isinstance(event, PoissonSampled | FixedSizeSampled):
        return event.event.noise_multiplier
    return event.noise_multiplier


def happens(event: _Central, count: int) -> bool:
    """True if anything about any unit is released."""
    rate = event.rate if isinstance(event, PoissonSampled | GroupRound) else 1.0
    return count > 0 and rate > 0.0 and not math.isinf(noise_multiplier(event))


def account(
    events: Sequence[Event], adjacency: Adjacency, delta: float, asked: Asked | None = None
) -> Answer:
    """The epsilon of all events in sequence, about one unit and one adjacency.

    Args:
        events: none of them `NonPrivate`.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).
        asked: points of the curve, where there is one.

    Raises:
        Refusal: if no accountant is valid for these events together.
    """
    rounds = [rounds_of(event) for event in events]
    local = [(base, count) for base, count in rounds if isinstance(base, LOCAL)]
    central = [(base, count) for base, count in rounds if not isinstance(base, LOCAL)]
    asked = asked or Asked()
    if not local:
        return _central(central, adjacency, delta, asked)
    if central and any(isinstance(base, MetricPrivacy) for base, _ in local):
        raise Refusal("metric privacy does not compose with other events: its epsilon has a unit")
    epsilon, name, used = local_epsilon(local, delta)
    if math.isinf(epsilon) or (central and used >= delta):
        reason = local_reason(local, delta) or f"local events use up all of delta {delta:g}"
        return Answer(math.inf, "none", {name: math.inf}, reason=reason)
    if not central:
        notion: Literal["dp", "metric-dp"] = "metric-dp" if name == "metric" else "dp"
        return Answer(epsilon, name, {name: epsilon}, notion=notion, used=used)
    answer = _central(central, adjacency, delta - used, asked)
    if answer.reason:
        return answer
    return replace(
        answer,
        epsilon=answer.epsilon + epsilon,
        accountant=f"{answer.accountant} + {name}",
        values={f"{key} + {name}": value + epsilon for key, value in answer.values.items()},
        curve=tuple(
            point.model_copy(update={"epsilon": point.epsilon + epsilon}) for point in answer.curve
        ),
    )


def _central(
    rounds: Sequence[tuple[_Central, int]], adjacency: Adjacency, delta: float, asked: Asked
) -> Answer:
    """Events with one noise for all data, which compose by their privacy losses."""
    active = [(base, count) for base, count in rounds if happens(base, count)]
    if any(isinstance(base, GroupRound) for base, _ in rounds):
        answer = _user_entity(rounds, adjacency, delta, asked)
    else:
        known = [(base, count) for base, count in rounds if not isinstance(base, GroupRound)]
        _check_adjacency([base for base, _ in known], adjacency)
        answer = _known([(b, n) for b, n in known if happens(b, n)], adjacency, delta)
    if any(noise_multiplier(base) == 0.0 for base, _ in active):
        return Answer(math.inf, "none", answer.values, answer.curve, "no noise was added")
    if math.isinf(answer.epsilon) and not answer.reason:
        return replace(answer, accountant="none", reason=beyond.REASON)
    return answer


def _beyond(
    rounds: Sequence[tuple[_Central, int]], adjacency: Adjacency, point: Protected
) -> Callable[[float], float]:
    """What the end of the sampler adds to delta, by epsilon."""
    moves = [(beyond.moved(b, adjacency, point), n) for b, n in rounds if happens(b, n)]
    return lambda epsilon: beyond.mass(moves, epsilon)


def _user_entity(
    rounds: Sequence[tuple[_Central, int]], adjacency: Adjacency, delta: float, asked: Asked
) -> Answer:
    from uedp_bench.accounting.accountants.user_entity import user_entity_epsilon

    if len({base.users for base, _ in rounds if isinstance(base, GroupRound)}) > 1:
        raise Refusal("user-entity rounds disagree on the number of users")
    if adjacency != "add-or-remove":
        raise Refusal(f"user-entity rounds are accounted for add-or-remove, not for {adjacency}")
    known = tuple((b, n) for b, n in rounds if not isinstance(b, FixedSizeSampled))
    if len(known) < len(rounds):
        raise Refusal("fixed-size rounds do not compose with user-entity rounds")

    silent = any(happens(b, n) and noise_multiplier(b) == 0.0 for b, n in known)

    def at(point: Protected) -> float:
        if silent:
            return math.inf
        outside = _beyond(known, adjacency, point)
        return beyond.within(delta, lambda d: user_entity_epsilon(known, point, d), outside)

    epsilon, curve = curve_of(Sizes.of([base for base, _ in known]), asked, at)
    return Answer(epsilon, "user-entity-pld", {"user-entity-pld": epsilon}, curve)


def _check_adjacency(bases: Sequence[Known], adjacency: Adjacency) -> None:
    for base in bases:
        if not isinstance(base, FixedSizeSampled):
            continue
        if adjacency == "zero-out":
            raise Refusal(f"fixed-size rounds are not accounted for {adjacency}")
        if base.sample > base.population:
            raise Refusal(f"a round draws {base.sample} units of {base.population}")
    kinds = {base.kind for base in bases}
    if {"fixed-size-sampled", "poisson-sampled"} <= kinds:
        raise Refusal("no accountant composes fixed-size and Poisson rounds")
    if adjacency != "replace-one" and {"fixed-size-sampled", "gaussian"} <= kinds:
        raise Refusal(f"fixed-size rounds compose with no others under {adjacency}")


def _known(rounds: Sequence[tuple[Known, int]], adjacency: Adjacency, delta: float) -> Answer:
    """By every accountant of dp-accounting that is valid; the smallest value counts."""
    if not rounds:
        return Answer(0.0, "pld", {"pld": 0.0, "rdp": 0.0})
    if any(noise_multiplier(base) == 0.0 for base, _ in rounds):
        return Answer(math.inf, "none", {})
    outside = _beyond(rounds, adjacency, Protected(spread=0))
    drawn = sum(count for _, count in rounds)
    fixed = any(isinstance(base, FixedSizeSampled) for base, _ in rounds)

    @cache
    def ideal(at: float) -> dict[str, float]:
        return library_epsilons(rounds, adjacency, at)

    def real(name: str) -> float:
        # A bound for fixed-size rounds that does not reveal who else is in says nothing of pairs.
        mass = partial(beyond.whole, drawn) if fixed and name == "rdp" else outside
        return beyond.within(delta, lambda at: ideal(at)[name], mass)

    values = {name: real(name) for name in ideal(beyond.ideal_delta(delta))}
    best = min(values, key=lambda name: values[name])
    return Answer(values[best], best, values)
