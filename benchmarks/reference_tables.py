"""Fills the tables of pages from stored results, so that pages say what results say.

    python benchmarks/reference_tables.py docs/bloggers.md

What stands between `<!-- table: FOLDER -->` and `<!-- end of table -->` becomes the tables of the
results in that folder, as `uedp-bench leaderboard --results FOLDER --markdown` prints them, without
titles and without what depends on the machine.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from uedp_bench.leaderboard.board_cells import Sheet, sheets
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.table import sheet_markdown

OF_THE_MACHINE = ("train s", "peak MB")
MARKED = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)


def tables(folder: Path) -> str:
    """The tables of the results in a folder."""
    found = sheets(aggregate(load_results([folder])))
    portable = [_portable(sheet) for sheet in found]
    some = [sheet for sheet in portable if len(sheet.columns) > 1]
    return "\n\n".join(sheet_markdown(sheet) for sheet in some) + "\n"


def filled(page: str, root: Path) -> str:
    """A page with its tables as the results say; of folders that are there."""

    def fill(found: re.Match[str]) -> str:
        folder = root / found[2]
        return f"{found[1]}{tables(folder)}{found[4]}" if folder.is_dir() else found[0]

    return MARKED.sub(fill, page)


def _portable(sheet: Sheet) -> Sheet:
    keep = [at for at, name in enumerate(sheet.columns) if name not in OF_THE_MACHINE]
    return replace(
        sheet,
        title="",
        columns=tuple(sheet.columns[at] for at in keep),
        cells=tuple(tuple(row[at] for at in keep) for row in sheet.cells),
        notes=tuple(note for note in sheet.notes if not note.startswith("device:")),
    )


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(filled(page.read_text(encoding="utf-8"), Path.cwd()), encoding="utf-8")
