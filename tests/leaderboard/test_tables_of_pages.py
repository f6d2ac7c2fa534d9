"""Tables in the README and the docs are those of the stored results, to the letter."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILL = runpy.run_path(str(ROOT / "benchmarks" / "reference_tables.py"))
PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "<!-- table: " in page.read_text(encoding="utf-8")
}


def test_pages_with_tables_are_found() -> None:
    assert {"README.md", "docs/bloggers.md", "docs/conll2003.md"} <= set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_those_of_the_results(name: str) -> None:
    page = PAGES[name].read_text(encoding="utf-8")
    for found in FILL["MARKED"].finditer(page):
        assert (ROOT / found[2]).is_dir(), f"{name} shows results that are not stored: {found[2]}"
    assert FILL["filled"](page, ROOT) == page
