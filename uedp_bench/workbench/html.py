"""Tables as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from uedp_bench.files.printable import plain
from uedp_bench.leaderboard.board_cells import Sheet


def sheet_html(sheet: Sheet) -> str:
    """One table of the leaderboard, with its title above and its notes below."""
    notes = "".join(f"<li>{_shown(note)}</li>" for note in sheet.notes)
    return (
        f"<h4>{_shown(sheet.title)}</h4>{table_html(sheet.columns, sheet.cells)}"
        f"{f'<ul>{notes}</ul>' if notes else ''}"
    )


def table_html(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of text; a line break within a cell is kept.

    Args:
        columns: their heads.
        lines: cells of each line.
    """
    heads = "".join(f"<th>{_shown(head)}</th>" for head in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{_shown(cell)}</td>' for cell in cells)}</tr>" for cells in lines
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _shown(text: str) -> str:
    return escape(plain(text, lines=True)).replace("\n", "<br>")
