"""The leaderboard as a terminal table, Markdown, CSV or JSON: a pure function of results."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from uedp_bench.cli.terminal import plain
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.metrics import column_prefix
from uedp_bench.leaderboard.rows import Row, Stat, aggregate, select
from uedp_bench.leaderboard.sheets import Sheet, sheets

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

__all__ = [
    "Row",
    "Stat",
    "aggregate",
    "load_results",
    "render",
    "select",
    "to_csv",
    "to_json",
    "to_markdown",
    "to_text",
]


def render(rows: Sequence[Row]) -> Group:
    """Tables for a terminal of 120 columns, two for every set of comparable rows."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Table | Text] = []
    for sheet in sheets(rows):
        parts += [Text(plain(sheet.title), style="bold"), _table(sheet)]
        parts += [Text(plain(note), style="dim") for note in sheet.notes]
        parts.append(Text(""))
    return Group(*parts[:-1])


def to_text(rows: Sequence[Row], width: int = 120, *, styles: bool = False) -> str:
    """The tables as text of so many columns; `styles` for a terminal."""
    from rich.console import Console

    screen = Console(width=width, record=True, file=io.StringIO(), highlight=False)
    screen.print(render(rows))
    return screen.export_text(styles=styles)


def _table(sheet: Sheet) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for at, name in enumerate(sheet.columns):
        table.add_column(
            Text(plain(name)), justify="right" if at else "left", min_width=_least(sheet, at)
        )
    for cells in sheet.cells:
        table.add_row(*(Text(plain(cell, lines=True)) for cell in cells))
    return table


def _least(sheet: Sheet, at: int) -> int:
    """Words and numbers with their intervals stay whole; only between them may a cell wrap."""
    cells = [sheet.columns[at], *(row[at].replace(" ±", "_±") for row in sheet.cells)]
    return max(len(word) for cell in cells for word in cell.split())


def to_markdown(rows: Sequence[Row]) -> str:
    """The same tables in GitHub's Markdown."""
    blocks = []
    for sheet in sheets(rows):
        marks = [":--", *["--:"] * (len(sheet.columns) - 1)]
        lines = [_pipes(sheet.columns), _pipes(marks), *(_pipes(cells) for cells in sheet.cells)]
        notes = "".join(f"\n- {plain(note)}" for note in sheet.notes)
        blocks.append(
            f"### {plain(sheet.title)}\n\n" + "\n".join(lines) + (f"\n{notes}" if notes else "")
        )
    return "\n\n".join(blocks) + "\n"


def _pipes(cells: Sequence[str]) -> str:
    shown = (plain(cell, lines=True).replace("|", "\\|").replace("\n", "<br>") for cell in cells)
    return f"| {' | '.join(shown)} |"


def to_json(rows: Sequence[Row]) -> str:
    """A list of row objects with everything that is known of them; infinity is "inf"."""
    return json.dumps([_object(row) for row in rows], indent=1, allow_nan=False)


def _object(row: Row) -> dict[str, Any]:
    found = row.model_dump(mode="json")
    found["spec"].pop("seed")
    return {
        "mechanism": row.label,
        "task": row.spec.task.name,
        "source": row.spec.source.name,
        "model": row.spec.model.name,
        "seeds": list(row.seeds),
        "n": len(row.seeds),
        **found,
    }


def to_csv(rows: Sequence[Row]) -> str:
    """One line a row; every metric has the columns NAME, NAME.low, NAME.high and NAME.n.

    Text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    lines = [_line(row) for row in rows]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_harmless, columns))
    writer.writerows([_harmless(line.get(name, "")) for name in columns] for line in lines)
    return out.getvalue()


def _harmless(value: Any) -> Any:
    value = plain(value, lines=True) if isinstance(value, str) else value
    formula = isinstance(value, str) and _FORMULA.match(value) and not _NUMBERS.fullmatch(value)
    return f"'{value}" if formula else value


_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBERS = re.compile(r"-inf|-?\d+( -?\d+)*")
"""What begins with a sign and is no formula: infinity, and seeds."""


def _line(row: Row) -> dict[str, Any]:
    found = _object(row)
    line = {name: found[name] for name in ("mechanism", "task", "source", "model", "group")}
    line |= {"seeds": " ".join(map(str, row.seeds)), "failed": len(row.failed)}
    line["error"] = "; ".join(run.error for run in row.failed)
    for kind in ("utility", "diagnostics", "cost"):
        line |= _columns(kind, found[kind])
    for attack, metrics in found["leakage"].items():
        line |= _columns(column_prefix(attack), metrics)
    for guarantee in found["guarantees"]:
        name = f"{guarantee['kind']}.{guarantee['unit']}.{guarantee['adjacency']}"
        line[f"{name}.notion"] = guarantee["notion"]
        line[f"{name}.epsilon"] = guarantee["epsilon"]
        line[f"{name}.delta"] = guarantee["delta"]
        line[f"{name}.status"] = guarantee["status"]
        line[f"{name}.reason"] = guarantee["reason"]
        line[f"{name}.accountant"] = guarantee["accountant"]
        if guarantee["protected"] is not None:
            for part, value in guarantee["protected"].items():
                line[f"{name}.protected.{part}"] = value
    for bound in (one.model_dump(mode="json") for one in row.bounds):
        point = [f"{part}={bound[part]}" for part in ("spread", "sentences")
                 if bound[part] is not None]  # fmt: skip
        name = ".".join(["at_least", bound["unit"], bound["adjacency"], *point])
        for part in ("epsilon", "delta", "confidence", "strict_epsilon", "attack"):
            line[f"{name}.{part}"] = "" if bound[part] is None else bound[part]
    if row.selection:
        line["selection"] = json.dumps(row.selection)
    line["runs"] = " ".join(run.id for run in row.runs)
    line["mlflow_runs"] = " ".join(
        run.tracking.get("mlflow_run_id", "") for run in row.runs
    ).strip()
    return line


def _columns(prefix: str, stats: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, stat in stats.items():
        out[f"{prefix}.{name}"] = stat["value"]
        for part in ("low", "high", "n"):
            out[f"{prefix}.{name}.{part}"] = "" if stat[part] is None else stat[part]
    return out
