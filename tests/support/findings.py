"""Findings: sentences of pages, each with the expression over stored results that makes it true.

`NAME.findings.yaml` below `leaderboard/results` belongs to the results of that name:

    page: docs/bloggers.md
    findings:
      - says: No canary of a protected row is extracted.
        holds: mean("secret-sharer.extracted_beam_search", "user-dp") == 0

An entry may name a page of its own. A metric without a dot is one of utility; `diagnostics.NAME`
and `ATTACK.NAME` are others. A row is named by its mechanisms, joined by " + ", and by parameters
of any of them, of the task or of the source, or is one of `rows()` and of
`ladder(MECHANISM, UNIT)`, which are in the order of epsilon; `of` names other results than those
of the file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from uedp_bench.files.yaml_files import load_yaml
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, Stat, aggregate
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"
ENDING = ".findings.yaml"


@dataclass(frozen=True)
class Finding:
    """A sentence of a page, and the expression that makes it true.

    Attributes:
        results: name of the results that the expression is about.
        page: file of the page, from the root of the checkout.
        says: words of the page.
        holds: expression that is True where the words hold.
    """

    results: str
    page: str
    says: str
    holds: str

    def is_true(self) -> bool:
        """The value of the expression, which is True or False."""
        value = eval(self.holds, {"__builtins__": _BUILTINS, **_names(self.results)})  # noqa: S307
        assert isinstance(value, bool), f"{self.holds} is {value!r}"
        return value


def findings() -> Iterator[Finding]:
    """All stored findings."""
    for file in sorted(RESULTS.rglob(f"*{ENDING}")):
        content: Any = load_yaml(file.read_text("utf-8"))
        name = file.relative_to(RESULTS).as_posix().removesuffix(ENDING)
        for entry in content["findings"]:
            page = entry.get("page", content.get("page"))
            yield Finding(name, page, entry["says"], entry["holds"])


@cache
def results_of(name: str) -> tuple[Result, ...]:
    """The stored results of a name."""
    return tuple(load_results([RESULTS / name]))


@cache
def rows_of(name: str) -> tuple[Row, ...]:
    """Rows of the stored results of a name."""
    return tuple(aggregate(results_of(name)))


def _row(name: str, label: str | Row, of: str | None = None, **params: Any) -> Row:
    """The one row of a label and of parameters of its mechanisms."""
    if isinstance(label, Row):
        return label
    rows = [
        row
        for row in rows_of(of or name)
        if row.label == label and all(value in _values(row, key) for key, value in params.items())
    ]
    assert len(rows) == 1, f"{len(rows)} rows of {of or name} are {label} with {params}"
    return rows[0]


def _values(row: Row, key: str) -> list[Any]:
    """Values of a parameter in the parts of a row's spec; `clients` is their number."""
    parts = (*row.spec.mechanism, row.spec.task, row.spec.source)
    values = [part.params[key] for part in parts if key in part.params]
    if key == "clients" and row.spec.clients is not None:
        values.append(row.spec.clients.count)
    return values


def _stat(name: str, metric: str, label: str | Row, **params: Any) -> Stat:
    row = _row(name, label, **params)
    kind, _, short = metric.rpartition(".")
    if not kind:
        return row.utility[metric]
    return row.diagnostics[short] if kind == "diagnostics" else row.leakage[kind][short]


def _mean(name: str, metric: str, label: str | Row, **params: Any) -> float:
    """The mean over seeds."""
    return _stat(name, metric, label, **params).value


def _low(name: str, metric: str, label: str | Row, **params: Any) -> float:
    """The lower end of the interval over seeds."""
    return _end(_stat(name, metric, label, **params).low)


def _high(name: str, metric: str, label: str | Row, **params: Any) -> float:
    """The upper end of the interval over seeds."""
    return _end(_stat(name, metric, label, **params).high)


def _end(value: float | None) -> float:
    assert value is not None, "one seed has no interval"
    return value


def _proven(name: str, unit: str, label: str | Row, **params: Any) -> float:
    """The proven epsilon for a unit; infinite where it is refused."""
    return _proofs(_row(name, label, **params))[unit]


def _proofs(row: Row) -> dict[str, float]:
    """Proven epsilons of a row by unit."""
    return {one.unit: one.epsilon for one in row.guarantees if one.kind == "proven"}


def _claimed(name: str, unit: str, label: str, **params: Any) -> float:
    """The claimed epsilon for a unit."""
    (epsilon,) = {
        one.epsilon
        for one in _row(name, label, **params).guarantees
        if (one.kind, one.unit) == ("claimed", unit)
    }
    return epsilon


def _runs(name: str, label: str | Row, of: str | None = None, **params: Any) -> tuple[Result, ...]:
    """The results of a row, which are at least one."""
    group = _row(name, label, of=of, **params).group
    return tuple(result for result in results_of(of or name) if result.group == group)


def _refuted(name: str, label: str | Row, **params: Any) -> set[int]:
    """Seeds whose runs refute a claim of a row."""
    return {
        result.spec.seed
        for result in _runs(name, label, **params)
        if any((one.kind, one.status) == ("claimed", "refuted") for one in result.guarantees)
    }


def _learned(name: str, label: str | Row, **params: Any) -> bool | None:
    """True if a row is surely better than its floors; None where that is not known."""
    return _row(name, label, **params).learned


def _bounds(name: str, label: str | Row, **params: Any) -> list[float]:
    """Lower bounds of epsilon that the attacks on a row give, the largest first."""
    bounds = _row(name, label, **params).lower_bounds
    return sorted((bound.epsilon for bound in bounds), reverse=True)


def _ladder(name: str, label: str, unit: str, of: str | None = None) -> list[Row]:
    """Rows of a mechanism, from the smallest proven epsilon of a unit to the largest."""
    rows = [row for row in rows_of(of or name) if row.label == label]
    return sorted(rows, key=lambda row: _proofs(row)[unit])


def _rows(name: str, of: str | None = None) -> tuple[Row, ...]:
    """All rows."""
    return rows_of(of or name)


def _results(name: str, of: str | None = None) -> tuple[Result, ...]:
    """All results."""
    return results_of(of or name)


def _seeds(name: str, of: str | None = None) -> set[int]:
    """Seeds of all rows."""
    return {seed for row in rows_of(of or name) for seed in row.seeds}


_FUNCTIONS = {
    "row": _row, "rows": _rows, "results": _results, "mean": _mean, "low": _low, "high": _high,
    "proven": _proven, "claimed": _claimed, "refuted": _refuted, "learned": _learned,
    "bounds": _bounds, "seeds": _seeds, "ladder": _ladder, "runs": _runs,
}  # fmt: skip
_BUILTINS = {
    "abs": abs, "all": all, "any": any, "isclose": math.isclose, "inf": math.inf, "len": len,
    "max": max, "min": min, "set": set, "sorted": sorted, "sum": sum, "zip": zip,
}  # fmt: skip


def _names(name: str) -> dict[str, Any]:
    """Functions of an expression, about the results of a name."""
    return {short: partial(function, name) for short, function in _FUNCTIONS.items()}
