"""Numbers that no honest run can give."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from uedp_bench.accounting.event_contract import COMPUTATION
from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import Estimate, Result
from uedp_bench.leaderboard.result_metrics import result_metrics
from uedp_bench.leaderboard.validation.report import Problem, error, note, shown
from uedp_bench.statistics.roc import areas

SLACK = 1e-9
"""Sums of floats may leave a range by this much."""

EXACT_INTERVALS = ("tpr_at_", "extracted_", "unknown")
"""Metrics with exact binomial intervals, which hold the value; those of a bootstrap may not."""

WORDS = ("device", "clipping")
"""Entries of the cost that say how something was computed, in words."""

DIFFERENCES = ("fairness_gap_",)
"""Metrics that are sizes of differences, whose intervals reach to the other sign."""


def check_ranges(result: Result) -> Iterator[Problem]:
    """Problems where a number of a result is out of its range."""
    # A file may declare wider limits than the component has.
    declarations = result_metrics(result, installed=True)
    for name, estimate in result.utility.items():
        metric = declarations.metric("utility", name)
        bounds = metric.low, metric.high
        yield from _estimate(f"utility.{name}", name, estimate, bounds)
    for attack, metrics in result.leakage.items():
        for name, estimate in metrics.items():
            bounds = _bounds(declarations.metric("leakage", name, attack), metrics)
            yield from _estimate(f"leakage.{attack}.{name}", name, estimate, bounds)
    for name, value in result.cost.model_dump().items():
        if name in WORDS and isinstance(value, str):
            continue
        if not (_is_number(value) and 0.0 <= value < math.inf):
            yield error(f"cost.{name}", f"{shown(value)} is no cost: 0 or more, and finite")
    for name, value in result.diagnostics.items():
        metric = declarations.metric("diagnostics", name)
        if _is_number(value) and not metric.low - SLACK <= value <= metric.high + SLACK:
            yield error(f"diagnostics.{name}", _outside(value, metric.low, metric.high))
    yield from _series(result)
    yield from _guarantees(result)
    for at, bound in enumerate(result.lower_bounds):
        if bound.unit == COMPUTATION:
            what = "no attack bounds an epsilon of computation: it has none"
            yield error(f"lower_bounds.{at}.unit", what)
    yield from check_curves("details", result.details)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---------------------------------------------------------------------------- utility and leakage


def _bounds(metric: Metric, beside: dict[str, Estimate]) -> tuple[float, float]:
    """Smallest and largest value; `beside` are the other metrics of the attack."""
    if not metric.limit_metric or metric.unit != "bits":
        return metric.low, metric.high
    limit = beside.get(metric.limit_metric)
    bits = math.inf if limit is None else limit.value
    # Exposure by rank: the worst of n references has rank n + 1.
    least = -math.log2(1.0 + 2.0**-bits) if bits >= 0.0 else -1.0
    return least, bits


def _outside(value: float, low: float, high: float) -> str:
    if value < low:
        return f"{shown(value)} is below {shown(low)}, the least that is possible"
    return f"{shown(value)} is above {shown(high)}, the most that is possible"


def _estimate(
    where: str, name: str, estimate: Estimate, bounds: tuple[float, float]
) -> Iterator[Problem]:
    for part in ("value", "low", "high"):
        number, (low, high) = getattr(estimate, part), bounds
        if part != "value" and name.startswith(DIFFERENCES):
            low = -high
        if number is not None and not low - SLACK <= number <= high + SLACK:
            yield error(f"{where}.{part}", _outside(number, low, high))
    if (estimate.low is None) != (estimate.high is None):
        missing = "low" if estimate.low is None else "high"
        yield error(f"{where}.{missing}", "is missing: an interval has both ends, or there is none")
    if estimate.low is None or estimate.high is None:
        return
    if estimate.low > estimate.high:
        what = f"{shown(estimate.low)} is above the upper end {shown(estimate.high)}"
        yield error(f"{where}.low", what)
    elif not estimate.low - SLACK <= estimate.value <= estimate.high + SLACK:
        inside = f"[{shown(estimate.low)}, {shown(estimate.high)}]"
        what = f"{shown(estimate.value)} is not in its interval {inside}"
        if name.startswith(EXACT_INTERVALS):
            yield error(f"{where}.value", what)
        else:
            yield note(f"{where}.value", f"{what}, which a bootstrap seldom gives")


# ---------------------------------------------------------------------------- series and curves


def _series(result: Result) -> Iterator[Problem]:
    for name, points in result.series.items():
        steps = [step for step, _ in points]
        for at, (before, after) in enumerate(pairwise(steps), start=1):
            if after <= before:
                yield error(f"series.{name}.{at}", f"step {after} comes after step {before}")
        if steps and steps[0] < 0:
            yield error(f"series.{name}.0", f"step {steps[0]} is below 0")


def check_curves(where: str, details: Any) -> Iterator[Problem]:
    """Problems where a ROC curve in nested details does not fit the AUC beside it."""
    if isinstance(details, list):
        for at, part in enumerate(details):
            yield from check_curves(f"{where}.{at}", part)
    if not isinstance(details, dict):
        return
    for name, value in details.items():
        if isinstance(value, list) and (name == "roc" or name.startswith("roc_")):
            beside = details.get(f"auc{name.removeprefix('roc')}")
            yield from check_roc(f"{where}.{name}", value, beside)
        else:
            yield from check_curves(f"{where}.{name}", value)


def check_roc(where: str, points: list[Any], beside: Any) -> Iterator[Problem]:
    """A ROC curve: (false, true) positive rates from one corner to the other.

    Args:
        where: its place.
        points: points in the file.
        beside: its AUC, a number or an estimate; anything else is none.
    """
    if not points or not all(map(_is_point, points)):
        yield error(where, "is no list of pairs of rates")
        return
    for at, (x, y) in enumerate(points):
        if not (0.0 <= x <= 1.0 and 0.0 <= y <= 1.0):
            yield error(f"{where}.{at}", f"({shown(x)}, {shown(y)}) is no pair of rates in [0, 1]")
            return
    for at in range(1, len(points)):
        if points[at][0] < points[at - 1][0] or points[at][1] < points[at - 1][1]:
            yield error(f"{where}.{at}", "falls: both rates grow along the curve")
            return
    if points[0][0] != 0.0 or list(points[-1]) != [1.0, 1.0]:
        yield error(where, "does not go from a false-positive rate of 0 to the corner (1, 1)")
        return
    auc: Any = beside.get("value") if isinstance(beside, dict) else beside
    if _is_number(auc):
        yield from check_area(where, points, auc)


def check_area(where: str, points: Sequence[Sequence[float]], auc: float) -> Iterator[Problem]:
    """True if an AUC fits the points that are kept of its curve, which grows between them."""
    least, most = areas(points)
    if not least - SLACK <= auc <= most + SLACK:
        area = f"between {shown(least)} and {shown(most)}"
        yield error(where, f"has an area {area}, and the AUC is {shown(auc)}")


def _is_point(point: Any) -> bool:
    return isinstance(point, list) and len(point) == 2 and all(map(_is_number, point))


# ---------------------------------------------------------------------------- guarantees


def _guarantees(result: Result) -> Iterator[Problem]:
    for at, guarantee in enumerate(result.guarantees):
        where = f"guarantees.{at}"
        if guarantee.delta >= 1.0:
            yield error(
                f"{where}.delta", f"{shown(guarantee.delta)} promises nothing: it is below 1"
            )
        finite = math.isfinite(guarantee.epsilon)
        if guarantee.status == "refused" and finite:
            what = f"{shown(guarantee.epsilon)} is refused: epsilon is infinite then"
            yield error(f"{where}.epsilon", what)
        if guarantee.status != "given" and not guarantee.reason:
            yield error(f"{where}.reason", f"is empty: what is {guarantee.status} has a reason")
        if guarantee.status == "refuted" and guarantee.kind == "proven":
            yield error(
                f"{where}.status",
                "'refuted' is for what is claimed or stated: what is proven holds",
            )
        if finite == (guarantee.notion == "none"):
            what = f"{shown(guarantee.notion)} does not fit epsilon {shown(guarantee.epsilon)}"
            yield error(
                f"{where}.notion", f"{what}: 'none' where epsilon is infinite, and only there"
            )
        elif finite and (guarantee.notion == "simulation") != (guarantee.unit == COMPUTATION):
            what = f"{shown(guarantee.notion)} does not fit the unit {guarantee.unit}"
            yield error(
                f"{where}.notion", f"{what}: 'simulation' is of {COMPUTATION}, and it alone"
            )
        if guarantee.notion == "simulation" and guarantee.epsilon != 0.0:
            yield error(
                f"{where}.epsilon", f"{shown(guarantee.epsilon)}: a simulation has none, but 0"
            )
