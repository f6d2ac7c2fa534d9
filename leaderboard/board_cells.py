"""Plain text cells of the tables: one pair of sheets for every set of comparable rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from uedp_bench.components.metric import Declared, Kind, Metric
from uedp_bench.leaderboard.boards import boards, is_unprotected, labels, title
from uedp_bench.leaderboard.cell_text import (
    NONE,
    bounds_text,
    counted_text,
    guarantee_text,
    guarantees_text,
    number,
    seeds_text,
    stat_text,
)
from uedp_bench.leaderboard.comparisons import (
    BETTER,
    EXPLANATION,
    WHY,
    Verdict,
    better_than_unprotected,
    choice_note,
    references,
    verdicts,
)
from uedp_bench.leaderboard.installed import NOTE as OLDER_NOTE
from uedp_bench.leaderboard.installed import OLDER
from uedp_bench.leaderboard.over_seeds import NOTHING
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.table_columns import flattering, heading, natural, value_text


@dataclass(frozen=True)
class Sheet:
    """A table of text. The first column is the mechanism, the others are numbers.

    Attributes:
        title: kind and subject of the sheet.
        notes: lines that belong under it.
    """

    title: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


Column = tuple[str, Callable[[Row], str]]


def sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Two sheets (utility and guarantee; leakage and cost) for every comparable set of rows."""
    out = []
    for board in boards(rows):
        older = [row.older_code for row in board]
        mixed = any(older) and not all(older)
        names = [
            f"{label} ({OLDER})" if mixed and row.older_code else label
            for label, row in zip(labels(board), board, strict=True)
        ]
        for name, columns, notes in (
            ("utility and guarantee", _left(board), _left_notes(board)),
            ("leakage and cost", _right(board), _right_notes(board)),
        ):
            cells = tuple(
                (label, *(cell(row) for _, cell in columns))
                for label, row in zip(names, board, strict=True)
            )
            if columns and columns[0][0] == "seeds":
                cells += tuple(_reference_cells(board, columns))
            heads = ("mechanism", *(head for head, _ in columns))
            out.append(Sheet(f"{title(board)}: {name}", heads, cells, notes))
    return out


# ----------------------------------------------------------------------------------------- columns


def _left(board: Sequence[Row]) -> list[Column]:
    columns: list[Column] = [("seeds", seeds_text)]
    first, better = headline(board[0])[0], better_than_unprotected(board)
    for metric in _utility(board):
        column = _column(metric, "utility")
        columns.append(_marked(column, better) if metric.name == first else column)
    columns += [
        ("claimed ε", lambda row: guarantees_text(row, "claimed")),
        ("proven ε", lambda row: guarantees_text(row, "proven")),
    ]
    if any(one.kind == "stated" for row in board for one in row.guarantees):
        columns.append(("stated ε", lambda row: guarantees_text(row, "stated")))
    if any(row.lower_bounds for row in board):
        columns.append(("ε at least", bounds_text))
    return columns + [_column(one, "diagnostics") for one in measured(board, "diagnostics")
                      if one.main]  # fmt: skip


def _utility(board: Sequence[Row]) -> list[Metric]:
    """The headline metric, one more and a third main one, with those that are no better or worse.

    Floors stand in rows of their own, and all others on the run's own page.
    """
    first, metrics = headline(board[0])[0], measured(board, "utility")
    ranked = [one for one in metrics if one.better or one.name == first]
    ranked.sort(key=lambda one: (one.name != first, not one.main))
    third = [one for one in ranked[2:3] if one.main]
    return ranked[:2] + third + flattering(metrics)


def measured(board: Sequence[Row], kind: Kind, attack: str = "") -> list[Metric]:
    """The metrics of a kind, or an attack, that any row has, in the order of declarations.

    Undeclared ones come last, in the order of the results.
    """
    first: dict[str, Row] = {}
    for row in board:
        for name in _stats(row, kind, attack):
            first.setdefault(name, row)

    def place(at: int, name: str, metrics: Declared) -> tuple[Any, ...]:
        source = metrics.place(kind, name, attack)
        declares = source < len(metrics.declarations(kind, attack))
        return source, natural(name if declares else str(at))

    named = [(place(at, name, row.metrics), row.metrics.metric(kind, name, attack))
             for at, (name, row) in enumerate(first.items())]  # fmt: skip
    return [one for _, one in sorted(named, key=lambda each: each[0])]


def _reference_cells(board: Sequence[Row], columns: Sequence[Column]) -> Iterator[tuple[str, ...]]:
    """A row of the table for every baseline and floor of the headline metric."""
    name = headline(board[0])[0] or ""
    metric = board[0].metrics.metric("utility", name)
    head = heading(metric) if any(name in row.utility for row in board) else None
    for one in references(board):
        ends = (number(end * (100.0 if metric.percent else 1.0)) for end in (one.low, one.high))
        text = " to ".join(dict.fromkeys(ends))
        yield (one.label, *(text if title == head else NONE for title, _ in columns))


def _right(board: Sequence[Row]) -> list[Column]:
    columns, bare = [], list(filter(is_unprotected, board))
    for attack in dict.fromkeys(name for row in board for name in row.leakage):
        read = {row.group: each for row in board for each in verdicts(row, bare)
                if each.attack == attack}  # fmt: skip
        columns += [
            _judged(_column(one, "leakage", attack), one.name, read) for one in shown(board, attack)
        ]
    return columns + [_column(one, "cost") for one in measured(board, "cost") if one.main]


def shown(board: Sequence[Row], attack: str) -> list[Metric]:
    """The main metrics of an attack; the first one where none is."""
    metrics = measured(board, "leakage", attack)
    return [one for one in metrics if one.main] or metrics[:1]


def _stats(row: Row, kind: Kind, attack: str) -> Mapping[str, Stat]:
    stats: Mapping[str, Stat] = row.leakage.get(attack, {}) if attack else getattr(row, kind)
    return stats


def _column(metric: Metric, kind: Kind, attack: str = "") -> Column:
    """A column of a metric. References and costs are means alone, to keep the table narrow."""
    plain = kind == "cost" or (kind != "diagnostics" and not metric.better)
    scale = 100.0 if metric.percent else 1.0

    def cell(row: Row) -> str:
        stat = _stats(row, kind, attack).get(metric.name)
        text = stat_text(stat, scale, plain, (metric.low, metric.high))
        return text if stat is None else counted_text(text, stat, len(row.seeds))

    return heading(metric), cell


_WIDE = 26
"""Characters of a line of a verdict."""


def _judged(column: Column, name: str, read: Mapping[str, Verdict]) -> Column:
    """A metric's column, verdicts by group below its values where it is the attack's headline."""
    title, cell = column

    def judged(row: Row) -> str:
        verdict = read.get(row.group)
        if verdict is None or name != verdict.headline:
            return cell(row)
        return "\n".join([cell(row), *verdict.beside(name), fill(verdict.words, _WIDE)])

    return title, judged


def _marked(column: Column, better: frozenset[str]) -> Column:
    """The column that ranks, with marks at rows that contradict the table."""
    title, cell = column

    def marked(row: Row) -> str:
        marks = [NOTHING] * (row.learned is False) + [BETTER] * (row.group in better)
        return "\n".join([cell(row), *marks])

    return title, marked


# ------------------------------------------------------------------------------------------- notes


def _left_notes(board: Sequence[Row]) -> tuple[str, ...]:
    deltas = sorted({row.spec.delta for row in board})
    notes = [f"δ = {', '.join(f'{delta:g}' for delta in deltas)}; ± is half of the 95 % interval "
             "over seeds (Student's t)"]  # fmt: skip
    if any(len(row.seeds) == 1 for row in board):
        notes.append("rows with 1 seed (n = 1) have no interval")
    if any(row.older_code for row in board):
        notes.append(OLDER_NOTE)
    if any(row.learned is False for row in board):
        notes.append(f"{NOTHING}: no better than the best floor, the interval considered; such "
                     "rows come last")  # fmt: skip
    if better_than_unprotected(board):
        notes.append(f"{BETTER}: {WHY}, and nothing here says what privacy costs")
    if any(one.kind == "baseline" for one in references(board)):
        notes.append("baseline: a cheap model of the same training text, without privacy")
    notes += filter(None, [choice_note(board)])
    if any(row.learned is None and row.seeds for row in board):
        unknown = len([row for row in board if row.learned is None and row.seeds])
        notes.append(f"{unknown} of {len(board)} rows do not say if anything was learnt")
    metrics = measured(board, "utility")
    beside = [_range(board, one) for one in metrics if not (one.better or one.main or one.baseline)]
    if beside:
        notes.append(f"for reference: {', '.join(beside)}")
    notes += [f"{one.label}: {one.about}" for one in flattering(metrics)]
    failures = (f"failed: {row.label}, seed {run.seed}: {run.error}"
                for row in board for run in row.failed)  # fmt: skip
    if any(row.lower_bounds for row in board):
        notes.append("ε at least: lower bounds by attacks, with their confidence; the highest of "
                     "several seeds or attacks pays for the choice")  # fmt: skip
    strange = (f"{row.label}: {g.note}" for row in board for g in row.guarantees
               if g.kind == "stated" and g.note)  # fmt: skip
    if any(bound.assumptions for row in board for bound in row.bounds):
        notes.append("assumed: more than the attack's own coins; the results say what")
    reasons = (f"{g.status}: {row.label}: "
               f"{'' if g.status == 'refused' else guarantee_text(g) + ': '}{g.reason}"
               for row in board for g in row.guarantees if g.status != "given")  # fmt: skip
    chosen = (f"selection: {row.label}: {_selection(row.selection)}"
              for row in board if row.selection)  # fmt: skip
    return tuple(dict.fromkeys([*notes, *strange, *reasons, *chosen, *failures]))


def _range(board: Sequence[Row], metric: Metric) -> str:
    """A metric, from the least to the largest where rows of a table were trained on others."""
    values = [row.utility[metric.name].value for row in board if metric.name in row.utility]
    ends = dict.fromkeys(value_text(metric, end) for end in (min(values), max(values)))
    return f"{metric.label} {' to '.join(ends)}"


def _selection(record: Mapping[str, Any]) -> str:
    """Choice of hyper-parameters, and its cost in privacy."""
    text = f"best of {record['settings']} settings, compared on {record['scores']} text"
    entries = record["guarantees"]
    parts = [f"charged: {record['method']}"] if record["method"] else []
    parts += dict.fromkeys(
        f"not charged ({entry['unit']}): {entry['reason']}"
        for entry in entries
        if not entry["charged"]
    )
    return "; ".join([text, *(parts or ["nothing is proven that could be charged"])])


def _right_notes(board: Sequence[Row]) -> tuple[str, ...]:
    devices = ", ".join(dict.fromkeys(row.device for row in board if row.device))
    skipped = (f"{row.label}: {attack.name} does not apply: {attack.reason}"
               for row in board for attack in row.skipped_attacks)  # fmt: skip
    facts = [f"device: {devices}"] if devices else []
    attacks = dict.fromkeys(name for row in board for name in row.leakage)
    floors = [f"{one.label} {value_text(one, one.no_leak)}" for attack in attacks
              for one in shown(board, attack) if one.no_leak is not None]  # fmt: skip
    if floors:
        facts.insert(0, f"where nothing leaks: {', '.join(floors)}")
    if any(row.leaks for row in board):
        facts.append(EXPLANATION)
    failures = (f"{row.label}: {attack.name} failed: {attack.reason}"
                for row in board for attack in row.failed_attacks)  # fmt: skip
    return tuple(dict.fromkeys([*facts, *skipped, *failures]))
