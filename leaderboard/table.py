"""The leaderboard as a terminal table, Markdown, CSV or JSON: a pure function of results."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import regex

from uedp_bench.errors import plain
from uedp_bench.leaderboard.board_cells import Sheet, sheets
from uedp_bench.leaderboard.cell_text import PER_DISTANCE
from uedp_bench.leaderboard.comparisons import BETTER, warnings
from uedp_bench.leaderboard.rows import Row
from uedp_bench.leaderboard.table_columns import column_prefix, quoted

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text


def render(rows: Sequence[Row], width: int = 120) -> Group:
    """Tables for a terminal, two for every set of comparable rows.

    A table that does not fit into so many columns goes on in another with the rest of its columns.
    """
    from rich.console import Group
    from rich.text import Text

    parts: list[Table | Text] = []
    for sheet in sheets(rows):
        parts.append(Text(plain(sheet.title), style="bold"))
        parts += [_table(part, width) for part in _parts(sheet, width)]
        parts += [Text(plain(note), style="dim") for note in sheet.notes]
        parts.append(Text(""))
    return Group(*parts[:-1])


def to_text(rows: Sequence[Row], width: int = 120, *, styles: bool = False) -> str:
    """The tables as text of so many columns; `styles` for a terminal."""
    from rich.console import Console

    # Without force_jupyter a notebook would show the table beside the text that it asked for.
    screen = Console(
        width=width, record=True, file=io.StringIO(), highlight=False, force_jupyter=False
    )
    screen.print(render(rows, width))
    return screen.export_text(styles=styles)


def _parts(sheet: Sheet, width: int) -> list[Sheet]:
    """The sheet, or several with the same first column that fit into so many columns each."""
    groups: list[list[int]] = [[]]
    left = room = max(1, width - _LABEL - 2 * _BETWEEN)
    for at in range(1, len(sheet.columns)):
        need = _least(sheet, at) + _BETWEEN
        if need > left and groups[-1]:
            groups.append([])
            left = room
        groups[-1].append(at)
        left -= need
    return [
        replace(
            sheet,
            columns=tuple(sheet.columns[at] for at in (0, *group)),
            cells=tuple(tuple(cells[at] for at in (0, *group)) for cells in sheet.cells),
        )
        for group in groups
    ]


_LABEL = 24
"""Columns that names of mechanisms have at least; longer ones wrap."""

_BETWEEN = 2
"""Columns that rich adds to every cell."""


def _table(sheet: Sheet, width: int) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    widths = _widths(sheet, width)
    for at, name in enumerate(sheet.columns):
        table.add_column(
            Text(plain(name)), justify="right" if at else "left", width=widths[at], overflow="fold"
        )
    for cells in sheet.cells:
        table.add_row(*map(_terminal_cell, cells))
    return table


def _terminal_cell(cell: str) -> Text:
    from rich.text import Text

    return Text(plain(cell, lines=True), style="bold red" if BETTER in cell.split("\n") else "")


def _widths(sheet: Sheet, width: int) -> list[int]:
    """Widths of the columns: what each needs, then a share of the rest. Rich would cut some."""
    widths = [_least(sheet, at) for at in range(len(sheet.columns))]
    widths[0] = min(widths[0], _LABEL)
    left = width - sum(widths) - _BETWEEN * len(widths)
    for at, least in enumerate(widths):
        lines = [line for row in (sheet.columns, *sheet.cells) for line in row[at].split("\n")]
        more = min(max(0, max(map(len, lines)) - least), max(0, left))
        widths[at] += more
        left -= more
    return widths


def _least(sheet: Sheet, at: int) -> int:
    """Words and numbers with their intervals stay whole; only between them may a cell wrap."""
    cells = [sheet.columns[at], *(row[at].replace(" ±", "_±") for row in sheet.cells)]
    return max(len(plain(word)) for cell in cells for word in cell.split())


def to_markdown(rows: Sequence[Row]) -> str:
    """Write the tables of `to_text` in GitHub's Markdown."""
    return "\n\n".join(map(sheet_markdown, sheets(rows))) + "\n"


def sheet_markdown(sheet: Sheet) -> str:
    """One table in GitHub's Markdown, under its title where it has one, with its notes."""
    marks = [":--", *["--:"] * (len(sheet.columns) - 1)]
    lines = [_pipes(sheet.columns), _pipes(marks), *(_pipes(cells) for cells in sheet.cells)]
    title = f"### {markdown_text(sheet.title)}\n\n" if sheet.title else ""
    notes = "".join(f"\n- {markdown_text(note)}" for note in sheet.notes)
    return title + "\n".join(lines) + (f"\n{notes}" if notes else "")


def to_latex(rows: Sequence[Row]) -> str:
    """Write the tables of `to_text` in LaTeX, with the package booktabs; notes are comments."""
    import pandas as pd

    parts = []
    for sheet in sheets(rows):
        frame = pd.DataFrame(
            [
                [plain(cell, lines=True).replace("\n", "; ") for cell in cells]
                for cells in sheet.cells
            ],
            columns=[plain(name) for name in sheet.columns],
        )
        text = frame.to_latex(
            index=False,
            escape=True,
            caption=_tex(plain(sheet.title)),
            column_format="l" + "r" * (len(sheet.columns) - 1),
        )
        for letter, command in _LETTERS.items():
            text = text.replace(letter, command)
        parts.append("".join(f"% {plain(note)}\n" for note in sheet.notes) + text)
    return "\n".join(parts)


def _tex(text: str) -> str:
    """Text that LaTeX shows as it is: pandas escapes cells and no caption."""
    escaped = re.sub(r"[&%$#_{}]", r"\\\g<0>", text.replace("\\", "/").replace("~", " "))
    return escaped.replace("^", r"\textasciicircum{}")


_LETTERS = {"ε": r"$\varepsilon$", "δ": r"$\delta$", "μ": r"$\mu$", "σ": r"$\sigma$",
            "±": r"$\pm$", "–": "--", "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$",
            "∞": r"$\infty$", "×": r"$\times$"}  # fmt: skip
"""Signs that pdfLaTeX has in no font of text."""


def _pipes(cells: Sequence[str]) -> str:
    shown = (markdown_text(cell, lines=True).replace("\n", "<br>") for cell in cells)
    return f"| {' | '.join(shown)} |"


def markdown_text(text: str, *, lines: bool = False) -> str:
    """Text that Markdown shows as it is: no HTML, link, image, attribute or template of it acts."""
    return _ACTIVE.sub(r"\\\g<0>", escape(plain(text, lines=lines), quote=False))


_ACTIVE = re.compile(r"[\\`*|\[\]{}]")


def to_json(rows: Sequence[Row]) -> str:
    """A list of row objects with everything that is known of them; infinity is "inf"."""
    return "".join(json_parts(rows))


def json_parts(rows: Sequence[Row]) -> Iterator[str]:
    """The text of `to_json`, a row at a time: all rows of a large leaderboard are 100 MB."""
    upper_end = warnings(rows)
    for at, row in enumerate(rows):
        text = json.dumps([_object(row, upper_end.get(row.group))], indent=1, allow_nan=False)
        yield ("," if at else "[") + text[1:-2]
    yield "\n]" if rows else "[]"


def _object(row: Row, warning: str | None) -> dict[str, Any]:
    fields = row.model_dump(mode="json")
    fields["spec"].pop("seed")
    return {
        "mechanism": row.label,
        "task": row.spec.task.name,
        "source": row.spec.source.name,
        "model": row.spec.model.name,
        "seeds": list(row.seeds),
        "n": len(row.seeds),
        "warning": warning,
        **fields,
    }


def to_csv(rows: Sequence[Row]) -> str:
    """One line a row, for data frames.

    A parameter has the column `params.KIND.NAME`; a metric has NAME, NAME.low, NAME.high, NAME.n
    and, where proofs bound it, NAME.ceiling. A dot in the name of a metric is written %2E, and %
    is %25, so that `auc.low` is always an end of the interval of `auc`. Text that a spreadsheet
    would take for a formula begins with an apostrophe.
    """
    return "".join(csv_parts(rows))


def csv_parts(rows: Sequence[Row]) -> Iterator[str]:
    """The text of `to_csv`, a line at a time."""
    # Columns are known after the last row; until then, lines wait as text, and names are shared.
    names: dict[tuple[str, ...], tuple[str, ...]] = {}
    waiting = []
    upper_end = warnings(rows)
    for row in rows:
        line = columns_of(row, upper_end.get(row.group))
        columns_of_row = names.setdefault(tuple(line), tuple(line))
        waiting.append((columns_of_row, json.dumps(list(line.values()))))
    columns = sorted(
        dict.fromkeys(name for columns_of_row in names for name in columns_of_row), key=_place
    )
    place = {name: at for at, name in enumerate(columns)}
    yield _csv_line([_harmless(name) for name in columns])
    for columns_of_row, text in waiting:
        cells: list[Any] = [""] * len(columns)
        for name, value in zip(columns_of_row, json.loads(text), strict=True):
            cells[place[name]] = _harmless(value)
        yield _csv_line(cells)


def _csv_line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def _place(column: str) -> int:
    """Puts parameters together, behind the columns that name a row; the rest keeps its order."""
    first = {"mechanism", "task", "source", "model", "group", "seeds", "runs"}
    return 0 if column in first else 1 if column.startswith("params.") else 2


def _harmless(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = plain(value, lines=True)
    # Spreadsheets skip blanks and what nobody sees, and some read full-width signs.
    formula = _FORMULA.match(unicodedata.normalize("NFKC", text))
    return f"'{text}" if formula and not _NUMBERS.fullmatch(text) else text


_FORMULA = regex.compile(r"[\t\r]|[\s\p{Default_Ignorable_Code_Point}]*[=+\-\u2212@]")
_NUMBERS = re.compile(r"-inf|-?\d+( -?\d+)*")
"""Texts that begin with a sign and are no formula: infinity, and seeds."""


def columns_of(row: Row, warning: str | None) -> dict[str, Any]:
    """The cells of a row by their columns, as `to_csv` writes them; "" where nothing is known.

    Args:
        row: row of a leaderboard.
        warning: sentence of `comparisons.warnings` on the row; empty for none.
    """
    fields = _object(row, warning)
    line = {name: fields[name] for name in ("mechanism", "task", "source", "model", "group")}
    finished = [run.id for run in row.runs if run.status == "finished"]
    line |= {"seeds": " ".join(map(str, row.seeds)), "runs": " ".join(finished)}
    line |= _parameters(row)
    line |= {"failed": len(row.failed), "failed_runs": " ".join(run.id for run in row.failed)}
    line["error"] = "; ".join(run.error for run in row.failed)
    line["learned"] = {True: "true", False: "false", None: "unknown"}[row.learned]
    line["older_code"] = str(row.older_code).lower()
    line["warning"] = warning or ""
    if row.headline is not None:
        line["headline"] = row.headline.metric
        line["headline.larger_is_better"] = str(row.headline.larger_is_better).lower()
    line |= _columns("floor", fields["floors"])
    for kind in ("utility", "diagnostics", "cost"):
        line |= _columns(kind, fields[kind])
    line |= _columns("epsilon_at", fields["epsilon_at"])
    for attack, metrics in fields["leakage"].items():
        line |= _columns(column_prefix(attack), metrics)
        for name, ceiling in fields["ceilings"].get(attack, {}).items():
            line[f"{column_prefix(attack)}.{quoted(name)}.ceiling"] = ceiling
    for guarantee in fields["guarantees"]:
        name = f"{guarantee['kind']}.{guarantee['unit']}.{guarantee['adjacency']}"
        line[f"{name}.notion"] = guarantee["notion"]
        line[f"{name}.epsilon"] = guarantee["epsilon"]
        line[f"{name}.epsilon_is"] = PER_DISTANCE if guarantee["notion"] == "metric-dp" else ""
        line[f"{name}.delta"] = guarantee["delta"]
        if guarantee.get("pure") is not None:
            line[f"{name}.pure"] = guarantee["pure"]
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
    line["mlflow_runs"] = " ".join(
        run.tracking.get("mlflow_run_id", "") for run in row.runs
    ).strip()
    return line


def _parameters(row: Row) -> dict[str, Any]:
    """Every parameter of a row's components; lists and objects as JSON.

    Where a mechanism or attack is there more than once, its place tells which one is meant.
    """
    parts = [("task", row.spec.task), ("source", row.spec.source), ("model", row.spec.model)]
    for kind, several in (("mechanism", row.spec.mechanism), ("attack", row.spec.attacks)):
        names = [part.name for part in several]
        for at, part in enumerate(several):
            place = f"{at}." if names.count(part.name) > 1 else ""
            parts.append((f"{kind}.{place}{quoted(part.name)}", part))
    cells = {
        f"params.{kind}.{quoted(name)}": _cell(value)
        for kind, part in parts
        for name, value in part.params.items()
    }
    return {**cells, "params.delta": row.spec.delta}


def _cell(value: Any) -> Any:
    if isinstance(value, str | int | float):
        return json.dumps(value) if isinstance(value, bool) else value
    return "" if value is None else json.dumps(value)


def _columns(prefix: str, stats: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, stat in stats.items():
        column = f"{prefix}.{quoted(name)}"
        out[column] = stat["value"]
        for part in ("low", "high", "n"):
            out[f"{column}.{part}"] = "" if stat[part] is None else stat[part]
    return out
