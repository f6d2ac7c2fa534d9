"""A gate: rows of results against thresholds that a project sets itself."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uedp_bench.components.component import Number
from uedp_bench.components.metric import Better
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.leaderboard.boards import labels
from uedp_bench.leaderboard.rows import Row, Stat

Status = Literal["passes", "fails", "not measured"]

CLAIMS = "claims that an attack refuted"
FAILURES = "runs and attacks that failed"
"""Names of the checks that every gate has."""


class Thresholds(BaseModel):
    """Limits of a gate, by the name of a quantity.

    Attributes:
        max, min: largest and smallest values allowed. A name is a metric of the task (`accuracy`),
            of an attack (`secret-sharer.exposure_user`), a guarantee (`proven.user`,
            `claimed.record`), or a lower bound: `audited.user` at 95 %, conditions allowed,
            `strict.user` at 1 - 1e-6 without any. The part before the dot may be left out where
            one attack alone has the metric, and the unit always: the worst one counts.
        mechanisms: rows that are judged, by the names of their mechanisms; all where empty.
        interval: True to judge the worse end of each 95 % interval in place of the value.
        refuted: True to let rows pass whose claims are refuted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    max: dict[str, Number] = {}
    min: dict[str, Number] = {}
    mechanisms: tuple[str, ...] = Field(default=())
    interval: bool = False
    refuted: bool = False


def read_thresholds(file: Path) -> Thresholds:
    """Thresholds of a YAML file.

    Raises:
        InputError: if it cannot be read, or a field is wrong.
    """
    try:
        data = load_yaml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--thresholds {file}: {error.strerror}") from None
    try:
        return Thresholds.model_validate(data or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        allowed = ", ".join(Thresholds.model_fields)
        raise InputError(
            f"--thresholds {file}: {where}: {first['msg']}; fields are {allowed}"
        ) from None


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


@dataclass(frozen=True)
class _Quantity:
    """A number of a row, its mean over seeds with the interval.

    Attributes:
        kind: kind of a guarantee or a lower bound, whose worst over seeds is certain; else empty.
    """

    stat: Stat
    better: Better | None
    kind: str = ""


def judge(rows: Sequence[Row], thresholds: Thresholds) -> list[Check]:
    """All checks of all rows, in the order of the rows.

    What was not measured does not pass: an attack that was skipped or failed, a guarantee that
    nobody gives, a row without a finished run.

    Raises:
        InputError: if no row has a mechanism or a quantity of this name, or a limit stands on the
            wrong side.
    """
    judged = _rows(rows, thresholds.mechanisms)
    quantities = [_quantities(row) for row in judged]
    names = {name for each in quantities for name in each}
    for kind, limits in (("max", thresholds.max), ("min", thresholds.min)):
        for name in limits:
            matches = [q for each in quantities for q in _matching(name, each)]
            if not matches:
                raise UnknownNameError("quantity of these results", name, _words(names))
            wrong: Better = "higher" if kind == "max" else "lower"
            if all(match.better == wrong for match in matches):
                right = "min" if kind == "max" else "max"
                raise InputError(f"{kind} {name}: {wrong} is better; give {right} {name}")
    titles = labels(judged)
    return [
        check
        for row, name, each in zip(judged, titles, quantities, strict=True)
        for check in _checks(row, name, each, thresholds)
    ]


def _rows(rows: Sequence[Row], mechanisms: Sequence[str]) -> list[Row]:
    names = {part.name for row in rows for part in row.spec.mechanism} | {r.label for r in rows}
    for name in mechanisms:
        if name not in names:
            raise UnknownNameError("mechanism of these results", name, names)
    wanted = set(mechanisms)
    return [
        row
        for row in rows
        if not wanted or wanted & {row.label, *(part.name for part in row.spec.mechanism)}
    ]


def _quantities(row: Row) -> dict[str, _Quantity]:
    """Quantities of a row by their full names."""
    quantities = {
        name: _Quantity(stat, row.metrics.metric("utility", name).better)
        for name, stat in row.utility.items()
    }
    for attack, stats in row.leakage.items():
        for name, stat in stats.items():
            better = row.metrics.metric("leakage", name, attack).better
            quantities[f"{attack}.{name}"] = _Quantity(stat, better)
    numbers: list[tuple[str, str, float]] = [(g.kind, g.unit, g.epsilon) for g in row.guarantees]
    for bound in row.lower_bounds:
        numbers.append(("audited", bound.unit, bound.epsilon))
        if bound.strict_epsilon is not None and not bound.assumptions:
            numbers.append(("strict", bound.unit, bound.strict_epsilon))
    for kind, unit, value in sorted(numbers, key=itemgetter(2)):  # the largest is kept
        stat = Stat(value=value, low=value, high=value, n=len(row.runs))
        quantities[f"{kind}.{unit}"] = _Quantity(stat, "lower", kind)
    return quantities


def _matching(name: str, quantities: Mapping[str, _Quantity]) -> list[_Quantity]:
    """Quantities that a name means: its own, those of all units, or that of one attack.

    Raises:
        InputError: if several attacks have a metric of this name.
    """
    if name in quantities:
        return [quantities[name]]
    if units := [quantity for quantity in quantities.values() if quantity.kind == name]:
        return units
    whole = [full for full in quantities if full.partition(".")[2] == name]
    if len(whole) > 1:
        raise InputError(f"{name} may be {' or '.join(whole)}; give one of them")
    return [quantities[full] for full in whole]


def _words(names: set[str]) -> set[str]:
    """Names that may be given: whole ones, and their parts."""
    return names | {part for name in names if "." in name for part in name.split(".", 1)}


def _checks(
    row: Row, name: str, quantities: Mapping[str, _Quantity], thresholds: Thresholds
) -> Iterator[Check]:
    runs = tuple(run.id for run in row.runs)
    failures = [f"seed {run.seed}: {run.error}" for run in row.runs if run.status == "failed"]
    failures += [f"{each.name}: {each.reason}" for each in row.failed_attacks]
    yield Check(
        name, runs, FAILURES, "", float(len(failures)),
        "fails" if failures else "passes", "; ".join(failures) or "none failed",
    )  # fmt: skip
    if not thresholds.refuted:
        reasons = [g.reason for g in row.guarantees if g.status == "refuted"]
        yield Check(
            name, runs, CLAIMS, "", float(len(reasons)),
            "fails" if reasons else "passes", "; ".join(reasons) or "none is refuted",
        )  # fmt: skip
    for kind, limits in (("max", thresholds.max), ("min", thresholds.min)):
        for quantity, limit in limits.items():
            values = [
                _value(match.stat, kind, thresholds.interval)
                if match.stat.n >= len(row.runs)
                else None
                for match in _matching(quantity, quantities)
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
        suite = ET.SubElement(
            suites, "testsuite", name=row, tests=str(len(own)), failures=str(bad), errors="0"
        )
        for check in own:
            title = f"{check.quantity} {check.limit}".strip()
            case = ET.SubElement(suite, "testcase", classname=row, name=title)
            if check.status != "passes":
                ET.SubElement(case, "failure", message=check.reason, type=check.status)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def github_lines(checks: Sequence[Check]) -> list[str]:
    """Lines that GitHub Actions shows beside a run: one for each check that does not pass."""

    def escaped(text: str) -> str:
        for plain, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), (":", "%3A"), (",", "%2C")):
            text = text.replace(plain, code)
        return text

    return [
        f"::error title={escaped(f'{check.row} {check.quantity} {check.limit}'.strip())}::"
        f"{escaped(check.reason)}"
        for check in checks
        if check.status != "passes"
    ]
