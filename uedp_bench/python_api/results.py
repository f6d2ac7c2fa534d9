"""Results in Python: tables where they are shown, a data frame where they are computed with.

One result is plain words in a terminal, and words with tables in a notebook.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from uedp_bench.contracts.results import Result as Recorded
from uedp_bench.errors import plain
from uedp_bench.leaderboard.board_cells import Sheet, sheets
from uedp_bench.leaderboard.comparisons import BETTER, warnings
from uedp_bench.leaderboard.loading import load_results as read_all
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.leaderboard.run_pages.summary import Short, in_short
from uedp_bench.leaderboard.table import columns_of, to_text
from uedp_bench.leaderboard.table_columns import column_prefix, quoted

if TYPE_CHECKING:
    import pandas as pd


def sheet_html(sheet: Sheet) -> str:
    """One table of the leaderboard, with its title above and its notes below."""
    infinite = any("∞" in cell for line in sheet.cells for cell in line)
    all_notes = [*sheet.notes, *(["∞ as an ε: no protection"] if infinite else [])]
    notes = "".join(f"<li>{_shown(note)}</li>" for note in all_notes)
    return (
        f"<h4>{_shown(sheet.title)}</h4>{table_html(sheet.columns, sheet.cells)}"
        f"{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _short_html(short: Short) -> str:
    """A run: its title, its sentences and its tables."""
    sentences = "".join(
        f"<p><strong>{_shown(one.text)}</strong></p>" if one.tone == "bad"
        else f"<p>{_shown(one.text)}</p>"
        for one in short.sentences
    )  # fmt: skip
    tables = "".join(
        f"<h5>{_shown(one.caption)}</h5>{table_html(one.head, one.rows, one.kinds)}"
        for one in short.tables
    )
    return f"<h4>{_shown(short.title)}</h4>{sentences}{tables}"


def table_html(
    columns: Sequence[str], lines: Iterable[Sequence[str]], kinds: Sequence[str] | None = None
) -> str:
    """A table of text; a line break within a cell is kept.

    Args:
        columns: their heads.
        lines: cells of each line.
        kinds: kinds of the columns: those of numbers ("number") end in one line, others begin in
            one. None: all but the first are numbers.
    """
    if kinds is None:
        kinds = ["", *["number"] * (len(columns) - 1)]
    sides = ["right" if kind == "number" else "left" for kind in kinds]

    def cells(name: str, texts: Sequence[str]) -> str:
        return "".join(
            f'<{name} style="text-align:{side}{_colour(text)}">{_shown(text)}</{name}>'
            for text, side in zip(texts, sides, strict=True)
        )

    body = "".join(f"<tr>{cells('td', line)}</tr>" for line in lines)
    return f"<table><thead><tr>{cells('th', columns)}</tr></thead><tbody>{body}</tbody></table>"


def _colour(text: str) -> str:
    """Red for the mark of a table that contradicts itself."""
    return ";color:#b3261e" if BETTER in text.split("\n") else ""


def _shown(text: str) -> str:
    return escape(plain(text, lines=True)).replace("\n", "<br>")


class Result(Recorded):
    """One run, with everything that was measured; `docs/results.md` has every field.

    It shows itself: what it promises, what it is worth, what attacks found, and what it cost.
    """

    @staticmethod
    def from_recorded(recorded: Recorded) -> Result:
        """Build a result that shows itself."""
        if isinstance(recorded, Result):
            return recorded
        # Every field was validated before.
        return Result.model_construct(recorded.model_fields_set, **dict(recorded))

    def __eq__(self, other: object) -> bool:
        """True for an equal result, also where it does not show itself."""
        if not isinstance(other, Recorded):
            return NotImplemented
        return dict(self) == dict(other)

    __hash__ = Recorded.__hash__

    def __repr__(self) -> str:
        """The result as `uedp-bench show` prints it."""
        return "\n".join(result_lines(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The top of the run's page: its sentences, and its tables in short."""
        (row,) = aggregate([self])
        return _short_html(in_short(self, row))


Each = Literal["run", "row"]
"""Line of a data frame: one run, or all seeds of one setting."""


class Results(Sequence[Result]):
    """Results of runs, finished and failed; the table of the leaderboard where they are shown.

    Args:
        results: results in any order.
        out: folder that holds `<id>/result.json` of each; None where it is unknown.
    """

    def __init__(self, results: Iterable[Recorded], out: Path | None = None) -> None:
        self._results = tuple(map(Result.from_recorded, results))
        self.out = out

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: int | slice) -> Result | Results:
        """One result, or some of them."""
        if isinstance(index, slice):
            return Results(self._results[index], self.out)
        return self._results[index]

    def __len__(self) -> int:
        """Number of runs."""
        return len(self._results)

    @cached_property
    def rows(self) -> list[Row]:
        """The lines of the table: all seeds of one setting are one."""
        paths = {} if self.out is None else {r.id: self.out / r.id / "result.json" for r in self}
        return aggregate(self._results, paths)

    @property
    def failed(self) -> tuple[Result, ...]:
        """The runs that ended in an error; `Result.error` says which."""
        return tuple(result for result in self if result.error is not None)

    def folder(self, result: Result) -> Path:
        """The folder of a run, for `load_run` and `load_release`.

        Raises:
            ValueError: if nobody knows where these results are.
        """
        if self.out is None:
            raise ValueError("these results were read from several places: give the folder itself")
        return self.out / result.id

    def frame(self, each: Each = "run") -> pd.DataFrame:
        """The results as a data frame.

        Args:
            each: kind of a line. "run": one run; the intervals are those of its own test rows.
                "row": all seeds of one setting; the intervals are over seeds.

        Returns:
            Columns as `uedp-bench leaderboard --csv` has them: `params.KIND.NAME` of every
            parameter, `utility.NAME`, `ATTACK.NAME` and `cost.NAME` with `.low` and
            `.high`, and `proven.UNIT.ADJACENCY.epsilon`. Infinity is a float, and what is not
            known is missing.
        """
        import pandas as pd

        rows = self.rows
        if each == "run":
            rows = [row for result in self for row in aggregate([result])]
        upper_end = warnings(self.rows)
        cells = (columns_of(row, upper_end.get(row.group)) for row in rows)
        lines = [{name: _value(name, cell) for name, cell in line.items()} for line in cells]
        if each == "run":
            for line, result in zip(lines, self, strict=True):
                line |= {"seed": result.spec.seed, "id": result.id, "status": result.status}
                line |= _own_intervals(result)
        return pd.DataFrame(lines)

    def __repr__(self) -> str:
        """The table as text."""
        return to_text(self.rows) if len(self) else "no results"

    def _repr_html_(self) -> str:
        """The table in a notebook."""
        if not len(self):
            return "<p>no results</p>"
        return "".join(map(sheet_html, sheets(self.rows)))


def load_results(*paths: Path | str, each: Each = "run") -> pd.DataFrame:
    """All results below some folders as a data frame; each id once.

    Args:
        paths: folders of results, such as the `out` of `run`, and bundles.
        each: kind of a line; see `Results.frame`.

    Raises:
        InputError: if a folder does not exist or a file is no valid result.
    """
    return Results(read_all(map(Path, paths))).frame(each)


_TRUTHS: Mapping[str, bool | None] = {"true": True, "false": False, "unknown": None}


def _value(name: str, cell: Any) -> Any:
    """A cell of the CSV as a value: numbers are numbers, and an unknown value is None."""
    if cell == "":
        return None
    if name in ("learned", "older_code", "headline.larger_is_better"):
        return _TRUTHS[cell]
    if cell in ("inf", "-inf"):
        return math.inf if cell == "inf" else -math.inf
    return cell


def _own_intervals(result: Recorded) -> dict[str, Any]:
    """Ends of the intervals of a single run, which a table over seeds has no place for."""
    parts = [("utility", result.utility)]
    parts += [(column_prefix(attack), metrics) for attack, metrics in result.leakage.items()]
    return {
        f"{prefix}.{quoted(name)}.{end}": getattr(estimate, end)
        for prefix, estimates in parts
        for name, estimate in estimates.items()
        for end in ("low", "high")
    }
