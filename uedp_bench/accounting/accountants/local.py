"""Epsilon of local noise and of mechanisms that are known by their (epsilon, delta) alone.

Plain sums: pure and approximate guarantees compose by adding up (Dwork et al. 2006), k changed
elements by group privacy, an exponential ratio at a time. Nothing is sampled here, so nothing
better is known without looking inside the mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from uedp_bench.accounting.events import ApproximateDP, LaplaceVector, MetricPrivacy, PureDP

LocalEvent = PureDP | ApproximateDP | LaplaceVector | MetricPrivacy

LOCAL = (PureDP, ApproximateDP, LaplaceVector, MetricPrivacy)

SOURCES = {
    "basic": "basic composition and group privacy (Dwork et al. 2006)",
    "metric": "metric differential privacy, per unit of distance (Chatzikokolakis et al. 2013)",
}


def local_epsilon(
    rounds: Sequence[tuple[LocalEvent, int]], delta: float
) -> tuple[float, str, float]:
    """Epsilon of all events together.

    Args:
        rounds: events, each with the number of times it happens.
        delta: the largest that is allowed.

    Returns:
        epsilon in nats (of metric privacy: per unit of distance), infinite where the events' own
        deltas add up to more than is allowed; the accountant, a key of `SOURCES`; the delta that
        was used up, 0 for pure and for metric privacy.

    Raises:
        Refusal: if metric privacy is to compose with anything but the same metric.
    """
    active = [(event, count) for event, count in rounds if count > 0]
    metrics = {event.metric for event, _ in active if isinstance(event, MetricPrivacy)}
    if metrics:
        _check_metric([event for event, _ in active], metrics)
    costs = [(*_cost(event), count) for event, count in active]
    epsilon = math.fsum(count * cost for cost, _, count in costs)
    used = math.fsum(count * own for _, own, count in costs)
    # The sum of equal parts may exceed its own target by rounding.
    if used > delta * (1.0 + 1e-12):
        epsilon = math.inf
    return epsilon, "metric" if metrics else "basic", min(used, 1.0)


def local_reason(rounds: Sequence[tuple[LocalEvent, int]], delta: float) -> str:
    """Why `local_epsilon` is infinite; empty where it is not."""
    epsilon, _, used = local_epsilon(rounds, delta)
    if math.isfinite(epsilon):
        return ""
    if used > delta:
        return f"the deltas of the events add up to {used:.3g}, more than the allowed {delta:g}"
    return "an event has infinite epsilon"


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


def _cost(event: LocalEvent) -> tuple[float, float]:
    """(epsilon, delta) of one event."""
    if isinstance(event, ApproximateDP):
        return event.group * event.epsilon, group_delta(event.epsilon, event.delta, event.group)
    if isinstance(event, LaplaceVector):
        return dropout_epsilon(event.sensitivity / event.scale, event.dropout), 0.0
    return event.epsilon, 0.0


def _check_metric(events: Sequence[LocalEvent], metrics: set[str]) -> None:
    from uedp_bench.accounting.accountants.choice import Refusal

    if len(metrics) > 1:
        raise Refusal(f"metric privacy in different metrics does not compose: {sorted(metrics)}")
    other = next((event.kind for event in events if not isinstance(event, MetricPrivacy)), None)
    if other is not None:
        raise Refusal(f"metric privacy does not compose with {other}: its epsilon has a distance")


def _log_expm1(x: float) -> float:
    """ln(e^x - 1) for x > 0, without overflow."""
    return x + math.log(-math.expm1(-x)) if x > 1.0 else math.log(math.expm1(x))
