"""Epsilon of events that are known by their promises alone: epsilons and deltas add up.

Pure and approximate guarantees compose by adding up (Dwork et al. 2006), k changed elements by
group privacy, an exponential ratio at a time. Nothing is sampled here, so nothing better is known
without looking inside the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uedp_bench.accounting.event_contract import AccountantTable, Adjacency, Event, Notion, Promise
from uedp_bench.accounting.events import ApproximateDP, LaplaceVector, MetricPrivacy, PureDP
from uedp_bench.accounting.guarantee import Refusal, Rounds
from uedp_bench.accounting.protocol_events import NoisyHistogram, SecureComputation, seen_alone


def dropout_epsilon(epsilon: float, dropout: float) -> float:
    """ln((1 - mu) e^epsilon + mu): the element that neighbours differ in is dropped with rate mu.

    Let a, b and c be the densities at one output of the element dropped, and of the two
    neighbours. Each is within e^epsilon of the others, for dropping is a change too. Then
    (mu a + (1 - mu) b) / (mu a + (1 - mu) c) is largest at b = e^epsilon c and the smallest a
    that these allow, a = c, where it is (1 - mu) e^epsilon + mu.

    Args:
        epsilon: without dropout.
        dropout: mu, in [0, 1].
    """
    if dropout == 0.0:
        return epsilon
    if dropout == 1.0:
        return 0.0
    if epsilon < 1.0:
        return math.log1p((1.0 - dropout) * math.expm1(epsilon))
    return epsilon + math.log((1.0 - dropout) + dropout * math.exp(-epsilon))


def before_dropout(epsilon: float, dropout: float) -> float:
    """The inverse of `dropout_epsilon`: what may be spent without dropout to have this with it.

    Args:
        epsilon: with dropout, at least 0.
        dropout: mu, in [0, 1).
    """
    if dropout == 0.0:
        return epsilon
    if epsilon < 1.0:
        return math.log1p(math.expm1(epsilon) / (1.0 - dropout))
    return epsilon + math.log1p(-dropout * math.exp(-epsilon)) - math.log1p(-dropout)


@AccountantTable
def promises(event: Event, adjacency: Adjacency) -> Promise | None:
    """Promise of an event, known without looking inside: the third currency, which adds up.

    An event that makes a promise composes by sums, or by its pairs (the worst that the promise
    allows, where it has none of its own), whichever is less.
    """
    return None


@promises.register(PureDP)
def _pure(event: PureDP, adjacency: Adjacency) -> Promise:
    return Promise(event.epsilon)


@promises.register(ApproximateDP)
def _approximate(event: ApproximateDP, adjacency: Adjacency) -> Promise:
    """Promise for all elements that change at once."""
    delta = group_delta(event.epsilon, event.delta, event.group)
    return Promise(event.group * event.epsilon, delta)


@promises.register(LaplaceVector)
def _laplace(event: LaplaceVector, adjacency: Adjacency) -> Promise:
    """Epsilon of the whole vector, after dropout."""
    return Promise(dropout_epsilon(event.sensitivity / event.scale, event.dropout))


@promises.register(MetricPrivacy)
def _metric(event: MetricPrivacy, adjacency: Adjacency) -> Promise:
    """Epsilon for one unit of distance."""
    return Promise(event.epsilon)


@promises.register(NoisyHistogram)
def _histogram(event: NoisyHistogram, adjacency: Adjacency) -> Promise:
    """Epsilon of shared counts, and delta of words that only the unit has.

    A unit that is replaced is removed and added: both double.
    """
    changes = 2 if adjacency == "replace-one" else 1
    unseen = changes * seen_alone(event.scale, event.words, event.threshold)
    return Promise(changes * event.words / event.scale, min(unseen, 1.0))


@promises.register(SecureComputation)
def _simulation(event: SecureComputation, adjacency: Adjacency) -> Promise:
    """Epsilon 0 in the sense of simulation; the failure is delta."""
    return Promise(0.0, event.failure)


def basic_epsilon(rounds: Rounds, adjacency: Adjacency, delta: float) -> tuple[float, str, float]:
    """Epsilon of all events together.

    Args:
        rounds: events that make promises, each with the number of times it happens.
        adjacency: how neighbouring data sets differ.
        delta: the largest that is allowed.

    Returns:
        epsilon in nats (of metric privacy: per unit of distance), infinite where the events' own
        deltas add up to more than is allowed; the accountant, by the notion of the events; the
        delta that was used up, 0 for pure and for metric privacy.

    Raises:
        Refusal: if metric privacy is to compose with anything but the same metric, a simulation
            with anything else, or an event promises what no mechanism can.
    """
    active = [(event, count) for event, count in rounds if count > 0]
    notions = {event.notion for event, _ in active}
    if "metric-dp" in notions:
        _check_metric([event for event, _ in active])
    elif len(notions) > 1:
        raise Refusal(f"events of different notions do not compose: {', '.join(sorted(notions))}")
    simulated = notions == {"simulation"}
    costs = [(*_promised(event, adjacency), count) for event, count in active]
    epsilon = math.fsum(count * cost for cost, _, count in costs)
    used = math.fsum(count * own for _, own, count in costs)
    # The sum of equal parts may exceed its own target by rounding. A simulation's failure is no
    # delta of differential privacy: it is stated, whatever delta is asked for.
    if used >= 1.0 if simulated else used > delta * (1.0 + 1e-12):
        epsilon = math.inf
    return epsilon, _NAMES[notions.pop() if notions else "dp"], min(used, 1.0)


_NAMES: dict[Notion, str] = {"dp": "basic", "metric-dp": "metric", "simulation": "simulation"}


def basic_reason(rounds: Rounds, adjacency: Adjacency, delta: float) -> str:
    """Reason why `basic_epsilon` is infinite; empty if it is not."""
    epsilon, _, used = basic_epsilon(rounds, adjacency, delta)
    if math.isfinite(epsilon):
        return ""
    if used > delta:
        return f"the deltas of the events add up to {used:.3g}, more than the allowed {delta:g}"
    return "an event has infinite epsilon"


def _promised(event: Event, adjacency: Adjacency) -> Promise:
    promise = promises(event, adjacency)
    if promise is None:
        raise Refusal(f"{event.kind} promises nothing under {adjacency}")
    if event.notion == "simulation" and promise.epsilon > 0.0:
        raise Refusal(
            f"{event.kind} promises epsilon {promise.epsilon:g}, and a simulation has none"
        )
    if not (promise.epsilon >= 0.0 and 0.0 <= promise.delta <= 1.0):
        raise Refusal(
            f"{event.kind} promises ({promise.epsilon:g}, {promise.delta:g}): out of range"
        )
    return promise


def group_delta(epsilon: float, delta: float, group: int) -> float:
    """Delta of `group` changed elements: delta (e^(k epsilon) - 1) / (e^epsilon - 1), at most 1.

    The sum of a geometric series, so k delta at epsilon 0; logarithms keep it from overflowing.
    """
    if delta == 0.0:
        return 0.0
    if group == 1 or epsilon == 0.0:
        return min(1.0, group * delta)
    if math.isinf(epsilon):
        return 1.0
    log_sum = _log_expm1(group * epsilon) - _log_expm1(epsilon)
    return math.exp(min(0.0, math.log(delta) + log_sum))


def _check_metric(events: Sequence[Event]) -> None:
    for event in events:
        if event.notion != "metric-dp":
            raise Refusal(
                f"metric privacy does not compose with {event.kind}: its epsilon has a distance"
            )
    metrics = sorted({str(getattr(event, "metric", event.kind)) for event in events})
    if len(metrics) > 1:
        raise Refusal(f"metric privacy in different metrics does not compose: {metrics}")


def _log_expm1(x: float) -> float:
    """ln(e^x - 1) for x > 0, without overflow."""
    return x + math.log(-math.expm1(-x)) if x > 1.0 else math.log(math.expm1(x))
