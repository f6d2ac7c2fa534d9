"""Ranges of all numbers, and agreement of the parts of a result."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from uedp_bench.accounting.event_contract import COMPUTATION
from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import UNPROTECTED, Estimate, Result
from uedp_bench.contracts.task import PUBLIC_ONLY, has_learned
from uedp_bench.leaderboard.installed import result_metrics
from uedp_bench.leaderboard.rows import fingerprint
from uedp_bench.leaderboard.validation.components import components
from uedp_bench.leaderboard.validation.identity import task_version
from uedp_bench.leaderboard.validation.publishing import PLACE
from uedp_bench.leaderboard.validation.report import (
    Problem,
    error,
    note,
    place,
    shown,
    texts_within,
)
from uedp_bench.one_run.stored_run import names_place
from uedp_bench.statistics.intervals import areas

SLACK = 1e-9
"""Sums of floats may leave a range by this much."""

_EXACT_INTERVALS = ("tpr_at_", "extracted_", "unknown")
"""Metrics with exact binomial intervals, which hold the value; those of a bootstrap may not."""

_WORDS = ("device", "clipping")
"""Entries of the cost that say how something was computed, in words."""


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
        if name in _WORDS and isinstance(value, str):
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
        if name.startswith(_EXACT_INTERVALS):
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
        where: place of the curve.
        points: points in the file.
        beside: AUC of the curve, a number or an estimate; anything else is none.
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


_ORDERED = (("tpr_at_0.1pct_fpr", "tpr_at_1pct_fpr"), ("recall_at_1", "recall_at_10"))
"""Metrics of one attack of which the second is never smaller."""


def check_consistency(result: Result) -> Iterator[Problem]:
    """Problems where one part of a result contradicts another."""
    yield from _status(result)
    yield from _attacks(result)
    yield from _stages(result)
    yield from _learned(result)
    for metrics in result.leakage.items():
        yield from _growing(*metrics)
    accuracy, wrong = result.utility.get("accuracy"), result.utility.get("error")
    if accuracy and wrong and abs(accuracy.value + wrong.value - 1.0) > SLACK:
        what = f"{shown(accuracy.value)} and error {shown(wrong.value)} do not add up to 1"
        yield error("utility.accuracy.value", what)


def _status(result: Result) -> Iterator[Problem]:
    if result.status == "failed":
        if result.error is None:
            yield error("error", "is missing: a failed run says why it failed")
        for name in ("utility", "leakage", "guarantees", "lower_bounds", "events"):
            if getattr(result, name):
                yield error(name, "is not empty: a failed run measured nothing")
        return
    if result.error is not None:
        yield error("error", "is there: a finished run has none")
    task = components(result.spec)[0].component
    if task is not None and task_version(result) in (None, task.version):
        optional = getattr(task, "optional", ())
        for name in (one.name for one in task.metrics if "*" not in one.name):
            if name not in result.utility and name not in optional:
                yield error(f"utility.{name}", f"is missing: {result.spec.task.name} declares it")
    if not result.utility:
        yield error("utility", "is empty: a finished run has utility")


def _learned(result: Result) -> Iterator[Problem]:
    """Problems where `learned` is not what the headline's interval and the floors say."""
    headline = result.headline
    if headline is None:
        if result.learned is not None or result.floors:
            yield error("headline", "is missing: floors are values of it")
        return
    estimate = result.utility.get(headline.metric)
    if estimate is None:
        yield error("headline.metric", f"{shown(headline.metric)} is not in utility")
        return
    says = has_learned(estimate, result.floors.values(), headline.larger_is_better)
    # Schema version 1 does not say where the model saw public text.
    unknown = says and result.learned is None and PUBLIC_ONLY not in result.floors
    if result.learned is not says and not unknown:
        what = f"{shown(result.learned)} is not what the interval and the floors say: {shown(says)}"
        yield error("learned", what)


def _attacks(result: Result) -> Iterator[Problem]:
    if result.status == "failed":
        return
    names = [ref.name for ref in result.spec.attacks]
    skipped = [attack.name for attack in result.skipped_attacks]
    failures = [attack.name for attack in result.failed_attacks]
    for at, name in enumerate(names):
        if name in names[:at]:
            yield error(f"spec.attacks.{at}", f"{shown(name)} is there twice")
        if name not in (*result.leakage, *skipped, *failures):
            why = "is missing: the attack neither ran nor was skipped, and did not fail"
            yield error(f"leakage.{name}", why)
    without = {"skipped_attacks": skipped, "failed_attacks": failures}
    for name in result.leakage:
        if name not in names:
            yield error(f"leakage.{name}", "is of no attack of the spec")
        elif field := next((field for field, listed in without.items() if name in listed), None):
            yield error(f"leakage.{name}", f"is there, and the attack is in {field}")
    for field, listed in without.items():
        for at, name in enumerate(listed):
            if name not in names:
                yield error(f"{field}.{at}", f"{shown(name)} is no attack of the spec")
            elif name in listed[:at]:
                yield error(f"{field}.{at}", f"{shown(name)} is there twice")
    for at, name in enumerate(failures):
        if name in skipped:
            yield error(f"failed_attacks.{at}", f"{shown(name)} is in skipped_attacks, too")
        yield note(f"failed_attacks.{at}", f"{shown(name)} says nothing about leakage: it failed")
    for name in result.details:
        if name not in result.leakage and name != result.spec.task.name:
            yield error(f"details.{name}", "is of no attack that ran, and not of the task")
    for at, bound in enumerate(result.lower_bounds):
        if bound.attack not in result.leakage:
            yield error(f"lower_bounds.{at}.attack", f"{shown(bound.attack)} is no attack that ran")


def _stages(result: Result) -> Iterator[Problem]:
    """Events are emitted by mechanisms of the spec, or by what trains where none of them does."""
    names = {ref.name for ref in result.spec.mechanism} | {UNPROTECTED}
    silent = False
    for at, event in enumerate(result.events):
        silent |= not event.stage
        if event.stage and re.sub(r" [1-9]\d*$", "", event.stage) not in names:
            listed = ", ".join(sorted(names))
            what = f"{shown(event.stage)} is no mechanism of the spec: {listed}"
            yield error(f"events.{at}.stage", what)
    if silent:
        yield note(
            "events", "name no stage, as those of older versions: not checked whose they are"
        )


def _growing(attack: str, metrics: Mapping[str, Estimate]) -> Iterator[Problem]:
    for less, more in _ORDERED:
        low, high = metrics.get(less), metrics.get(more)
        if low and high and low.value > high.value + SLACK:
            what = f"{shown(low.value)} is above {more}, {shown(high.value)}"
            yield error(f"leakage.{attack}.{less}.value", what)


# ---------------------------------------------------------------------------- provenance


def check_provenance(result: Result) -> Iterator[Problem]:
    """Problems with what a result says of where it comes from."""
    provenance = result.provenance
    for name in ("package", "python", "created"):
        if not isinstance(provenance.get(name), str) or not provenance[name]:
            yield error(f"provenance.{name}", f"{shown(provenance.get(name))}: it must be a text")
    if "commit" not in provenance:
        yield error("provenance.commit", "is missing")
    elif provenance["commit"] is None:
        yield note("provenance.commit", "is null: nobody can tell which code made this result")
    elif not isinstance(provenance["commit"], str) or not re.fullmatch(
        r"[0-9a-f]{40}", provenance["commit"]
    ):
        yield error(
            "provenance.commit", f"{shown(provenance['commit'])} is no commit: 40 of 0-9 and a-f"
        )
    if result.status == "finished" and not fingerprint(result):
        yield error("provenance.corpus.fingerprint", "is missing: nobody can tell the corpus")
    yield from _created(provenance.get("created"))
    yield from _private(result)


def _created(value: Any) -> Iterator[Problem]:
    if not isinstance(value, str):
        return
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        yield error("provenance.created", f"{shown(value)} is no time as 2026-01-31T12:00:00+00:00")
        return
    if at.tzinfo is None:
        yield error("provenance.created", f"{shown(value)} has no time zone: give it in UTC")
    elif at > datetime.now(UTC) + timedelta(days=1):
        yield error("provenance.created", f"{shown(value)} is in the future")


_HOME = re.compile(r"/(home|Users|root|mnt|media)/|[A-Za-z]:\\|file://")


def _private(result: Result) -> Iterator[Problem]:
    """Notes where it says more of the submitter's machine than others need."""
    if result.tracking:
        yield note("tracking", "names a MLflow store: make it {} before you publish the file")
    for named in components(result.spec):
        for name, value in named.ref.params.items():
            if names_place(value):
                what = f"{shown(value)} names a place on your machine: a relative path says enough"
                yield note(f"{named.where}.params.{name}", what)
    for where, text in texts_within(result.model_dump(exclude={"spec", "tracking"})):
        if _HOME.search(text) or PLACE.search(text):
            what = f"{shown(text)} names a place on your machine: read it before you publish"
            yield note(place(where), what)
