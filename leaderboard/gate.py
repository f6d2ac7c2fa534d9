"""A gate: rows of results against thresholds that a project sets itself."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from uedp_bench.accounting.event_contract import COMPUTATION
from uedp_bench.components import registry
from uedp_bench.components.metric import Better, Metric
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.errors import InputError, UnknownNameError, plain
from uedp_bench.io.files import read_text
from uedp_bench.io.yaml_files import MOST_BYTES, load_yaml
from uedp_bench.leaderboard.boards import labels
from uedp_bench.leaderboard.rows import Row, Stat, aggregate

Status = Literal["passes", "fails", "not measured"]

CLAIMS = "claims that an attack refuted"
FAILURES = "runs and attacks that failed"
"""Names of the checks that every gate has."""

PACKED = "none is known: bundles leave failed runs out, and the folder of the runs has them"
"""Sentence on failed runs where results were read from a bundle."""


def _no_truth_value(value: object) -> object:
    """The value, unless it is true or false, which would count as 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("is true or false; give a number")
    return value


Limit = Annotated[float, BeforeValidator(_no_truth_value), Field(allow_inf_nan=False)]


class Thresholds(BaseModel):
    """Limits of a gate, by the name of a quantity.

    Attributes:
        max, min: largest and smallest values allowed. A name is a metric of the task
            (`utility.accuracy`), of an attack (`secret-sharer.exposure_mean`), the epsilon of a
            guarantee (`proven.user`, `claimed.record`), or a lower bound at the run's delta:
            `audited.user` at the attack's confidence, conditions allowed, `strict.user` at
            1 - 1e-6 without any; or `delta`, that of the run. The part before the dot may be left
            out where one quantity alone ends so, and the unit always: the worst one of a row
            counts.
        mechanisms: rows that are judged, by the names of their mechanisms; all where empty.
        interval: True to judge the worse end of each 95 % interval in place of the value.
        refuted: True to let rows pass whose claims are refuted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    max: dict[str, Limit] = {}
    min: dict[str, Limit] = {}
    mechanisms: tuple[str, ...] = Field(default=())
    interval: bool = False
    refuted: bool = False


def read_thresholds(file: Path) -> Thresholds:
    """Thresholds of a YAML file.

    Raises:
        InputError: if it cannot be read, or a field is wrong.
    """
    text = read_text(file, "--thresholds", MOST_BYTES)
    try:
        data = load_yaml(text)
    except InputError as error:
        raise InputError(f"--thresholds {file}: {error}") from None
    try:
        return Thresholds.model_validate({} if data is None else data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        what = first["msg"] if first["loc"] else "it is no mapping"
        allowed = ", ".join(Thresholds.model_fields)
        raise InputError(f"--thresholds {file}: {where}: {what}; fields are {allowed}") from None


@dataclass(frozen=True)
class Check:
    """One threshold at one row.

    Attributes:
        row: name of the row.
        runs: ids of its runs.
        quantity: name of the threshold.
        limit: "max" or "min", and the value; empty for refuted claims.
        value: what was judged; None where nothing was measured.
        status: verdict.
        reason: sentence for readers.
    """

    row: str
    runs: tuple[str, ...]
    quantity: str
    limit: str
    value: float | None
    status: Status
    reason: str


DELTA = "delta"
"""Name of the delta of the runs."""

KINDS = ("proven", "claimed", "stated", "audited", "strict")
"""First parts of the names of guarantees and lower bounds."""


@dataclass(frozen=True)
class _Quantity:
    """A number of a row, its mean over seeds with the interval, or its worst over seeds."""

    stat: Stat
    metric: Metric


def check_names(runs: Sequence[RunSpec], thresholds: Thresholds) -> None:
    """Refuse names that no run of a spec can have, before anything is trained.

    Components that declare no metrics may measure anything.

    Raises:
        InputError: if there is no threshold, no run has a mechanism of a name, or no component
            declares a metric of a name.
    """
    _check_limits(thresholds)
    _check_mechanisms(runs, thresholds.mechanisms)
    declared = {"utility": registry.tasks.get(runs[0].task.name).metrics}
    declared |= {
        ref.name: registry.attacks.get(ref.name).metrics for run in runs for ref in run.attacks
    }
    if not all(declared.values()):
        return
    metrics = [(kind, metric) for kind, each in declared.items() for metric in each]
    words = {*KINDS, DELTA, *(metric.name for _, metric in metrics)}
    for name in (*thresholds.max, *thresholds.min):
        kind, _, own = name.partition(".")
        if kind in (*KINDS, DELTA):
            continue
        meant = [
            metric
            for attack, metric in metrics
            if metric.reads(name) or (kind == attack and metric.reads(own))
        ]
        if not meant:
            raise UnknownNameError("quantity of this spec", name, words)
        _check_ranges(name, thresholds, meant)


def _check_ranges(name: str, thresholds: Thresholds, meant: Sequence[Metric]) -> None:
    """Refuse a limit that is outside of the range of all metrics of a name: it decides nothing."""
    for kind, limits in (("max", thresholds.max), ("min", thresholds.min)):
        limit = limits.get(name)
        if limit is not None and not any(one.low <= limit <= one.high for one in meant):
            low, high = meant[0].low, meant[0].high
            hint = f"; tables show it in %: {limit:g} % is {limit / 100:g}" * meant[0].percent
            raise InputError(f"{kind} {name}: {limit:g} is not from {low:g} to {high:g}{hint}")


def _check_limits(thresholds: Thresholds) -> None:
    if not thresholds.max and not thresholds.min:
        raise InputError("no threshold: give --max, --min, or --thresholds FILE with max or min")


def _check_mechanisms(specs: Iterable[RunSpec], mechanisms: Iterable[str]) -> None:
    names = {name for spec in specs for name in (spec.label, *(p.name for p in spec.mechanism))}
    for name in mechanisms:
        if name not in names:
            raise UnknownNameError("mechanism of these results", name, names)


def judge(
    results: Sequence[Result], thresholds: Thresholds, *, packed: bool = False
) -> list[Check]:
    """All checks of all rows, in the order of the rows.

    What was not measured in every seed does not pass, and no row does of which a run or an attack
    failed.

    Args:
        results: finished and failed runs.
        thresholds: limits of the project.
        packed: True for results of a bundle, which holds no failed runs.

    Raises:
        InputError: if there is no threshold, no row has a mechanism or a quantity of a name, a name
            means several, or a limit stands on the wrong side.
    """
    _check_limits(thresholds)
    by_id = {result.id: result for result in results}
    judged = with_mechanisms(aggregate(results), thresholds.mechanisms)
    quantities = [_quantities(row, [by_id[run.id] for run in row.runs]) for row in judged]
    names = list(dict.fromkeys(name for each in quantities for name in each))
    meanings = {}
    for kind, limits in (("max", thresholds.max), ("min", thresholds.min)):
        for name in limits:
            meanings[name] = _meanings(name, names)
            wrong: Better = "higher" if kind == "max" else "lower"
            matches = [each[one] for each in quantities for one in meanings[name] if one in each]
            if all(quantity.metric.better == wrong for quantity in matches):
                right = "min" if kind == "max" else "max"
                raise InputError(f"{kind} {name}: {wrong} is better; give {right} {name}")
            _check_ranges(name, thresholds, [quantity.metric for quantity in matches])
    checks = [
        check
        for row, title, each in zip(judged, labels(judged), quantities, strict=True)
        for check in _checks(row, title, each, thresholds, meanings)
    ]
    unseen = {(FAILURES, "passes")} if packed else set()
    return [
        replace(check, reason=PACKED) if (check.quantity, check.status) in unseen else check
        for check in checks
    ]


def with_mechanisms(rows: Sequence[Row], mechanisms: Sequence[str]) -> list[Row]:
    """Rows that have one of the mechanisms; all where none is named.

    Raises:
        UnknownNameError: if no row has one of them.
    """
    _check_mechanisms((row.spec for row in rows), mechanisms)
    wanted = set(mechanisms)
    return [
        row
        for row in rows
        if not wanted or wanted & {row.label, *(part.name for part in row.spec.mechanism)}
    ]


def _quantities(row: Row, results: Sequence[Result]) -> dict[str, _Quantity]:
    """Quantities of a row by their full names."""
    quantities = {
        f"utility.{name}": _Quantity(stat, row.metrics.metric("utility", name))
        for name, stat in row.utility.items()
    }
    for attack, stats in row.leakage.items():
        for name, stat in stats.items():
            if attack not in (*KINDS, "utility"):
                metric = row.metrics.metric("leakage", name, attack)
                quantities[f"{attack}.{name}"] = _Quantity(stat, metric)
    by_name: dict[str, list[float]] = {}
    for result in results:
        for name, value in _worst(result).items():
            by_name.setdefault(name, []).append(value)
    for name, values in by_name.items():
        largest = max(values)
        stat = Stat(value=largest, low=largest, high=largest, n=len(values))
        quantities[name] = _Quantity(stat, Metric(name, better="lower"))
    return quantities


def _worst(result: Result) -> dict[str, float]:
    """Delta of a run, and its largest epsilon by kind and unit: guarantees of DP, and bounds.

    A bound at a larger delta than the run's holds at the run's too, and a guarantee does not.
    """
    numbers = [(DELTA, result.spec.delta)]
    numbers += [
        (f"{g.kind}.{g.unit}", g.epsilon if g.delta <= result.spec.delta else math.inf)
        for g in result.guarantees
        if g.notion in ("dp", "none") and g.unit != COMPUTATION
    ]
    for bound in result.lower_bounds:
        if bound.delta >= result.spec.delta:
            numbers.append((f"audited.{bound.unit}", bound.epsilon))
            if bound.strict_epsilon is not None and not bound.assumptions:
                numbers.append((f"strict.{bound.unit}", bound.strict_epsilon))
    return dict(sorted(numbers, key=itemgetter(1)))  # the largest of a name stays


def _meanings(name: str, names: Sequence[str]) -> list[str]:
    """Full names that a name means: itself, all units of a kind, or the one that ends so.

    Raises:
        InputError: if none does, or several.
    """
    if name in names:
        return [name]
    if units := [full for full in names if name in KINDS and full.partition(".")[0] == name]:
        return units
    whole = [full for full in names if full.partition(".")[2] == name]
    if len(whole) > 1:
        raise InputError(f"{name} may be {' or '.join(whole)}; give one of them")
    if not whole:
        words = {*names}
        for full in names:
            kind, _, own = full.partition(".")
            words |= {kind, own} if kind in KINDS else {own or kind}
        raise UnknownNameError("quantity of these results", name, words)
    return whole


def _checks(
    row: Row,
    name: str,
    quantities: Mapping[str, _Quantity],
    thresholds: Thresholds,
    meanings: Mapping[str, Sequence[str]],
) -> Iterator[Check]:
    runs = tuple(run.id for run in row.runs)
    failures = [f"seed {run.seed}: {run.error}" for run in row.runs if run.status == "failed"]
    failures += [f"{each.name}: {each.reason}" for each in row.failed_attacks]
    listed = {FAILURES: (failures, "none failed")}
    if not thresholds.refuted:
        reasons = [g.reason for g in row.guarantees if g.status == "refuted"]
        listed[CLAIMS] = reasons, "none is refuted"
    for quantity, (wrong, none) in listed.items():
        status: Status = "fails" if wrong else "passes"
        yield Check(name, runs, quantity, "", float(len(wrong)), status, "; ".join(wrong) or none)
    for kind, limits in (("max", thresholds.max), ("min", thresholds.min)):
        for quantity, limit in limits.items():
            stats = [quantities[one].stat for one in meanings[quantity] if one in quantities]
            values = [
                _value(stat, kind, thresholds.interval) if stat.n >= len(row.runs) else None
                for stat in stats
            ]
            yield _check(name, runs, (quantity, kind, limit), values, _unmeasured(row, quantity))


def _value(stat: Stat, kind: str, interval: bool) -> float | None:
    """The number that is judged; None where the end of an interval is wanted and unknown."""
    if not interval:
        return stat.value
    return stat.high if kind == "max" else stat.low


def _check(
    row: str,
    runs: tuple[str, ...],
    threshold: tuple[str, str, float],
    values: Sequence[float | None],
    unmeasured: str,
) -> Check:
    quantity, kind, limit = threshold
    shown = f"{kind} {limit:g}"
    numbers = [value for value in values if value is not None]
    if not values or len(numbers) < len(values):
        reason = unmeasured if not values else "not of every seed, or one seed without an interval"
        return Check(row, runs, quantity, shown, None, "not measured", reason)
    worst = max(numbers) if kind == "max" else min(numbers)
    passes = worst <= limit if kind == "max" else worst >= limit
    sign = ("is at most" if passes else "exceeds") if kind == "max" else (
        "is at least" if passes else "is below")  # fmt: skip
    reason = f"{worst:.4g} {sign} {limit:g}"
    return Check(row, runs, quantity, shown, worst, "passes" if passes else "fails", reason)


def _unmeasured(row: Row, quantity: str) -> str:
    attack = quantity.partition(".")[0]
    reasons = {each.name: each.reason for each in row.skipped_attacks}
    reasons |= {each.name: each.reason for each in row.failed_attacks}
    if attack in reasons:
        return f"{attack}: {reasons[attack]}"
    failed = next((run.error for run in row.runs if run.error), "")
    return failed or "these runs have no such number"


def junit(checks: Sequence[Check]) -> str:
    """The checks as JUnit XML: a test case each, in a suite a row."""
    suites = ET.Element("testsuites", name="uedp-bench gate")
    for row in dict.fromkeys(check.row for check in checks):
        own = [check for check in checks if check.row == row]
        bad = sum(check.status != "passes" for check in own)
        name = plain(row)  # XML has no place for control characters
        suite = ET.SubElement(
            suites, "testsuite", name=name, tests=str(len(own)), failures=str(bad), errors="0"
        )
        for check in own:
            title = plain(f"{check.quantity} {check.limit}".strip())
            case = ET.SubElement(suite, "testcase", classname=name, name=title)
            if check.status != "passes":
                ET.SubElement(case, "failure", message=plain(check.reason), type=check.status)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def github_lines(checks: Sequence[Check]) -> list[str]:
    """Lines that GitHub Actions shows beside a run: one for each check that does not pass."""

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def title(check: Check) -> str:  # of a property alone, colons and commas are escaped too
        text = escaped(f"{check.row} {check.quantity} {check.limit}".strip())
        return text.replace(":", "%3A").replace(",", "%2C")

    return [
        f"::error title={title(check)}::{escaped(check.reason)}"
        for check in checks
        if check.status != "passes"
    ]
