"""Rows of the leaderboard: results whose specs differ in the seed only, over their seeds."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.component import Number
from uedp_bench.components.metric import Declared, Kind, Metric
from uedp_bench.contracts.results import (
    FailedAttack,
    Headline,
    LowerBound,
    Result,
    RunSpec,
    SkippedAttack,
)
from uedp_bench.errors import UnknownNameError
from uedp_bench.leaderboard import over_seeds as headlines
from uedp_bench.leaderboard.installed import is_older, result_metrics
from uedp_bench.leaderboard.over_seeds import (
    common_ceilings,
    highest_bounds,
    judgements,
    leaks,
    same_point,
    worst_guarantees,
)
from uedp_bench.one_run.preparing import NOTE


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """Mean over `n` seeds with its 95 % Student interval; None and None for one seed.

    Thousands of rows have dozens of them: a model of pydantic takes ten times the memory.
    """

    value: Number
    low: Number | None = None
    high: Number | None = None
    n: int


class RunRef(_Frozen):
    """One run behind a row: where it was read (`path`), and its MLflow run (`tracking`)."""

    id: str
    seed: int
    status: str
    error: str = ""
    path: str = ""
    tracking: dict[str, str] = {}


class Row(_Frozen):
    """One line of the leaderboard.

    Attributes:
        group: id of the spec without its seed.
        label: mechanism names joined by ' + '.
        spec: spec of the first run, whose seed says nothing of the row.
        headline: metric that ranks the row, as its results declare; None if unknown.
        floors: values of the headline metric that need next to nothing of the private text.
        learned: True if the row is surely better than its floors: all seeds are, or the interval
            over seeds is; None where that is not known.
        corpus, vocabulary: fingerprints; None where no run finished. Utility compares only where
            the task, the source and both are equal.
        metrics: declarations of the row's metrics.
        guarantees: guarantees with the largest epsilon over seeds, by kind and unit; a claim that
            any run refutes is refuted, and a proof that any run lacks or refuses is none.
        lower_bounds: largest bounds over seeds and attacks, by unit and point, at the confidence
            that is left once the choice is paid for.
        ceilings: largest honest values of metrics of `leakage` that the proofs of all seeds allow.
        leaks: True by attack if it tells users of the training data from others by more than
            chance.
        epsilon_at: epsilon of metric DP between the words of some pairs, by kind of pair.
        public_sizes: numbers of units that were declared, that train, and that a round plans and
            expects, of the first run that noted them.
        older_code: True if any run was made by an earlier version of what computes.
        selection: choice of hyper-parameters; empty where trained models were not compared.
        runs: all runs of the group, by seed.
    """

    group: str
    label: str
    spec: RunSpec
    corpus: str | None = None
    vocabulary: str | None = None
    utility: dict[str, Stat] = {}
    headline: Headline | None = None
    floors: dict[str, Stat] = {}
    learned: bool | None = None
    metrics: Declared = Field(default=Declared(), exclude=True)
    guarantees: tuple[Guarantee, ...] = ()
    lower_bounds: tuple[LowerBound, ...] = ()
    leakage: dict[str, dict[str, Stat]] = {}
    ceilings: dict[str, dict[str, Number]] = {}
    leaks: dict[str, bool] = {}
    diagnostics: dict[str, Stat] = {}
    epsilon_at: dict[str, Stat] = {}
    public_sizes: dict[str, Any] = {}
    cost: dict[str, Stat] = {}
    device: str = ""
    skipped_attacks: tuple[SkippedAttack, ...] = ()
    failed_attacks: tuple[FailedAttack, ...] = ()
    selection: dict[str, Any] = {}
    older_code: bool = False
    runs: tuple[RunRef, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the finished runs."""
        return tuple(run.seed for run in self.runs if run.status == "finished")

    @property
    def bounds(self) -> tuple[LowerBound, ...]:
        """The lower bounds at the row's own delta; at another where there is none of the point."""
        at = {same_point(bound) for bound in self.lower_bounds if bound.delta == self.spec.delta}
        return tuple(
            bound
            for bound in self.lower_bounds
            if bound.delta == self.spec.delta or same_point(bound) not in at
        )

    @property
    def failed(self) -> tuple[RunRef, ...]:
        """Runs that failed."""
        return tuple(run for run in self.runs if run.status != "finished")


_Specified = TypeVar("_Specified", Row, Result)


Known = dict[str, tuple[list[Result], Row]]
"""Rows that were made before, by group, with the results that they were made of."""


def aggregate(
    results: Sequence[Result],
    paths: Mapping[str, Path | str] | None = None,
    known_rows: Known | None = None,
) -> list[Row]:
    """One row a group, sorted by task, source, model, then by the headline metric.

    Rows that have learnt nothing come after all others of their board.

    A failed run is left out where a run of the same spec has finished since.

    Args:
        results: results in any order.
        paths: paths of their files, by id.
        known_rows: rows of earlier calls with the same paths; rows of the same results are not
            made again, and new ones are added.
    """
    failed = any(r.status != "finished" for r in results)
    finished = [r for r in results if r.status == "finished"] if failed else []
    specs = {_spec(r) for r in finished}
    # A failed run that never saw its corpus joins the other seeds of its spec.
    group_of_spec = {_spec(r, seed=0): r.group for r in reversed(finished)}
    groups: dict[str, list[Result]] = {}
    for result in results:
        if result.status == "finished":
            groups.setdefault(result.group, []).append(result)
        elif _spec(result) not in specs:
            group = group_of_spec.get(_spec(result, seed=0), result.group)
            groups.setdefault(group, []).append(result)
    known_rows = {} if known_rows is None else known_rows
    for gone in known_rows.keys() - groups.keys():
        del known_rows[gone]
    for name, results_of_group in groups.items():
        if name not in known_rows or not _same(known_rows[name][0], results_of_group):
            known_rows[name] = results_of_group, _row(results_of_group, paths or {})
    return sorted((known_rows[name][1] for name in groups), key=_order)


def _same(first: Sequence[Result], second: Sequence[Result]) -> bool:
    """True if they are the same objects."""
    return len(first) == len(second) and all(map(operator.is_, first, second))


def select(
    rows: Sequence[_Specified], task: str | None = None, source: str | None = None
) -> list[_Specified]:
    """The rows, or results, of one task and one source.

    Raises:
        UnknownNameError: if none has the task or the source.
    """
    kept = list(rows)
    for kind, name in (("task", task), ("source", source)):
        names = {getattr(row.spec, kind).name for row in kept}
        if name is not None and name not in names:
            raise UnknownNameError(f"{kind} of these results", name, names)
        kept = [row for row in kept if name in (None, getattr(row.spec, kind).name)]
    return kept


def _spec(result: Result, **changes: int) -> str:
    return result.spec.model_copy(update=changes).model_dump_json()


def _row(group: Sequence[Result], paths: Mapping[str, Path | str]) -> Row:
    ordered = sorted(group, key=lambda result: (result.spec.seed, result.id))
    done = [result for result in ordered if result.status == "finished"]
    first = (done or ordered)[0]
    attacks = dict.fromkeys(name for result in done for name in result.leakage)
    devices = list(dict.fromkeys(result.cost.device for result in done))
    skipped = dict.fromkeys((s.name, s.reason) for result in done for s in result.skipped_attacks)
    failures = {
        (each.name, each.reason): each.model_copy(update={"traceback": ""})
        for result in done
        for each in result.failed_attacks
    }
    metrics, ceilings = result_metrics(first), common_ceilings(done)

    def limited(kind: Kind, runs: list[dict[str, float]], attack: str = "") -> dict[str, Stat]:
        """Stats, their intervals clipped to the range of honest values of the metrics."""
        return {
            name: _possible(stat, metrics.metric(kind, name, attack))
            for name, stat in _stats(runs).items()
        }

    utility = limited("utility", [_values(result.utility) for result in done])
    ranked_by = headlines.headline(done or ordered)
    leading = utility.get(ranked_by.metric) if ranked_by else None
    over_seeds = (leading.low, leading.high) if leading and leading.n == len(done) else (None, None)
    return Row(
        group=first.group,
        label=first.label,
        spec=first.spec,
        corpus=_data(first),
        vocabulary=fingerprint(first, "vocabulary"),
        utility=utility,
        headline=ranked_by,
        floors=_stats([result.floors for result in done]),
        learned=headlines.learned(done, ranked_by, over_seeds),
        metrics=metrics,
        guarantees=worst_guarantees([result.guarantees for result in done]),
        lower_bounds=highest_bounds([bound for result in done for bound in result.lower_bounds]),
        leakage={
            name: limited(
                "leakage", [_values(r.leakage[name]) for r in done if name in r.leakage], name
            )
            for name in attacks
        },
        ceilings=ceilings,
        leaks={
            name: leaks(judged, ceilings.get(name)) for name, judged in judgements(done).items()
        },
        diagnostics=limited("diagnostics", [_numbers(result.diagnostics) for result in done]),
        epsilon_at=_stats([_numbers(_within(r.diagnostics, "epsilon_at")) for r in done]),
        public_sizes=next((dict(s) for r in done if (s := _within(r.diagnostics, NOTE))), {}),
        cost=limited("cost", [_numbers(result.cost.model_dump()) for result in done]),
        device=", ".join(devices),
        skipped_attacks=tuple(SkippedAttack(name=name, reason=why) for name, why in skipped),
        failed_attacks=tuple(failures.values()),
        selection=first.selection,
        older_code=any(is_older(result.provenance.get("identity")) for result in done),
        runs=tuple(_reference(result, paths) for result in ordered),
    )


def _reference(result: Result, paths: Mapping[str, Path | str]) -> RunRef:
    return RunRef(
        id=result.id,
        seed=result.spec.seed,
        status=result.status,
        error=f"{result.error.phase}: {result.error.message}" if result.error else "",
        path=str(paths.get(result.id, "")),
        tracking=result.tracking,
    )


def _data(result: Result) -> str | None:
    """Fingerprint of the corpus, and of that of the task's second source where it has one."""
    fingerprints = [fingerprint(result, name) for name in ("corpus", "downstream")]
    return "+".join(each for each in fingerprints if each) or None


def fingerprint(result: Result, part: str = "corpus") -> str | None:
    """Fingerprint of a part, as the provenance says; None where it does not."""
    value = _within(result.provenance, part).get("fingerprint")
    return value if isinstance(value, str) else None


def _within(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = values.get(name)
    return inner if isinstance(inner, dict) else {}


def _values(estimates: Mapping[str, Any]) -> dict[str, float]:
    return {name: estimate.value for name, estimate in estimates.items()}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among them; infinities may be written as strings."""
    infinite = {"inf": math.inf, "-inf": -math.inf}
    read = {k: infinite.get(v, v) if isinstance(v, str) else v for k, v in values.items()}
    return {
        name: _float(value)
        for name, value in read.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }


def _float(value: float) -> float:
    """Whole numbers of files may be larger than any float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _stats(runs: Sequence[Mapping[str, float]]) -> dict[str, Stat]:
    """Mean and interval of every name, over the runs that have it; left out where there is none."""
    # Needs scipy only where there is an interval to compute: one seed has none.
    names = dict.fromkeys(name for run in runs for name in run)
    stats = {name: _stat([run[name] for run in runs if name in run]) for name in names}
    return {name: stat for name, stat in stats.items() if stat is not None}


def _possible(stat: Stat, metric: Metric) -> Stat:
    if stat.low is None or stat.high is None or not metric.low <= stat.value <= metric.high:
        return stat
    low, high = max(stat.low, metric.low), min(stat.high, metric.high)
    return Stat(value=stat.value, low=low, high=high, n=stat.n)


def _stat(values: list[float]) -> Stat | None:
    """None where there is no mean: infinities of both signs."""
    if len(values) == 1:
        return Stat(value=values[0], n=1)
    if {math.inf, -math.inf} <= set(values):
        return None
    from uedp_bench.statistics.intervals import seed_estimate

    # Sums and squares of the largest floats are infinite.
    largest = max(map(abs, values))
    scale = largest if _HUGE < largest < math.inf else 1.0
    estimate = seed_estimate([value / scale for value in values])
    ends = [None if end is None else end * scale for end in (estimate.low, estimate.high)]
    low, high = ends if all(end is not None and math.isfinite(end) for end in ends) else (None,) * 2
    return Stat(value=estimate.value * scale, low=low, high=high, n=len(values))


_HUGE = 1e150


def headline(row: Row) -> tuple[str | None, bool]:
    """The name of the metric that ranks the row, and True if more of it is better."""
    if row.headline is None:
        return next(iter(row.utility), None), False
    return row.headline.metric, row.headline.larger_is_better


def guarantees(row: Row, kind: str, unit: str | None = None) -> list[Guarantee]:
    """The finite guarantees of differential privacy of a row that stand, the least first."""
    standing = [
        one
        for one in row.guarantees
        if one.kind == kind
        and one.notion == "dp"
        and one.status != "refused"
        and math.isfinite(one.epsilon)
        and unit in (None, one.unit)
    ]
    return sorted(standing, key=lambda one: one.epsilon)


def by_vocabulary(row: Row) -> bool:
    """True if utility compares only between runs of one vocabulary, or nobody knows."""
    return row.headline is None or row.headline.by_vocabulary


def _order(row: Row) -> tuple[Any, ...]:
    name, larger = headline(row)
    stat = row.utility.get(name or "")
    value = math.inf if stat is None else (-stat.value if larger else stat.value)
    spec = row.spec
    words = (row.vocabulary or "") if by_vocabulary(row) else ""
    return (
        spec.task.name, spec.source.name, spec.model.name, row.corpus or "", words,
        row.learned is False, value, row.label, row.group,
    )  # fmt: skip
