"""Tables in the README and the docs are those of the stored results, to the letter."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from uedp_bench.leaderboard.bundles import bundle_of

ROOT = Path(__file__).parents[2]
FILL = runpy.run_path(str(ROOT / "benchmarks" / "reference_tables.py"))
MARK = re.compile(r"^<!-- printed by: ", re.MULTILINE)
PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if MARK.search(page.read_text(encoding="utf-8"))
}


def test_pages_with_tables_are_found() -> None:
    assert "docs/cost.md" in PAGES
    for page in PAGES.values():  # a mark without an end would never be filled
        text = page.read_text(encoding="utf-8")
        found = FILL["PRINTED"].findall(text)
        assert len(MARK.findall(text)) == len(found), page


def test_a_script_that_fails_fills_no_page(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(5)\nraise SystemExit(0)")
    (tmp_path / "b.py").write_text("print(5)\nraise SystemExit(2)")
    page = "<!-- printed by: python {}.py -->\nold\n<!-- end of table -->\n"
    assert FILL["filled"](page.format("a"), tmp_path) == page.format("a").replace("old", "5")
    with pytest.raises(RuntimeError, match=r"b.py ends with 2"):
        FILL["filled"](page.format("b"), tmp_path)


@pytest.mark.parametrize("name", PAGES)
def test_tables_are_those_of_the_results(name: str) -> None:
    page = PAGES[name].read_text(encoding="utf-8")
    for found in FILL["MARKED"].finditer(page):
        assert bundle_of(ROOT / found[2]), f"{name} shows results that are not stored: {found[2]}"
    assert FILL["filled"](page, ROOT) == page
