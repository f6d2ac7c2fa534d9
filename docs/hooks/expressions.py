"""Expressions over stored results: the language of tables and of findings.

A metric without a dot is one of utility; `diagnostics.NAME`, `cost.NAME`, `floors.NAME` and
`ATTACK.NAME` are others. A row is named by its mechanisms, joined by " + ", and by parameters of
any of them, of the task, the source or the model; or it is one of `rows()` and of
`ladder(MECHANISM, UNIT)`, which are in the order of epsilon. Where no row is named, it is the row
of the table. `of` names other results than those of the table or the finding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from uedp_bench import account
from uedp_bench.accounting.events import Protected
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.cell_text import bounds_text, guarantees_text
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, Stat, aggregate
from uedp_bench.leaderboard.sources import SUFFIX, bundle_of
from uedp_bench.statistics.intervals import seed_estimate

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "leaderboard" / "results"

KINDS = ("utility", "diagnostics", "cost", "floors")

Label = str | Row | None
"""A row: its mechanisms, the row itself, or None for the row of the table."""


class MissingError(LookupError):
    """A line of a table lacks the metric or the guarantee that an expression names."""


class WrongNameError(LookupError):
    """No bundle, or not exactly one row, has the name that an expression gives."""


@cache
def results_of(names: str) -> tuple[Result, ...]:
    """Finished results of bundles, or of folders of them, whose names are joined by blanks.

    Raises:
        WrongNameError: if there are no results of a name.
    """
    results: list[Result] = []
    for name in names.split():
        path = RESULTS / name.removeprefix("leaderboard/results").lstrip("/")
        one = bundle_of(path)
        bundles = sorted(path.rglob(f"*{SUFFIX}")) if one is None else [one]
        if not bundles:
            raise WrongNameError(f"{path.relative_to(ROOT)} is no bundle")
        results += (result for bundle in bundles for result in _bundle(bundle))
    return tuple(results)


@cache
def _bundle(path: Path) -> list[Result]:
    """Finished results of a bundle."""
    return [result for result in load_results([path]) if result.status == "finished"]


@cache
def _alone(run_id: str, names: str) -> tuple[int, Row]:
    """Seed and row of a single run."""
    run = next(result for result in results_of(names) if result.id == run_id)
    return run.spec.seed, aggregate([run])[0]


@cache
def rows_of(names: str) -> tuple[Row, ...]:
    """Rows of the results of bundles."""
    return tuple(aggregate(results_of(names)))


def kind_of(metric: str) -> tuple[str, str]:
    """The kind of a metric, or its attack, and its name."""
    kind, dot, name = metric.partition(".")
    return (kind, name) if dot else ("utility", kind)


def estimate(values: Iterable[float]) -> Stat:
    """Mean of one value a seed, with its 95 % interval (Student's t)."""
    listed = list(values)
    over_seeds = seed_estimate(listed)
    return Stat(value=over_seeds.value, low=over_seeds.low, high=over_seeds.high, n=len(listed))


def minutes(run: Result) -> float:
    """Minutes of the processor that a run took; by the clock, where it did not keep them."""
    cost: Any = run.cost
    seconds = cost.train_seconds + cost.score_seconds + cost.attack_seconds
    return (
        float(seconds if hasattr(cost, "resumed") else getattr(cost, "cpu_seconds", seconds)) / 60
    )


def spread(values: Iterable[float]) -> str | None:
    """Median, with the least and the most in parentheses where they differ; None for no values."""
    listed = sorted(values)
    if not listed:
        return None
    middle, *ends = (
        f"{float(f'{value:.2g}'):,g}" for value in (median(listed), listed[0], listed[-1])
    )
    return middle if ends[0] == ends[1] else f"{middle} ({ends[0]} to {ends[1]})"


def _values(row: Row, key: str) -> list[Any]:
    """Values of a parameter in the parts of a row's spec; `clients` is their number."""
    spec = row.spec
    parts = (*spec.mechanism, spec.task, spec.source, spec.model)
    values = [part.params[key] for part in parts if key in part.params]
    if key == "clients" and spec.clients is not None:
        values.append(spec.clients.count)
    return values


def _proofs(row: Row) -> dict[str, float]:
    """Proven epsilons of a row by unit."""
    return {one.unit: one.epsilon for one in row.guarantees if one.kind == "proven"}


class Study:
    """Functions of expressions about the results of some bundles.

    Attributes:
        bundle_names: names of the bundles below `leaderboard/results`, joined by blanks.
        current: the row that functions are about where they name none.
    """

    def __init__(self, bundle_names: str, current: Row | None = None) -> None:
        self.bundle_names, self.current = bundle_names, current

    def names(self) -> dict[str, Any]:
        """Names of an expression, by which `evaluate` finds them."""
        methods = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        return {**_BUILTINS, **{name: each for name, each in methods.items() if callable(each)}}

    def evaluate(self, expression: str, bound: dict[str, Any] | None = None) -> Any:
        """The value of an expression.

        Args:
            expression: Python, with the names of this class and few builtins.
            bound: more names.
        """
        names = {**self.names(), **(bound or {}), "__builtins__": {}}
        return eval(expression, names)  # noqa: S307

    def row(self, label: Label = None, of: str | None = None, **params: Any) -> Row:
        """The one row of a label and of parameters; None is one that no part of its spec has.

        Raises:
            MissingError: if none is named, and the line of the table is none.
            WrongNameError: if there is none or there are several.
        """
        if isinstance(label, Row):
            return label
        if label is None:
            if self.current is None:
                raise MissingError("the line of the table is no row of results: name one")
            return self.current
        same = [row for row in self.rows(of) if row.label == label]
        rows = [
            row
            for row in same
            if all(v in (_values(row, key) or [None]) for key, v in params.items())
        ]
        if len(rows) != 1:
            raise WrongNameError(
                f"{len(rows)} rows of {of or self.bundle_names} are {label!r} with {params}; "
                f"rows are {', '.join(sorted({row.label for row in self.rows(of)}))}"
            )
        return rows[0]

    def rows(self, of: str | None = None) -> tuple[Row, ...]:
        """All rows."""
        return rows_of(of or self.bundle_names)

    def bundles(self) -> list[str]:
        """Names of all bundles."""
        paths = (path.relative_to(RESULTS).as_posix() for path in RESULTS.rglob(f"*{SUFFIX}"))
        return sorted(path.removesuffix(SUFFIX) for path in paths)

    def results(self, of: str | None = None) -> tuple[Result, ...]:
        """All results."""
        return results_of(of or self.bundle_names)

    def runs(self, label: Label = None, of: str | None = None, **params: Any) -> list[Result]:
        """The results of a row, by seed."""
        group = self.row(label, of, **params).group
        runs = [result for result in self.results(of) if result.group == group]
        return sorted(runs, key=lambda result: result.spec.seed)

    def ladder(self, label: str, unit: str, of: str | None = None) -> list[Row]:
        """Rows of a mechanism, from the smallest proven epsilon of a unit to the largest."""
        rows = [row for row in self.rows(of) if row.label == label]
        return sorted(rows, key=lambda row: _proofs(row)[unit])

    def seeds(self, of: str | None = None) -> set[int]:
        """Seeds of all rows."""
        return {seed for row in self.rows(of) for seed in row.seeds}

    def param(self, key: str, label: Label = None, **params: Any) -> Any:
        """A parameter of a row; None where no part of its spec has it."""
        return next(iter(_values(self.row(label, **params), key)), None)

    def stat(self, metric: str, label: Label = None, **params: Any) -> Stat:
        """A metric over seeds, with its interval.

        Raises:
            MissingError: if the row does not have it.
        """
        row = self.row(label, **params)
        kind, name = kind_of(metric)
        stats = getattr(row, kind) if kind in KINDS else row.leakage.get(kind, {})
        if name not in stats:
            raise MissingError(f"{row.label} has no {metric}; it has {', '.join(stats) or 'none'}")
        return stats[name]  # type: ignore[no-any-return]

    def mean(self, metric: str, label: Label = None, **params: Any) -> float:
        """The mean over seeds."""
        return self.stat(metric, label, **params).value

    def low(self, metric: str, label: Label = None, **params: Any) -> float:
        """The lower end of the interval over seeds."""
        return self._end(self.stat(metric, label, **params).low)

    def high(self, metric: str, label: Label = None, **params: Any) -> float:
        """The upper end of the interval over seeds."""
        return self._end(self.stat(metric, label, **params).high)

    @staticmethod
    def _end(value: float | None) -> float:
        if value is None:
            raise MissingError("one seed has no interval")
        return value

    def detail(self, *keys: str, label: Label = None, of: str | None = None, **params: Any) -> Stat:
        """A number of `details` over seeds, by the names that lead to it."""
        values = []
        for run in self.runs(label, of, **params):
            value: Any = run.details
            for key in keys:
                value = value[key]
            values.append(value["value"] if isinstance(value, dict) else value)
        return estimate(values)

    def by_seed(
        self, metric: str, label: Label = None, of: str | None = None, **params: Any
    ) -> dict[int, float]:
        """A metric of each run of a row, by seed."""
        alone = [_alone(run.id, of or self.bundle_names) for run in self.runs(label, of, **params)]
        return {seed: self.mean(metric, row) for seed, row in alone}

    def above(
        self, metric: str, base: Label, label: Label = None, of: str | None = None
    ) -> Stat | None:
        """Distance of a row above another, seed by seed; None for that row itself."""
        values, floor = self.by_seed(metric, label), self.by_seed(metric, base, of=of)
        if self.row(label).group == self.row(base, of).group:
            return None
        return estimate(values[seed] - floor[seed] for seed in values if seed in floor)

    def proven(
        self,
        unit: str | None = None,
        label: Label = None,
        *,
        spread: int | None = None,
        **params: Any,
    ) -> float:
        """The proven epsilon for a unit; infinite where it is refused.

        Args:
            unit: unit of privacy; None for the only one.
            label: a row.
            spread: other users who mention the entity, one sentence each, where the guarantee is
                wanted at another point of its curve than the declared one.
            params: of the row.

        Raises:
            MissingError: if nothing is said about the unit.
        """
        row = self.row(label, **params)
        proofs = _proofs(row)
        if unit is None and len(proofs) == 1:
            (unit,) = proofs
        if unit not in proofs:
            raise MissingError(f"{row.label} has no proof for {unit}; it has {', '.join(proofs)}")
        if spread is None:
            return proofs[unit]
        return max(
            proven_at(
                run.events, unit=unit, adjacency="add-or-remove", delta=row.spec.delta,
                point=Protected(spread=spread),
            )
            for run in self.runs(row, params.get("of"))
        )  # fmt: skip

    def claimed(self, unit: str | None = None, label: Label = None, **params: Any) -> float:
        """The claimed epsilon for a unit, or of the only claim.

        Raises:
            MissingError: if nothing is claimed.
        """
        row = self.row(label, **params)
        claims = [one for one in row.guarantees if one.kind == "claimed"]
        epsilons = {one.epsilon for one in claims if unit in (None, one.unit)}
        if len(epsilons) != 1:
            raise MissingError(f"{row.label} claims {sorted(epsilons)} for {unit or 'any unit'}")
        return epsilons.pop()

    def on_map(self, name: str, label: Label = None, **params: Any) -> Stat:
        """Share of points on an attacker's map whose ten nearest neighbours tell their class.

        Args:
            name: "labels", for their accuracy, or an attribute, for its balanced accuracy.
            label: a row.
            params: parameters of the row.
        """
        from sklearn.metrics import accuracy_score, balanced_accuracy_score
        from sklearn.neighbors import KNeighborsClassifier

        shares = []
        for run in self.runs(label, **params):
            drawn = run.details["attribute-inference"]["projection"]
            classes = (drawn["labels"] if name == "labels" else drawn["attributes"][name])["labels"]
            labelled = [at for at, code in enumerate(classes) if code >= 0]
            points, truth = (
                [drawn["points"][at] for at in labelled],
                [classes[at] for at in labelled],
            )
            # Without rows to predict: those of the fit, none of which is a neighbour of its own.
            guesses = KNeighborsClassifier(10).fit(points, truth).predict(None)
            score = accuracy_score if name == "labels" else balanced_accuracy_score
            shares.append(float(score(truth, guesses)))
        return estimate(shares)

    def guarantees(self, kind: str, label: Label = None, **params: Any) -> str:
        """All guarantees of a kind with their units, as the board prints them."""
        return guarantees_text(self.row(label, **params), kind)

    def at_least(self, label: Label = None, **params: Any) -> str:
        """All lower bounds of epsilon, as the board prints them."""
        return bounds_text(self.row(label, **params))

    def refuted(self, label: Label = None, **params: Any) -> set[int]:
        """Seeds whose runs refute a claim of a row."""
        return {
            result.spec.seed
            for result in self.runs(label, **params)
            if any((one.kind, one.status) == ("claimed", "refuted") for one in result.guarantees)
        }

    def learned(self, label: Label = None, **params: Any) -> bool | None:
        """True if a row is surely better than its floors; None where that is not known."""
        return self.row(label, **params).learned

    def bounds(self, label: Label = None, **params: Any) -> list[float]:
        """Lower bounds of epsilon that the attacks on a row give, the largest first."""
        bounds = self.row(label, **params).lower_bounds
        return sorted((bound.epsilon for bound in bounds), reverse=True)

    def strict(self, label: Label = None, **params: Any) -> dict[int, float]:
        """Largest lower bound of each run at the confidence that refutes claims, by seed.

        Raises:
            MissingError: if no attack of a run gives such a bound.
        """
        by_seed = {}
        for run in self.runs(label, **params):
            bounds = [one.strict_epsilon for one in run.lower_bounds]
            sure = [bound for bound in bounds if bound is not None]
            if not sure:
                raise MissingError(f"{run.id} has no lower bound that could refute a claim")
            by_seed[run.spec.seed] = max(sure)
        return by_seed


_BUILTINS = {
    "abs": abs, "account": account, "all": all, "any": any, "dict": dict, "estimate": estimate,
    "float": float, "getattr": getattr, "inf": math.inf, "int": int, "isclose": math.isclose,
    "len": len, "list": list, "log": math.log, "max": max, "median": median, "min": min,
    "minutes": minutes, "range": range, "round": round, "set": set, "sorted": sorted,
    "spread": spread, "str": str, "sum": sum, "tuple": tuple, "zip": zip,
}  # fmt: skip
