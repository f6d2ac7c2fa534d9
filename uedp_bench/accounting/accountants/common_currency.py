"""Composition of events of different kinds, through what all of them declare.

1. If every event has a dominating pair, privacy losses compose on one grid: dominating pairs
   compose (Zhu, Dong and Wang 2022, arXiv:2106.08567, Theorem 10), adaptively.
2. If every event has Renyi divergences, they add up (Mironov 2017, Proposition 1). Where both
   hold the smaller epsilon counts.
3. Else events are parted by their currencies, delta is shared out equally, and the epsilons of the
   parts add up: basic composition.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.accountants.answers import Answer, Asked, Refusal, Rounds
from uedp_bench.accounting.accountants.basic_composition import promises
from uedp_bench.accounting.accountants.dominating_pairs import LossPair
from uedp_bench.accounting.accountants.joint_accountants import own_accountant
from uedp_bench.accounting.accountants.laplace_losses import promised_pair
from uedp_bench.accounting.accountants.loss_pairs import loss_pairs, pairs_epsilon
from uedp_bench.accounting.accountants.renyi import renyi_epsilon, renyi_of_rounds
from uedp_bench.accounting.accountants.user_entity_curve import Sizes, curve_of, users_of
from uedp_bench.accounting.banded_factorization import WithCurve
from uedp_bench.accounting.event_contract import Adjacency, Event, Neighbours, Protected

EVERYBODY = Protected(spread=10**9, sentences_per_user=10**6)
"""An entity that anybody may mention, where no event has a number of users."""


_CERTAIN = "an event may tell neighbours apart for certain"


def common_currency(rounds: Rounds, adjacency: Adjacency, delta: float, query: Asked) -> Answer:
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
