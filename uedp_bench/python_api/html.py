"""Tables as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from uedp_bench.io.messages import plain
from uedp_bench.leaderboard.board_cells import Sheet
from uedp_bench.leaderboard.comparisons import BETTER
from uedp_bench.leaderboard.run_pages.summary import Short


def sheet_html(sheet: Sheet) -> str:
    """One table of the leaderboard, with its title above and its notes below."""
    infinite = any("∞" in cell for line in sheet.cells for cell in line)
    all_notes = [*sheet.notes, *(["∞ as an ε: no protection"] if infinite else [])]
    notes = "".join(f"<li>{_shown(note)}</li>" for note in all_notes)
    return (
        f"<h4>{_shown(sheet.title)}</h4>{table_html(sheet.columns, sheet.cells)}"
        f"{f'<ul>{notes}</ul>' if notes else ''}"
    )


def short_html(short: Short) -> str:
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
