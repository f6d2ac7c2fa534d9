"""Disjoint parts: the bound against every outcome of small mechanisms, and what it refuses."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError

from uedp_bench.accounting.accountants import composing
from uedp_bench.accounting.accountants.composing import MOST_SEQUENCES, compose
from uedp_bench.accounting.accountants.joint_accountants import quick_bound
from uedp_bench.accounting.accountants.renyi import renyi
from uedp_bench.accounting.events import (
    ApproximateDP,
    Gaussian,
    MetricPrivacy,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    PureDP,
    Repeated,
    UserEntityGaussian,
    one_and_count,
)
from uedp_bench.accounting.guarantee import Refusal
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.protocol_events import Parallel

ANY = "add-or-remove"
DELTA = 1e-5


def rounds(rate: float, noise: float, count: int) -> Repeated:
    event = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))
    return Repeated(count=count, event=event)


# ------------------------------------------------------------------- every outcome of small cases

BITS = (0, 1, None)
"""What a unit may hold; None of a unit that is not there."""


def answers(value: int | None, epsilon: float) -> dict[int, float]:
    """Randomized response; who is not there says 0."""
    true = math.exp(epsilon) / (1 + math.exp(epsilon))
    answer = value or 0
    return {answer: true, 1 - answer: 1 - true}


Ask = Callable[[tuple[int | None, ...], tuple[int, ...]], tuple[int, float]]


def outcomes(data: tuple[int | None, ...], asks: list[Ask]) -> dict[tuple[int, ...], float]:
    """The law of all answers; each ask sees those before it, and answers about one unit."""
    law: dict[tuple[int, ...], float] = {(): 1.0}
    for ask in asks:
        law = {
            (*before, bit): weight * chance
            for before, weight in law.items()
            for bit, chance in answers(*ask(data, before)).items()
        }
    return law


def largest_ratio(asks: list[Ask], neighbours: list[tuple[tuple, tuple]]) -> float:
    """Epsilon at delta 0: the largest log ratio of any outcome between any neighbours."""
    worst = 0.0
    for one, other in neighbours:
        p, q = outcomes(one, asks), outcomes(other, asks)
        worst = max(worst, *(abs(math.log(p[o] / q[o])) for o in p))
    return worst


def neighbours_of(units: int, replaced: bool) -> list[tuple[tuple, tuple]]:
    """Data sets that differ in one unit: replaced, or there on one side only."""
    sets = list(itertools.product(BITS, repeat=units))
    return [
        (one, other)
        for one, other in itertools.product(sets, sets)
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1
        and all(
            a == b or (None not in (a, b) if replaced else None in (a, b))
            for a, b in zip(one, other, strict=True)
        )
    ]


def interacting() -> list[Ask]:
    """Part A asks of unit 0, part B of unit 1, in turns; B's noise depends on what A has said."""
    return [
        lambda data, seen: (data[0], 0.4),
        lambda data, seen: (data[1], 0.9),
        lambda data, seen: (data[0], 0.7 if sum(seen) else 0.2),
        lambda data, seen: (data[1], 0.1 if seen[0] else 0.5),
    ]


A, B = (PureDP(epsilon=0.4), PureDP(epsilon=0.7)), (PureDP(epsilon=0.9), PureDP(epsilon=0.5))


@pytest.mark.parametrize("replaced", [True, False])
def test_no_outcome_tells_more_than_the_worst_part(replaced):
    adjacency = "replace-one" if replaced else ANY
    event = Parallel(parts=(A, B), replaced_inside=True)
    composition = compose([event], adjacency, DELTA)
    assert (composition.epsilon, composition.used) == (pytest.approx(1.4), 0.0)
    ratio = largest_ratio(interacting(), neighbours_of(2, replaced))
    assert ratio == pytest.approx(1.4)  # attained, so that nothing less would do


def test_a_unit_in_two_parts_tells_more_than_the_worst():
    """The condition is needed: the attack finds a violation where parts are not disjoint."""
    shared: list[Ask] = [
        lambda data, seen: (data[0], 0.4),
        lambda data, seen: (data[0], 0.9),
    ]
    composition = compose(
        [Parallel(parts=((PureDP(epsilon=0.4),), (PureDP(epsilon=0.9),)))], ANY, DELTA
    )
    assert largest_ratio(shared, neighbours_of(1, False)) == pytest.approx(1.3)
    assert composition.epsilon == 0.9


def test_a_unit_that_moves_between_parts_tells_more_than_the_worst():
    """Replacing may move a unit, which changes both parts: refused unless it is said to stay."""

    def moving(part: int, epsilon: float) -> Ask:
        # The unit's own value says in which part it is, and each part says whether it is there.
        return lambda data, seen: (int(data[0] == part), epsilon)

    ratio = largest_ratio([moving(0, 0.4), moving(1, 0.9)], neighbours_of(1, True))
    assert ratio == pytest.approx(1.3)
    parts = ((PureDP(epsilon=0.4),), (PureDP(epsilon=0.9),))
    with pytest.raises(Refusal, match=r"replace-one.*replaced_inside"):
        compose([Parallel(parts=parts)], "replace-one", DELTA)
    assert compose([Parallel(parts=parts)], "zero-out", DELTA).epsilon == 0.9


# ------------------------------------------------------------------------------------- the numbers


def test_clients_cost_what_the_worst_of_them_costs():
    clients = tuple((rounds(rate, 1.0, 50),) for rate in (0.01, 0.04, 0.02, 0.04))
    composition = compose([Parallel(parts=clients)], ANY, DELTA)
    assert composition.epsilon == compose([rounds(0.04, 1.0, 50)], ANY, DELTA).epsilon


def test_what_everybody_meets_composes_with_every_part():
    common = Gaussian(noise_multiplier=5.0)
    small, large = rounds(0.01, 1.0, 50), rounds(0.04, 1.0, 50)
    composition = compose([common, Parallel(parts=((small,), (large,)))], ANY, DELTA)
    assert composition.epsilon == compose([common, large], ANY, DELTA).epsilon
    both = compose([common, small, large], ANY, DELTA).epsilon
    assert composition.epsilon < both


def test_parts_that_are_worst_in_different_ways_take_the_worst_of_each():
    pure, rare = PureDP(epsilon=2.0), ApproximateDP(epsilon=1.0, delta=1e-6)
    composition = compose([Parallel(parts=((pure,), (rare,)))], ANY, DELTA)
    assert (composition.epsilon, composition.used) == (2.0, 1e-6)


def test_repeating_repeats_every_part():
    event = Repeated(count=3, event=Parallel(parts=((PureDP(epsilon=0.1),), ())))
    assert compose([event], ANY, DELTA).epsilon == pytest.approx(0.3)


def test_two_partitions_meet_in_every_way():
    parts = tuple((PureDP(epsilon=e),) for e in (0.1, 0.5))
    composition = compose([Parallel(parts=parts), Parallel(parts=parts)], ANY, DELTA)
    assert composition.epsilon == pytest.approx(1.0)


def test_renyi_divergences_are_those_of_the_worst_part_at_every_order():
    alone = Protected(spread=0)
    event = Parallel(parts=((rounds(0.01, 1.0, 50),), (Gaussian(noise_multiplier=3.0),)))
    each = [renyi(part, ANY, alone) for part in event.parts]
    assert renyi([event], ANY, alone) == pytest.approx(np.max(each, axis=0))
    assert not np.allclose(each[0], each[1])


def test_too_many_different_parts_are_refused_and_like_ones_are_not():
    alike = Parallel(parts=((PureDP(epsilon=1.0),),) * 2 * MOST_SEQUENCES)
    assert compose([alike], ANY, DELTA).epsilon == 1.0
    many = tuple((PureDP(epsilon=i / 1e3),) for i in range(MOST_SEQUENCES + 1))
    with pytest.raises(Refusal, match="256"):
        compose([Parallel(parts=many)], ANY, DELTA)


# ------------------------------------------------------------------------------------ what it holds


@pytest.mark.parametrize(
    "inner",
    [
        NonPrivate(reason="r"),
        Parallel(parts=((),)),
        Repeated(count=2, event=Parallel(parts=((),))),
    ],
)
def test_parts_hold_neither_parts_nor_unprotected_use(inner):
    with pytest.raises(ValidationError, match=r"parts of parts|'non-private'"):
        Parallel(parts=((inner,),))


def test_parts_of_different_notions_do_not_compose():
    parts = ((PureDP(epsilon=1.0),), (MetricPrivacy(epsilon=1.0, metric="euclidean"),))
    with pytest.raises(Refusal, match=r"parts.*: dp, metric-dp"):
        compose([Parallel(parts=parts)], ANY, DELTA)


@pytest.mark.parametrize(
    ("unit", "event", "reason"),
    [
        ("user-entity", Parallel(parts=((PureDP(epsilon=1.0),),)), "several parts may mention"),
        ("entity", Parallel(parts=((PureDP(epsilon=1.0),),)), "several parts may mention"),
        ("user", Parallel(parts=((UserEntityGaussian(rate=0.1, noise_multiplier=1.0, users=9),),)),
         "user-entity"),
    ],
)  # fmt: skip
def test_units_that_parts_cannot_speak_of_are_refused(unit, event, reason):
    (guarantee, *rest) = proven([PrivacyEvent(unit=unit, event=event)], delta=DELTA)
    assert (guarantee.status, guarantee.epsilon, rest) == ("refused", math.inf, [])
    assert reason in guarantee.reason


def test_a_sentence_tells_of_like_parts_once_and_of_few():
    parts = ((Gaussian(noise_multiplier=2.0),), (Gaussian(noise_multiplier=2.0),), ())
    sentence = Parallel(parts=parts).text("user")
    assert sentence.startswith("each user is in one of 3 parts of the data; in 2 of them: a sum")
    assert sentence.endswith("in 1 of them: nothing")
    many = Parallel(parts=tuple((PureDP(epsilon=i),) for i in range(1000))).text("user")
    assert "992" in many
    assert len(many) < 1000


def test_an_unknown_event_in_a_part_proves_nothing():
    text = {"kind": "parallel", "parts": [[{"kind": "pure-dp", "epsilon": 1}], [{"kind": "odd"}]]}
    event = PrivacyEvent.model_validate({"unit": "user", "event": text})
    (guarantee,) = proven([event], delta=DELTA)
    assert guarantee.status == "refused"
    assert "kind 'odd'" in guarantee.reason
    assert json.loads(event.model_dump_json())["event"]["parts"][1] == [{"kind": "odd"}]


def test_parts_that_a_quick_bound_rules_out_are_not_looked_at_closely(monkeypatch):
    """Clients of many sizes: the worst is the same, and most are never composed."""
    sizes = (2000, 400, 900, 300, 1500, 260, 700)
    parts = tuple((rounds(8 / size, 1.0, size // 8),) for size in sizes)
    alone = [compose(part, ANY, DELTA).epsilon for part in parts]
    bounds = [quick_bound([one_and_count(part[0])], ANY, DELTA) for part in parts]
    assert all(bound >= epsilon for bound, epsilon in zip(bounds, alone, strict=True))
    looked, close = [], composing._in_sequence
    monkeypatch.setattr(
        composing, "_in_sequence", lambda *args: looked.append(args[0]) or close(*args)
    )
    assert compose([Parallel(parts=parts)], ANY, DELTA).epsilon == max(alone)
    assert len(looked) < len(parts)
