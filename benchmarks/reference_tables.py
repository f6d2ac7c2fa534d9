"""Fills the tables of pages from stored results, so that pages say what results say.

    python benchmarks/reference_tables.py docs/bloggers.md

What stands between such a line and `<!-- end of table -->` is made again:

`<!-- table: BUNDLE -->`
    the tables of that bundle, named without its suffix, or of that folder, as `uedp-bench
    leaderboard --results BUNDLE --markdown` prints them, without titles and without what depends
    on the machine
`<!-- printed by: python SCRIPT ARGUMENTS -->`
    what that script prints, from the root of the checkout, without empty lines at the end
"""

from __future__ import annotations

import io
import re
import runpy
import shlex
import sys
from contextlib import chdir, redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from uedp_bench.leaderboard.board_cells import Sheet, sheets
from uedp_bench.leaderboard.bundles import holds_results
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.table import sheet_markdown

OF_THE_MACHINE = ("train s", "peak MB")
END = r"(<!-- end of table -->)"
MARKED = re.compile(rf"(<!-- table: (\S+) -->\n)(.*?){END}", re.DOTALL)
PRINTED = re.compile(rf"(<!-- printed by: python ([^\n]+?) -->\n)(.*?){END}", re.DOTALL)


def tables(folder: Path) -> str:
    """The tables of the results in a folder."""
    found = sheets(aggregate(load_results([folder])))
    portable = [_portable(sheet) for sheet in found]
    some = [sheet for sheet in portable if len(sheet.columns) > 1]
    return "\n\n".join(sheet_markdown(sheet) for sheet in some) + "\n"


def printed(command: str, root: Path) -> str:
    """What a script and its arguments print, run in this process from the root of the checkout."""
    words = shlex.split(command)
    said = io.StringIO()
    beside = [str((root / words[0]).parent), *sys.path]
    patched = patch.object(sys, "argv", words), patch.object(sys, "path", beside)
    try:
        with chdir(root), patched[0], patched[1], redirect_stdout(said):
            runpy.run_path(str(root / words[0]), run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"{command} ends with {end.code}") from end
    return said.getvalue().rstrip("\n") + "\n"


def quoted_by(page: str) -> set[str]:
    """The folders of results whose tables `filled` makes again on a page."""
    scripts = (word for found in PRINTED.finditer(page) for word in shlex.split(found[2]))
    return {found[2] for found in MARKED.finditer(page)} | {word.rstrip("/") for word in scripts}


def filled(page: str, root: Path) -> str:
    """A page with its tables as the results say; of folders that are there."""

    def fill(found: re.Match[str]) -> str:
        folder = root / found[2]
        return f"{found[1]}{tables(folder)}{found[4]}" if holds_results(folder) else found[0]

    by_script = PRINTED.sub(lambda found: found[1] + printed(found[2], root) + found[4], page)
    return MARKED.sub(fill, by_script)


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
