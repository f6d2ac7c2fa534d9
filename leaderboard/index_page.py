"""Data of the table's page: rows, columns and comparable sets, as JSON values.

Numbers have six significant digits (the downloads have all); infinity is the string "inf".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import LowerBound, Result
from uedp_bench.leaderboard.boards import (
    boards,
    differences,
    generated,
    identity,
    is_unprotected,
    labels,
    real_first,
    title,
)
from uedp_bench.leaderboard.cell_text import (
    at_distances,
    bound_text,
    counted_text,
    guarantee_text,
    seeds_text,
    stat_text,
)
from uedp_bench.leaderboard.comparisons import (
    better_than_unprotected,
    references,
    verdicts,
)
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
from uedp_bench.leaderboard.table_columns import (
    FIELDS,
    column_key,
    metric_columns,
    metrics_of,
    presets,
    short,
)

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def run_page(identifier: str) -> str:
    """Path of a run's page, from the site's root.

    Raises:
        ValueError: if the id is no name of a file; ids are hexadecimal digests.
    """
    if not _SAFE.fullmatch(identifier):
        raise ValueError(f"id {identifier!r} is not a name of letters, digits, '_' and '-'")
    return f"runs/{identifier}.html"


class TableData:
    """Data of the table's page.

    Args:
        rows: rows of the leaderboard, aggregated from `results`.
        results: results by id.
    """

    def __init__(self, rows: Sequence[Row], results: Mapping[str, Result]) -> None:
        self._results, self._boards = results, real_first(boards(rows))
        self._board = -1
        columns = metric_columns(rows)
        self._places = {column["key"]: at for at, column in enumerate(columns)}
        self.frame: dict[str, Any] = {
            "sets": [
                _set(board) | {"letter": _letter(at), "plots": plots(board, columns),
                               "presets": presets(board, columns)}
                for at, board in enumerate(self._boards)
            ],
            "columns": columns,
            "looks": looks((row.label, at) for at, board in enumerate(self._boards)
                           for row in board),
            "plot": FRAME,
            "marks": MARKS,
            "fields": FIELDS,
            "rows": [],
            "runs": sum(len(row.runs) for row in rows),
            "failed": sum(len(row.failed) for row in rows),
            "initial": _initial(self._boards),
        }  # fmt: skip
        """Everything but its rows."""

    def rows(self, first: int = 0, last: int | None = None) -> Iterator[dict[str, Any]]:
        """The rows from the first to before the last, made one after the other.

        Those of a large leaderboard take much memory.
        """
        begin = 0
        for at, board in enumerate(self._boards):
            low = max(first - begin, 0)
            high = len(board) if last is None else min(last - begin, len(board))
            begin += len(board)
            if low < high:
                labelled = zip(board, *self._labelled(at), strict=True)
                better, budgets = better_than_unprotected(board), sorted(finite_budgets(board))
                bare = list(filter(is_unprotected, board))
                for row, label, differing in islice(labelled, low, high):
                    named = {"set": at, "mechanism": label, "differs": _plain(differing),
                             "better": row.group in better, "beside": _beside(row, bare),
                             "epsilons": epsilons(row, budgets)}  # fmt: skip
                    yield named | _row(row) | _numbers(row, self._places, self._results)

    def _labelled(self, at: int) -> tuple[Sequence[str], Sequence[Mapping[str, Any]]]:
        """Labels and differences of a board's rows; those of the last board are kept."""
        if self._board != at:
            self._board, self._labels = at, labels(self._boards[at])
            self._differences = differences(self._boards[at])
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
    percent = board[0].metrics.metric("utility", name or "").percent
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


def first_board(boards: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """Board to show first: real text before generated, then most mechanisms, attacks, rows."""
    return max(
        boards,
        key=lambda rows: (
            not generated(rows),
            len({row.label for row in rows}),
            len({attack for row in rows for attack in row.leakage}),
            len(rows),
        ),
        default=(),
    )


def _initial(boards: Sequence[Sequence[Row]]) -> dict[str, str]:
    """The state of the page that shows the first board."""
    board = first_board(boards)
    if not board:
        return {}
    spec = board[0].spec
    return {"task": spec.task.name, "source": spec.source.name, "set": identity(board)}


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
        "guarantees": [_guarantee(each, row) for each in row.guarantees],
        "bounds": [_bound(each, row) for each in row.bounds],
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


def _beside(row: Row, bare: Sequence[Row]) -> dict[str, tuple[str, ...]]:
    """Small lines below values that tell members from non-members, by column."""
    lines = {
        column_key("leakage", verdict.attack, name): verdict.lines(name)
        for verdict in verdicts(row, bare)
        for name in row.leakage[verdict.attack]
    }
    return {key: each for key, each in lines.items() if each}


def _numbers(row: Row, places: Mapping[str, int], results: Mapping[str, Result]) -> dict[str, Any]:
    """`values`: [column, mean, low, high, seeds, text]; `seeds`: the runs' values in this order."""
    stats, texts = {}, {}
    for kind, attack, values in metrics_of(row):
        for name, stat in values.items():
            key = column_key(kind, attack, name)
            metric = row.metrics.metric(kind, name, attack)
            stats[key], texts[key] = stat, _text(metric, stat, len(row.seeds))
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
        column_key(kind, attack, name): short(estimate.value)
        for kind, attack, values in groups
        for name, estimate in values.items()
    }


# ------------------------------------------------------------------------------------------ values


def _stat(stat: Stat) -> list[Any]:
    return [*(None if x is None else short(x) for x in (stat.value, stat.low, stat.high)), stat.n]


def _text(metric: Metric, stat: Stat, seeds: int) -> str:
    """Mean and interval; one that not all of a row's seeds have says how many do."""
    text = stat_text(stat, 100.0 if metric.percent else 1.0, limits=(metric.low, metric.high))
    return counted_text(text, stat, max(seeds, 2))


def _whole(number: int) -> int | str:
    """JavaScript's numbers are floats: larger ones would be read as others."""
    return number if abs(number) < 2**53 else str(number)


def _kinds_of_guarantees(guarantees: Sequence[Guarantee]) -> dict[str, Any]:
    """Facets of guarantees for filters: `all` of those that protect data, and of each of `units`.

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
    """Conditions of a guarantee or a bound, beside its text.

    The row's own delta stands below the table; no delta at all promises more.
    """
    notion = one.notion if isinstance(one, Guarantee) else "dp"
    named = f", {notion}" if notion in ("metric-dp", "simulation") else ""
    other = one.epsilon < math.inf and one.delta and one.delta != row.spec.delta
    return one.adjacency + named + (f", δ = {one.delta:g}" if other else "")


def _guarantee(guarantee: Guarantee, row: Row) -> dict[str, Any]:
    return {
        "under": _conditions(guarantee, row),
        "kind": guarantee.kind,
        "notion": guarantee.notion,
        "unit": guarantee.unit,
        "adjacency": guarantee.adjacency,
        "epsilon": short(guarantee.epsilon),
        "delta": guarantee.delta,
        "status": guarantee.status,
        "reason": guarantee.reason,
        "source": guarantee.source,
        "text": guarantee_text(guarantee),
        "curve": [[p.spread, p.sentences, short(p.epsilon)] for p in guarantee.curve],
        "protected": None if guarantee.protected is None else guarantee.protected.spread,
    }


def _bound(bound: LowerBound, row: Row) -> dict[str, Any]:
    return {
        "under": _conditions(bound, row),
        "unit": bound.unit,
        "adjacency": bound.adjacency,
        "epsilon": short(bound.epsilon),
        "delta": bound.delta,
        "confidence": bound.confidence,
        "attack": bound.attack,
        "spread": bound.spread,
        "sentences": bound.sentences,
        "text": bound_text(bound, row.guarantees),
    }


def _plain(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: value if isinstance(value, str) else repr(value) for key, value in values.items()}


MOST_IN_PAGE = 2000
"""Rows of a table whose page holds them all."""

ROWS = 500
"""Rows of a piece."""


class Pieces:
    """The pieces of a table; none where its page holds its rows.

    Args:
        rows, results: see `TableData`.
    """

    def __init__(self, rows: Sequence[Row], results: Mapping[str, Result]) -> None:
        self._rows, self._results = rows, results
        many = len(rows) > MOST_IN_PAGE
        self.names = [f"assets/rows-{at + 1:03}.js" for at in range(-(-len(rows) // ROWS) * many)]
        """Their files, from the site's root."""

    def files(self) -> dict[str, Callable[[], Iterator[str]]]:
        """Makers of all pieces, by file name."""
        return {name: partial(self._piece, at) for at, name in enumerate(self.names)}

    @cached_property
    def _table(self) -> TableData:
        return TableData(self._rows, self._results)

    def _piece(self, at: int) -> Iterator[str]:
        text = embedded(list(self._table.rows(at * ROWS, (at + 1) * ROWS)))
        quoted = json.dumps(text, ensure_ascii=False)
        yield f"(window.uedpRows ||= []).push(JSON.parse({quoted}));\n"


def embedded(value: Any) -> str:
    """JSON that may stand in a script element: no value of it can end the element."""
    return in_script(json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False))


def in_script(text: str) -> str:
    """JSON text with its marks escaped that could end a script element."""
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text
