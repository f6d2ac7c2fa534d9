"""What the page of the table knows: rows, columns and comparable sets, as JSON values.

Numbers have six significant digits (the downloads have all); infinity is the string "inf". Columns
have keys KIND.METRIC: `utility.perplexity`, `membership.auc` (an attack), `cost.train_seconds`.
What no column shows stands on the pages of runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.boards import (
    boards,
    differences,
    generated,
    identity,
    labels,
    real_first,
    title,
)
from uedp_bench.leaderboard.cell_text import (
    at_distances,
    bound_text,
    guarantee_text,
    number,
    seeds_text,
    stat_text,
)
from uedp_bench.leaderboard.glossary.page import places
from uedp_bench.leaderboard.metrics import Metric, column_prefix, metric, order, ranking
from uedp_bench.leaderboard.plots import (
    FRAME,
    MARKS,
    between,
    epsilons,
    finite_budgets,
    looks,
    plots,
)
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.upper_end import better_than_unprotected, references
from uedp_bench.results import LowerBound, Result

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def run_page(identifier: str) -> str:
    """Where the page of a run is, from the site's root.

    Raises:
        ValueError: if the id is no name of a file; ids are hexadecimal digests.
    """
    if not _SAFE.fullmatch(identifier):
        raise ValueError(f"id {identifier!r} is not a name of letters, digits, '_' and '-'")
    return f"runs/{identifier}.html"


class TableData:
    """What the page of the table shows.

    Args:
        rows: of the leaderboard, aggregated from `results`.
        results: by id.
    """

    def __init__(self, rows: Sequence[Row], results: Mapping[str, Result]) -> None:
        self._results, self._found = results, real_first(boards(rows))
        self._board = -1
        columns = metric_columns(rows)
        self._places = {column["key"]: at for at, column in enumerate(columns)}
        self.frame: dict[str, Any] = {
            "sets": [
                _set(board) | {"letter": _letter(at), "plots": plots(board, columns),
                               "presets": presets(board, columns)}
                for at, board in enumerate(self._found)
            ],
            "columns": columns,
            "looks": looks((row.label, at) for at, board in enumerate(self._found)
                           for row in board),
            "plot": FRAME,
            "marks": MARKS,
            "fields": FIELDS,
            "rows": [],
            "runs": sum(len(row.runs) for row in rows),
            "failed": sum(len(row.failed) for row in rows),
            "initial": _initial(self._found),
        }  # fmt: skip
        """Everything but its rows."""

    def rows(self, first: int = 0, last: int | None = None) -> Iterator[dict[str, Any]]:
        """The rows from the first to before the last, made one after the other.

        Those of a large leaderboard take much memory.
        """
        begin = 0
        for at, board in enumerate(self._found):
            low = max(first - begin, 0)
            high = len(board) if last is None else min(last - begin, len(board))
            begin += len(board)
            if low < high:
                told = zip(board, *self._told(at), strict=True)
                better, budgets = better_than_unprotected(board), sorted(finite_budgets(board))
                for row, label, differing in islice(told, low, high):
                    named = {"set": at, "mechanism": label, "differs": _plain(differing),
                             "better": row.group in better,
                             "epsilons": epsilons(row, budgets)}  # fmt: skip
                    yield named | _row(row) | _numbers(row, self._places, self._results)

    def _told(self, at: int) -> tuple[Sequence[str], Sequence[Mapping[str, Any]]]:
        """Labels and differences of a board's rows; of the last board that was asked for, kept."""
        if self._board != at:
            self._board, self._labels = at, labels(self._found[at])
            self._differences = differences(self._found[at])
        return self._labels, self._differences


def page_data(rows: Sequence[Row], results: Mapping[str, Result]) -> dict[str, Any]:
    """Everything that the page of the table shows; see `TableData`."""
    data = TableData(rows, results)
    return data.frame | {"rows": list(data.rows())}


def _letter(at: int) -> str:
    """A set's name, short enough for a column: A, B, ..., Z, AA, ..."""
    before = _letter(at // 26 - 1) if at >= 26 else ""
    return before + chr(ord("A") + at % 26)


def _set(board: Sequence[Row]) -> dict[str, Any]:
    name, larger = headline(board[0])
    percent = metric("utility", name or "").percent
    return {
        "id": identity(board),
        "title": title(board),
        "generated": generated(board),
        "headline": f"utility.{name}" if name else None,
        "larger_is_better": larger,
        "references": [
            {"name": one.label, "text": between(one.low, one.high, 100.0 if percent else 1.0)}
            for one in references(board)
        ],
    }


def presets(board: Sequence[Row], columns: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Columns that tell of a board what a reader wants to know, by what that is.

    Columns that rows do not have are left out by the page's script.
    """
    name, _ = headline(board[0])
    keys = {_key(kind, attack, name) for row in board for kind, attack, values in _kinds(row)
            for name in values}  # fmt: skip
    mine = [one for one in columns if one["key"] in keys]
    leaks = [one for one in mine if one["kind"] == "leakage" and one["main"]]
    attacks: dict[str, list[Mapping[str, Any]]] = {}
    for one in leaks:
        attacks.setdefault(one["attack"], []).append(one)
    # Of every attack, the metric that says most.
    foremost = [next((one for one in each if one["better"]), each[0])["key"]
                for each in attacks.values()]  # fmt: skip
    # Unknown words flatter other metrics: always beside them.
    ranked = [one["key"] for one in mine if one["key"] in (f"utility.{name}", "utility.oov_rate")]
    # What was refuted stands beside what is proven; other claims can wait.
    refuted = any(one.status == "refuted" for row in board for one in row.guarantees)
    promises = ["proven", "stated", *(["claimed", "bound"] if refuted else [])]
    costs = [one["key"] for one in mine if one["kind"] == "cost"
             or (one["kind"] == "diagnostics" and one["main"])]  # fmt: skip
    return {
        "decide": [*promises, *ranked, *foremost],
        "guarantee": ["proven", "stated", "claimed", "bound", "delta", "learned", "seeds",
                      *ranked[:1]],
        "leakage": ["proven", *(one["key"] for one in leaks)],
        "cost": [*ranked[:1], *costs, "seeds", "device"],
    }  # fmt: skip


def first_board(found: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """What readers first see: real text before generated, then most mechanisms, attacks, rows."""
    return max(
        found,
        key=lambda rows: (
            not generated(rows),
            len({row.label for row in rows}),
            len({attack for row in rows for attack in row.leakage}),
            len(rows),
        ),
        default=(),
    )


def _initial(found: Sequence[Sequence[Row]]) -> dict[str, str]:
    """The state of the page that shows the first board."""
    board = first_board(found)
    if not board:
        return {}
    spec = board[0].spec
    return {"task": spec.task.name, "source": spec.source.name, "set": identity(board)}


FIELDS = tuple(
    {"key": key, "label": label, "place": place, "about": about, "group": group}
    for group, key, label, place, about in (
        ("run", "task", "task", "task", "what the protected text is used for"),
        ("run", "source", "source", "source", "the text"),
        ("run", "model", "model", "model", "what is trained"),
        ("guarantee", "proven", "proven ε", "proven",
         "by an accountant whose assumptions this code meets"),
        ("guarantee", "stated", "stated ε", "stated", "by a component that nobody reviewed"),
        ("guarantee", "claimed", "claimed ε", "claimed", "as the paper computes it"),
        ("guarantee", "bound", "ε at least", "at-least",
         "what attacks refuted from below, with their confidence"),
        ("run", "seeds", "seeds", "seeds", "runs that finished"),
        ("run", "delta", "δ", "delta", "of the guarantees"),
        ("run", "learned", "learned", "learned-nothing",
         "whether the utility that ranks is surely better than the best floor"),
        ("run", "device", "device", "device", "where the runs trained"),
    )
)  # fmt: skip
"""Columns beside those of metrics; `place` is where the glossary explains them."""


def _row(row: Row) -> dict[str, Any]:
    spec = row.spec
    return {
        "id": row.group,
        "label": row.label,
        "mechanisms": [part.name for part in spec.mechanism],
        "task": spec.task.name,
        "source": spec.source.name,
        "model": spec.model.name,
        "delta": spec.delta,
        "n": len(row.seeds),
        "learned": row.learned,
        "texts": {
            "seeds": seeds_text(row),
            "delta": f"{spec.delta:g}",
            "learned": {True: "yes", False: "nothing", None: "unknown"}[row.learned],
        },
        "older": row.older_code,
        "failed": len(row.failed),
        "device": row.device,
        "kinds": _kinds_of_guarantees(row.guarantees),
        "guarantees": [_guarantee(found, row) for found in row.guarantees],
        "bounds": [_bound(found, row) for found in row.bounds],
        "distances": at_distances(row.epsilon_at),
        "runs": [
            {"id": run.id, "seed": _whole(run.seed), "error": run.error, "page": run_page(run.id)}
            for run in row.runs
        ],
        "skipped": [
            *({"name": one.name, "reason": one.reason} for one in row.skipped_attacks),
            *({"name": one.name, "reason": f"failed: {one.reason}"} for one in row.failed_attacks),
        ],
        "selection": bool(row.selection),
    }


# ----------------------------------------------------------------------------------------- columns


def _kinds(row: Row) -> Iterator[tuple[str, str, Mapping[str, Stat]]]:
    """Kind of metric, the attack that measured it or "", and the values."""
    yield "utility", "", row.utility
    for attack, values in row.leakage.items():
        yield "leakage", attack, values
    yield "cost", "", row.cost
    yield "diagnostics", "", row.diagnostics


def _key(kind: str, attack: str, name: str) -> str:
    """A column's key: no two metrics share one, whatever they are called."""
    return f"{column_prefix(attack) if kind == 'leakage' else kind}.{name}"


def metric_columns(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What is known of every metric of any row, in the order in which tables show them.

    `place` is where the glossary explains it.
    """
    kinds = ("utility", "leakage", "cost", "diagnostics")
    turned = _directions(rows)
    found: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
    for row in rows:
        for kind, attack, values in _kinds(row):
            # An attack whose metrics nobody knows still shows its first one.
            known = any(metric(kind, name).main for name in values)
            for at, name in enumerate(values):
                key = _key(kind, attack, name)
                if key in found or (kind in _COUNTS and not metric(kind, name).about):
                    continue
                told = asdict(metric(kind, name))
                if kind == "utility" and name in turned:
                    told |= {"better": turned[name], "main": True}
                told |= {end: _short(told[end]) for end in ("low", "high")}
                told["main"] |= kind == "leakage" and not known and at == 0
                place = (kinds.index(kind), attack, order(kind, name), _natural(name))
                group = f"leakage: {attack}" if kind == "leakage" else kind
                named = {"key": key, "kind": kind, "attack": attack, "group": group,
                         "heading": _heading(metric(kind, name)),
                         "floor": _floor(metric(kind, name))}  # fmt: skip
                found[key] = place, named | told
    shown = [column for _, column in sorted(found.values(), key=lambda one: one[0])]
    return [column | {"place": place} for column, place in zip(shown, places(shown), strict=True)]


def _heading(known: Metric) -> str:
    """A metric's label with its unit, unless the label ends with it."""
    if known.percent:
        return f"{known.label} %"
    plain = not known.unit or known.label.rpartition(" ")[2] == known.unit
    return known.label if plain else f"{known.label} ({known.unit})"


def _floor(known: Metric) -> str:
    """What a metric is where nothing leaks, as text; empty where that is not known."""
    if known.nothing is None:
        return ""
    return f"{number(100.0 * known.nothing)} %" if known.percent else number(known.nothing)


def _directions(rows: Sequence[Row]) -> dict[str, str | None]:
    """Which way is better, for each metric that ranks some rows; None where rows disagree."""
    said: dict[str, set[str | None]] = {}
    for row in rows:
        if row.headline is not None:
            name = row.headline.metric
            said.setdefault(name, set()).add(ranking(metric("utility", name), row.headline).better)
    return {name: found.pop() if len(found) == 1 else None for name, found in said.items()}


_COUNTS = {"cost", "diagnostics"}
"""Kinds of which only what `metrics` knows is a column; there are many, and few compare."""


def _natural(name: str) -> tuple[str | int, ...]:
    """A key that sorts numbers in names as numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _numbers(row: Row, places: Mapping[str, int], results: Mapping[str, Result]) -> dict[str, Any]:
    """`values`: [column, mean, low, high, seeds, text]; `seeds`: the runs' values in this order."""
    stats = {_key(kind, attack, name): stat for kind, attack, values in _kinds(row)
             for name, stat in values.items()}  # fmt: skip
    texts = {_key(kind, attack, name): _text(metric(kind, name), stat, len(row.seeds))
             for kind, attack, values in _kinds(row) for name, stat in values.items()}  # fmt: skip
    shown = [key for key in stats if key in places]
    runs = {str(run.seed): _of_run(results[run.id]) for run in row.runs
            if run.status == "finished" and run.id in results}  # fmt: skip
    return {
        "values": [[places[key], *_stat(stats[key]), texts[key]] for key in shown],
        "seeds": {seed: [values.get(key) for key in shown] for seed, values in runs.items()},
    }


def _of_run(result: Result) -> dict[str, Any]:
    """One run's values of the metrics that it measured; costs are not compared by seed."""
    groups = [("utility", "", result.utility)]
    groups += [("leakage", attack, values) for attack, values in result.leakage.items()]
    return {
        _key(kind, attack, name): _short(estimate.value)
        for kind, attack, values in groups
        for name, estimate in values.items()
    }


# ------------------------------------------------------------------------------------------ values


def _stat(stat: Stat) -> list[Any]:
    return [*(None if x is None else _short(x) for x in (stat.value, stat.low, stat.high)), stat.n]


def _text(known: Metric, stat: Stat, seeds: int) -> str:
    """Mean and interval; one that not all of a row's seeds have says how many do."""
    text = stat_text(stat, 100.0 if known.percent else 1.0, limits=(known.low, known.high))
    return f"{text} (n = {stat.n})" if stat.n == 1 or stat.n < seeds else text


def _short(value: float) -> float | str:
    """The number with six significant digits, as pages show it."""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return float(f"{value:.6g}")


def _whole(number: int) -> int | str:
    """JavaScript's numbers are floats: larger ones would be read as others."""
    return number if abs(number) < 2**53 else str(number)


def _kinds_of_guarantees(guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    """What filters ask of guarantees: `all` of those that protect data, and of each of `units`.

    Computation that nobody sees protects none, and spoils none. Units are those of which a row has
    a finite epsilon.
    """
    units = dict.fromkeys(one.unit for one in guarantees if one.epsilon < math.inf)
    return {
        "all": _states(one for one in guarantees if one.unit != "computation"),
        "units": {unit: _states(one for one in guarantees if one.unit == unit) for unit in units},
    }


def _states(guarantees: Iterable[Guarantee]) -> list[str]:
    """Kinds with a finite epsilon, and what is wrong with the others."""
    several = list(guarantees)
    kinds = [*dict.fromkeys(one.kind for one in several if one.epsilon < math.inf)]
    refuted = any(one.status == "refuted" for one in several)
    return [*kinds, *["not proven"] * ("proven" not in kinds), *["claim refuted"] * refuted]


def _conditions(one: Guarantee | LowerBound, row: Row) -> str:
    """What is to be known of a guarantee or a bound beside its text.

    The row's own delta stands below the table; no delta at all promises more.
    """
    notion = one.notion if isinstance(one, Guarantee) else "dp"
    named = f", {notion}" if notion in ("metric-dp", "simulation") else ""
    other = one.epsilon < math.inf and one.delta and one.delta != row.spec.delta
    return one.adjacency + named + (f", δ = {one.delta:g}" if other else "")


def _guarantee(found: Guarantee, row: Row) -> dict[str, Any]:
    return {
        "under": _conditions(found, row),
        "kind": found.kind,
        "notion": found.notion,
        "unit": found.unit,
        "adjacency": found.adjacency,
        "epsilon": _short(found.epsilon),
        "delta": found.delta,
        "status": found.status,
        "reason": found.reason,
        "source": found.source,
        "text": guarantee_text(found),
        "curve": [[p.spread, p.sentences, _short(p.epsilon)] for p in found.curve],
        "protected": None if found.protected is None else found.protected.spread,
    }


def _bound(found: LowerBound, row: Row) -> dict[str, Any]:
    return {
        "under": _conditions(found, row),
        "unit": found.unit,
        "adjacency": found.adjacency,
        "epsilon": _short(found.epsilon),
        "delta": found.delta,
        "confidence": found.confidence,
        "attack": found.attack,
        "spread": found.spread,
        "sentences": found.sentences,
        "text": bound_text(found, row.guarantees),
    }


def _plain(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else repr(value) for key, value in values.items()}
