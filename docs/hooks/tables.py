"""Tables of pages, from stored results: a page holds a declaration, the site has the table.

    python docs/hooks/tables.py docs/bloggers.md    # prints the tables of a page
    python docs/hooks/tables.py --write README.md   # fills those that a page holds

`<!-- table: leaderboard/results/NAME -->` is the table of the leaderboard, without times and
memory. More lines before `-->` are YAML that declares a table of one's own; several bundles stand
beside each other, with blanks between:

    <!-- table: leaderboard/results/tagging/conll2003
    rows:
    - {name: without noise, row: noiseless, printed: 91.2}
    - {name: "ε = 1", row: dp-sgd noise_multiplier=1.693}
    - {name: documents, row: '= ladder("user-dp", "user")'}
    columns:
      mechanism: name
      "entity F1 %": f1_strict
      proven ε: proven("record")
      "ε of {k} sentences": {cell: k * proven("record"), each: {k: [3, 10]}, digits: 1}
      printed: printed
    notes: "unigrams: {mean('unigram_perplexity', 'noiseless')}"
    -->

Rows are a mapping of names to values, or a list of such mappings; all rows of the results where
none are declared. A list stands for one row a value, and several names for all combinations, in
this order. `above` stands for the rows, columns or notes of the table before on the page. A text
that begins with `=` is an expression (`expressions.py`), which may use the names before it, and
stands for several rows where it is a list. `row` is a row of the results: an expression, or its
mechanisms with as many parameters as tell it from others, such as `dp-sgd clip=1`, or
`user-dp epsilon=epsilon` with a name before it. What other rows name is a dash.

A cell is an expression, or a metric. Options of a cell: `digits` after the point (three figures by
default), `percent` (of a metric as the board has it, else no), `each` (one column for each value,
as rows). `{...}` in a text, the head of a column and notes is an expression. A metric that a row
lacks is a dash; a column of dashes, a value that is no number, and a row that is missing are
errors.

What stands between a declaration and `<!-- end of table -->` is a copy of the table, for a page
that is read without the site.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from expressions import KINDS, MissingError, Study, kind_of

from uedp_bench.contracts.results import Estimate
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.leaderboard.board_cells import Sheet, sheets
from uedp_bench.leaderboard.cell_text import NONE, number, stat_text
from uedp_bench.leaderboard.rows import Row, Stat
from uedp_bench.leaderboard.table import sheet_markdown

END = "<!-- end of table -->\n"
DECLARED = re.compile(
    rf"^<!-- table: ([^\n]*?)(?: -->|\n(.*?)-->)\n((?:(?!^<!-- (?:table|printed by):).)*?{END})?",
    re.M | re.S,
)
OF_THE_MACHINE = ("train s", "peak MB")
PATH = re.compile(r"[a-z]\w*|[a-z][\w-]*\.[a-z][\w.-]*")
"""A metric, with its attack or kind."""

Bound = dict[str, Any]
"""Names of one row, or one column, of a table and their values."""


class TableError(Exception):
    """A table that its declaration does not make, with the page and the place in it."""


class Column(NamedTuple):
    """A declared column: its head, the expression of its cells, and how they are printed."""

    head: str
    cell: str
    bound: Bound
    digits: int | None
    percent: bool | None


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the tables of a page of the site into it."""
    return rendered(markdown, page.file.src_uri)


def rendered(text: str, page: str, *, keep: bool = False) -> str:
    """A page with its tables.

    Args:
        text: of the page.
        page: its name, for errors.
        keep: the declarations stay, and tables are filled where there is a copy of one.

    Raises:
        TableError: for the first table that cannot be made.
    """

    def fill(match: re.Match[str]) -> str:
        filled = _table_of(match, page)
        if not keep:
            return filled
        copy = match[3]
        return match[0] if copy is None else f"{match[0].removesuffix(copy)}{filled}{END}"

    return DECLARED.sub(fill, text)


def _table_of(match: re.Match[str], page: str) -> str:
    """Render the table of a declaration on a page."""
    try:
        return table(match[1], _declaration(match))
    except Exception as error:
        why = ": ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        raise TableError(f"{page}, line {_line(match)}, table of {match[1]}: {why}") from error


def _declaration(match: re.Match[str]) -> Mapping[str, Any] | None:
    """Entries of a declaration, those that are `above` taken from the one before on the page."""
    if match[2] is None:
        return None
    entries = load_yaml(match[2])
    for name in [name for name, entry in entries.items() if entry == "above"]:
        *_, before = DECLARED.finditer(match.string, 0, match.start())
        entries[name] = (_declaration(before) or {})[name]
    return entries


def _line(match: re.Match[str]) -> int:
    return match.string.count("\n", 0, match.start()) + 1


def tables(text: str, page: str) -> Iterator[tuple[int, str]]:
    """Line and Markdown of each table that a page declares."""
    return ((_line(match), _table_of(match, page)) for match in DECLARED.finditer(text))


def table(bundles: str, declared: Mapping[str, Any] | None) -> str:
    """A table in Markdown: that of the leaderboard where nothing is declared."""
    study = Study(bundles)
    if declared is None:
        return _board(study)
    return _own(study, declared)


def _board(study: Study) -> str:
    portable = [_portable(sheet) for sheet in sheets(study.rows())]
    some = [sheet for sheet in portable if len(sheet.columns) > 1]
    return "\n\n".join(sheet_markdown(sheet) for sheet in some) + "\n"


def _portable(sheet: Sheet) -> Sheet:
    """A sheet without a title and without what depends on the machine."""
    keep = [at for at, name in enumerate(sheet.columns) if name not in OF_THE_MACHINE]
    return replace(
        sheet,
        title="",
        columns=tuple(sheet.columns[at] for at in keep),
        cells=tuple(tuple(row[at] for at in keep) for row in sheet.cells),
        notes=tuple(note for note in sheet.notes if not note.startswith("device:")),
    )


def _own(study: Study, declared: Mapping[str, Any]) -> str:
    """The table of a declaration."""
    if unknown := declared.keys() - {"rows", "columns", "notes"}:
        raise ValueError(f"{', '.join(sorted(unknown))}: known are rows, columns and notes")
    rows = list(bindings(study, declared.get("rows", {"row": "= rows()"})))
    columns = [
        column
        for head, options in declared["columns"].items()
        for column in _columns(study, head, options)
    ]
    if not rows or not columns:
        raise ValueError("the table is empty")
    cells = [[_cell(study, column, bound) for column in columns] for bound in rows]
    for at, column in enumerate(columns):
        if all(row[at] == NONE for row in cells):
            raise MissingError(f"column {column.head}: no row has {column.cell}")
    texts = ["".join(row[at] for row in cells) for at in range(len(columns))]
    marks = ["--:" if at and re.search(r"\d", text) else ":--" for at, text in enumerate(texts)]
    lines = [[column.head for column in columns], marks, *cells]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    notes = declared.get("notes", [])
    for note in [notes] if isinstance(notes, str) else notes:
        text += f"\n{_filled(study, note, {})}\n"
    return text


def bindings(study: Study, declared: Any) -> Iterator[Bound]:
    """Names and values of each row, or of each column of several; None for what one lacks."""
    entries = declared if isinstance(declared, list) else [declared]
    names = dict.fromkeys(name for entry in entries for name in entry)
    for entry in entries:
        rows: list[Bound] = [{}]
        for name, value in entry.items():
            rows = [{**row, name: one} for row in rows for one in _values(study, name, value, row)]
        yield from ({**names, **row} for row in rows)


def _values(study: Study, name: str, value: Any, bound: Bound) -> Sequence[Any]:
    """The values that a declared one stands for."""
    if isinstance(value, str):
        is_expression = value.startswith("=")
        value = (
            study.evaluate(value[1:].strip(), bound)
            if is_expression
            else _filled(study, value, bound)
        )
    values = list(value) if isinstance(value, list | tuple | set | Iterator) else [value]
    return [_row(study, each, bound) for each in values] if name == "row" else values


def _row(study: Study, named: Row | str, bound: Bound) -> Row:
    """A row itself, or that of a text `LABEL NAME=VALUE ...`."""
    if isinstance(named, Row):
        return named
    words = named.split(" ")
    pairs = [word.split("=", 1) for word in words if "=" in word]
    params = {key: bound.get(value, load_yaml(value)) for key, value in pairs}
    return study.row(" ".join(word for word in words if "=" not in word), **params)


def _columns(study: Study, head: str, options: Any) -> Iterator[Column]:
    """The columns of one entry: one, or one for each value."""
    if not isinstance(options, dict):
        options = {"cell": options}
    if unknown := options.keys() - {"cell", "each", "digits", "percent"}:
        raise ValueError(f"column {head}: {', '.join(sorted(unknown))} is no option")
    for bound in bindings(study, options.get("each", {})):
        yield Column(
            _filled(study, head, bound), str(options["cell"]), bound,
            options.get("digits"), options.get("percent"),
        )  # fmt: skip


def _filled(study: Study, text: str, bound: Bound) -> str:
    """A text with the values of the expressions in braces."""
    return re.sub(r"\{([^{}]+)\}", lambda part: _text(study.evaluate(part[1], bound)), text)


def _cell(study: Study, column: Column, bound: Bound) -> str:
    """The text of one cell; a dash for what the row does not have."""
    bound = {**bound, **column.bound}
    try:
        value, percent = value_of(study, column.cell, bound)
        percent = percent if column.percent is None else column.percent
        text = _text(value, column.digits, 100.0 if percent else 1.0)
    except MissingError:
        return NONE
    except Exception as error:
        names = {name: value for name, value in bound.items() if name != "row"}
        error.add_note(f"column {column.head}, row {names}")
        raise
    row = bound.get("row")
    some = isinstance(value, Stat) and row is not None and value.n < len(row.seeds)
    return f"{text} ({value.n} of {len(row.seeds)} seeds)" if some else text


def value_of(study: Study, cell: str, bound: Bound) -> tuple[Any, bool]:
    """The value of an expression or of a metric, and True if it is one that boards have in percent.

    Raises:
        MissingError: if the row does not have it.
    """
    of_row = Study(study.bundle_names, bound.get("row"))
    names = {**of_row.names(), **bound}
    if not PATH.fullmatch(cell) or cell.partition(".")[0] in names:
        return of_row.evaluate(cell, bound), False
    kind, name = kind_of(cell)
    metrics, where = (
        of_row.row().metrics,
        (kind, name) if kind in KINDS else ("leakage", name, kind),
    )
    return of_row.stat(cell), metrics.metric(*where).percent


def _text(value: Any, digits: int | None = None, scale: float = 1.0) -> str:
    """A value as a cell says it.

    Raises:
        ValueError: for NaN.
    """
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Stat | Estimate):
        return _stat(value, digits, scale)
    if isinstance(value, int) and digits is None:
        return f"{round(value * scale):,}"
    if isinstance(value, int | float):
        if math.isnan(value):
            raise ValueError("the value is not a number")
        value = float(value) * scale
        return number(value) if digits is None or math.isinf(value) else f"{value:,.{digits}f}"
    if isinstance(value, list | tuple | set):
        return ", ".join(_text(each, digits, scale) for each in value) or NONE
    return str(value).replace("|", "\\|").replace("\n", "<br>")


def _stat(stat: Stat | Estimate, digits: int | None, scale: float) -> str:
    """Mean and interval; its ends where the mean is not in its middle."""
    if math.isnan(stat.value):
        raise ValueError("the mean is not a number")
    if digits is None:
        return stat_text(stat, scale)  # type: ignore[arg-type]
    mean = _text(stat.value, digits, scale)
    if stat.low is None or stat.high is None:
        return mean
    low, high = stat.low * scale, stat.high * scale
    half = (high - low) / 2
    if abs((low + high) / 2 - stat.value * scale) > max(0.01 * half, 1e-9 * abs(low)):
        return f"{mean} ({_text(low, digits)} to {_text(high, digits)})"
    return f"{mean} ±{half:,.{digits}f}"


def main() -> None:
    """Print the tables of pages, or fill those that pages hold."""
    read = argparse.ArgumentParser(description="Print the tables of pages.")
    read.add_argument("pages", nargs="+", type=Path)
    read.add_argument("--write", action="store_true", help="fill the tables that the pages hold")
    options = read.parse_args()
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        if options.write:
            page.write_text(rendered(text, str(page), keep=True), encoding="utf-8")
            continue
        for line, markdown in tables(text, str(page)):
            print(f"{page}:{line}\n\n{markdown}")


if __name__ == "__main__":
    main()
