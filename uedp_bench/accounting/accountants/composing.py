"""Epsilon of events of one unit together: each kind's own accountant, or a common currency.

Events of different kinds compose through what all of them declare:

1. If every event has a dominating pair, privacy losses compose on one grid: dominating pairs
   compose (Zhu, Dong and Wang 2022, arXiv:2106.08567, Theorem 10), adaptively.
2. If every event has Renyi divergences, they add up (Mironov 2017, Proposition 1). Where both
   hold the smaller epsilon counts.
3. Else events are parted by their currencies, delta is shared out equally, and the epsilons of the
   parts add up: basic composition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.accountants.basic_composition import (
    basic_epsilon,
    basic_reason,
    promises,
)
from uedp_bench.accounting.accountants.dominating_pairs import LossPair
from uedp_bench.accounting.accountants.joint_accountants import own_accountant, quick_bound
from uedp_bench.accounting.accountants.loss_pairs import loss_pairs, pairs_epsilon, promised_pair
from uedp_bench.accounting.accountants.renyi import renyi_epsilon, renyi_of_rounds
from uedp_bench.accounting.banded_factorization import WithCurve
from uedp_bench.accounting.event_contract import MOST_COUNT, Adjacency, Event, Neighbours, Protected
from uedp_bench.accounting.events import one_and_count
from uedp_bench.accounting.guarantee import (
    Answer,
    Asked,
    CurvePoint,
    Refusal,
    Rounds,
    Sizes,
    curve_of,
    users_of,
)

EVERYBODY = Protected(spread=10**9, sentences_per_user=10**6)
"""An entity that anybody may mention, where no event has a number of users."""

_CERTAIN = "an event may tell neighbours apart for certain"


def _common_currency(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    """Epsilon of events that have no joint accountant of their own.

    Args:
        rounds: events of differential privacy, each with the number of times it happens.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).
        query: points of the curve, where an event has one.

    Raises:
        Refusal: if an event declares nothing that composes.
    """
    active = [(event, count) for event, count in rounds if count > 0]

    @cache
    def answer_at(point: Protected) -> Answer:
        return _answer_at(active, Neighbours(adjacency, point), delta)

    groups = [event for event, _ in active if isinstance(event, WithCurve)]
    if not groups:
        return answer_at(Protected(spread=0) if query.alone else query.declared or EVERYBODY)
    if len({users_of(event) for event in groups}) > 1:
        raise Refusal("user-entity rounds disagree on the number of users")
    sizes = Sizes.from_rounds(groups)
    epsilon, curve = curve_of(sizes, query, lambda point: answer_at(point).epsilon)
    answer = answer_at(Protected(spread=0) if query.alone else query.declared or sizes.everybody)
    return replace(answer, epsilon=epsilon, curve=curve)


def _answer_at(rounds: Rounds, neighbours: Neighbours, delta: float) -> Answer:
    """The answer at one point: in the best common currency, or where there is none in parts."""
    values = _together(rounds, neighbours, delta)
    best = min(values, key=lambda name: values[name], default="")
    if best and math.isfinite(values[best]):
        return Answer(values[best], best, values)
    return _in_parts(rounds, neighbours, delta)


def _together(rounds: Rounds, neighbours: Neighbours, delta: float) -> dict[str, float]:
    """Epsilon in every currency that all events have; none where they have none in common."""
    epsilons: dict[str, float] = {}
    drawn = sum(count * event.gaussian_rounds for event, count in rounds)

    def past_end(epsilon: float) -> float:
        return beyond.whole(drawn, epsilon)

    pairs = [_pairs(event, neighbours) for event, _ in rounds]
    if all(pair is not None for pair in pairs):
        counted = [(pair, n) for pair, (_, n) in zip(pairs, rounds, strict=True) if pair]
        epsilons["pairs-pld"] = beyond.within(
            delta, lambda at: pairs_epsilon(counted, at), past_end
        )
    try:
        divergences = renyi_of_rounds(rounds, neighbours)
    except Refusal:
        return epsilons
    epsilons["rdp"] = beyond.within(delta, lambda at: renyi_epsilon(divergences, at), past_end)
    return epsilons


def _pairs(event: Event, neighbours: Neighbours) -> tuple[LossPair, LossPair] | None:
    """The pairs that an event declares, or the worst that its promise allows."""
    declared = loss_pairs(event, neighbours)
    promise = promises(event, neighbours.adjacency)
    if declared is not None or promise is None:
        return declared
    pair = promised_pair(promise)
    return None if pair is None else (pair, pair)


def _in_parts(rounds: Rounds, neighbours: Neighbours, delta: float) -> Answer:
    """Epsilons of the parts that have a common currency, each at its share of delta, added up."""
    parts: dict[Any, list[Any]] = {}
    for event, count in rounds:
        has = "pairs" if _pairs(event, neighbours) is not None else "renyi"
        parts.setdefault(own_accountant(event) or has, []).append((event, count))
    query = Asked(declared=neighbours.point, points=())
    answers = [
        own(part, neighbours.adjacency, delta / len(parts), query)
        if callable(own)
        else _alone(part, neighbours, delta / len(parts))
        for own, part in parts.items()
    ]
    total = math.fsum(answer.epsilon for answer in answers)
    if math.isinf(total):
        reasons = [answer.reason for answer in answers if answer.reason]
        return Answer(math.inf, "none", reason="; ".join(reasons) or beyond.REASON)
    name = " + ".join(answer.accountant for answer in answers)
    return Answer(total, name, {name: total})


def _alone(rounds: Rounds, neighbours: Neighbours, delta: float) -> Answer:
    """Answer for one part, by the currencies of all its events."""
    values = _together(rounds, neighbours, delta)
    if not values:
        kinds = ", ".join(sorted({event.kind for event, _ in rounds}))
        raise Refusal(f"no accountant knows what {kinds} is worth under {neighbours.adjacency}")
    best = min(values, key=lambda name: values[name])
    if math.isinf(values[best]):
        return Answer(math.inf, "none", values, reason=_CERTAIN)
    return Answer(values[best], best, values)


# ------------------------------------------------------------------------------ sequences of events


def compose(
    events: Sequence[Event], adjacency: Adjacency, delta: float, query: Asked | None = None
) -> Answer:
    """The epsilon of all events in sequence, about one unit and one adjacency.

    Args:
        events: none of them `NonPrivate`.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).
        query: points of the curve, where there is one.

    Raises:
        Refusal: if no accountant is valid for these events together.
    """
    sequences = _sequences(events, adjacency)
    if len(sequences) == 1:
        return _in_sequence(sequences[0], adjacency, delta, query or Asked())
    return _worst(_that_may_be_worst(sequences, adjacency, delta, query or Asked()), delta)


def _that_may_be_worst(
    sequences: Sequence[Rounds], adjacency: Adjacency, delta: float, query: Asked
) -> list[Answer]:
    """Answers of all sequences but those that a quick bound shows to be no worse than another."""
    bounds = [quick_bound(rounds, adjacency, delta) for rounds in sequences]
    answers: list[Answer] = []
    for at in sorted(range(len(sequences)), key=lambda at: -bounds[at]):
        worst = max((answer.epsilon for answer in answers), default=-math.inf)
        if math.isinf(bounds[at]) or bounds[at] > worst:
            answers.append(_in_sequence(sequences[at], adjacency, delta, query))
    return answers


MOST_SEQUENCES = 256
"""Most different sequences of events that one unit or another may meet."""


def _sequences(events: Sequence[Event], adjacency: Adjacency) -> list[Rounds]:
    """Sequences that a unit may meet: one, or with disjoint parts each that differs."""
    sequences: dict[tuple[tuple[Event, int], ...], None] = {(): None}
    for event in events:
        one, count = one_and_count(event)
        if reason := one.refusal(adjacency):
            raise Refusal(reason)
        parts = one.disjoint() or ((one,),)
        met = dict.fromkeys(_counted(part, count, adjacency) for part in parts)
        if len(sequences) * len(met) > MOST_SEQUENCES:
            raise Refusal(
                f"units may meet more than {MOST_SEQUENCES} different sequences of events: "
                "make parallel parts alike"
            )
        sequences = dict.fromkeys((*before, *part) for before in sequences for part in met)
    return list(sequences)


def _counted(
    part: Sequence[Event], count: int, adjacency: Adjacency
) -> tuple[tuple[Event, int], ...]:
    """Events of a part, each with the number of times it happens if the part does `count` times."""
    rounds = tuple((one, count * own) for one, own in map(one_and_count, part))
    for one, times in rounds:
        if reason := one.refusal(adjacency):
            raise Refusal(reason)
        if times > MOST_COUNT:
            raise Refusal(f"{one.kind} happens {times:,} times, more than {MOST_COUNT:,}")
    return rounds


def _worst(answers: Sequence[Answer], delta: float) -> Answer:
    """Take the largest epsilon and delta over all sequences that a unit may meet.

    Raises:
        Refusal: if epsilons mean different things.
    """
    if len(notions := {answer.notion for answer in answers}) > 1:
        raise Refusal(f"parts of different notions do not compose: {', '.join(sorted(notions))}")
    largest = max(answers, key=lambda answer: answer.epsilon)
    used = [delta if answer.used is None else answer.used for answer in answers]
    curve = tuple(
        max(points, key=lambda point: point.epsilon)
        for points in zip(*(answer.curve for answer in answers), strict=True)
    )
    pure = [answer.epsilon if answer.used == 0.0 else answer.pure for answer in answers]
    finite = [value for value in pure if value is not None]
    both = max(finite) if len(finite) == len(pure) and max(used) > 0.0 else None
    return replace(largest, used=max(used), curve=curve, pure=both)


def _in_sequence(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    promised = [(e, n) for e, n in rounds if promises(e, adjacency) is not None]
    rest = [(e, n) for e, n in rounds if promises(e, adjacency) is None]
    if not promised:
        return _without_promises(rest, adjacency, delta, query)
    if rest and any(event.notion == "metric-dp" for event, _ in promised):
        raise Refusal("metric privacy does not compose with other events: its epsilon has a unit")
    if len(notions := {event.notion for event, _ in rounds} - {"metric-dp"}) > 1:
        raise Refusal(f"events of different notions do not compose: {', '.join(sorted(notions))}")
    summed = _summed(promised, rest, adjacency, delta, query)
    if any(event.notion != "dp" for event, _ in promised):
        return summed
    try:
        composed = _common_currency(rounds, adjacency, delta, query)
    except Refusal:
        return summed
    return _smaller(summed, composed)


_GAIN = 0.99
"""Share of a sum that a composition must not exceed to be given: at delta 0 a sum says more."""


def _smaller(summed: Answer, composed: Answer) -> Answer:
    """The smaller of two valid answers, at every point of a curve."""
    if not summed.curve and math.isinf(summed.epsilon):
        return summed if summed.reason else composed
    curve = tuple(
        less if _gains(less.epsilon, more.epsilon) else more
        for less, more in zip(composed.curve, summed.curve, strict=True)
    )
    if not _gains(composed.epsilon, summed.epsilon):
        return replace(summed, curve=curve)
    values = {**summed.values, **composed.values}
    pure = summed.epsilon if summed.used == 0.0 else None
    return replace(composed, values=values, curve=curve, pure=pure)


def _gains(composed: float, summed: float) -> bool:
    return composed < summed and composed <= _GAIN * summed


def add_up(rounds: Rounds, adjacency: Adjacency, delta: float) -> Answer:
    """Promises by basic composition alone, as papers compute them.

    Raises:
        Refusal: see `basic_epsilon`.
    """
    epsilon, name, used = basic_epsilon(rounds, adjacency, delta)
    if math.isinf(epsilon):
        reason = basic_reason(rounds, adjacency, delta)
        return Answer(math.inf, "none", {name: math.inf}, reason=reason)
    return Answer(epsilon, name, {name: epsilon}, notion=rounds[0][0].notion, used=used)


def _summed(
    promised: Rounds, rest: Rounds, adjacency: Adjacency, delta: float, query: Asked
) -> Answer:
    """Add promises up, and the rest at the delta that they leave."""
    summed = add_up(promised, adjacency, delta)
    if not rest or summed.reason:
        return summed
    used = summed.used or 0.0
    if used >= delta:
        reason = f"local events use up all of delta {delta:g}"
        return Answer(math.inf, "none", summed.values, reason=reason)
    answer = _without_promises(rest, adjacency, delta - used, query)
    return answer if answer.reason else _added(answer, summed.epsilon, summed.accountant)


def _without_promises(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
    own = {own_accountant(event) for event, _ in rounds}
    accountant = own.pop() if len(own) == 1 else None
    return (accountant or _common_currency)(rounds, adjacency, delta, query)


def _added(answer: Answer, epsilon: float, name: str) -> Answer:
    """Add the cost of promises to an answer."""
    return replace(
        answer,
        epsilon=answer.epsilon + epsilon,
        accountant=f"{answer.accountant} + {name}",
        values={f"{key} + {name}": value + epsilon for key, value in answer.values.items()},
        curve=tuple(_shifted(point, epsilon) for point in answer.curve),
    )


def _shifted(point: CurvePoint, epsilon: float) -> CurvePoint:
    return point.model_copy(update={"epsilon": point.epsilon + epsilon})
