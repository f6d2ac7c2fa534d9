"""Plots of pages are drawn from stored results, and a wrong declaration is an error."""

from __future__ import annotations

import base64
import re

import pytest
from examples import ROOT
from plots import DECLARED, rendered
from tables import TableError

PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if "<!-- plot: " in page.read_text(encoding="utf-8")
}
PLOT = """text

<!-- plot: leaderboard/results/quickstart
about: a plot
x: proven epsilon
y: perplexity
lines:
  {}
levels:
  no protection: mean("perplexity", "noiseless")
-->
"""


def pictures(text: str) -> list[str]:
    """The SVG of each plot of a page."""
    return [base64.b64decode(data).decode() for data in re.findall(r"base64,([^)]+)\)", text)]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_every_declaration_draws_a_plot(page: str) -> None:
    text = PAGES[page]
    assert len(DECLARED.findall(text)) == text.count("\n<!-- plot: ")
    shown = rendered(text, page)
    assert "<!-- plot: " not in shown
    for picture in pictures(shown):
        assert "<svg" in picture
        assert "nan" not in picture.lower()


def test_a_plot_has_its_points_its_levels_and_its_words() -> None:
    line = (
        "private: {rows: {name: [noiseless, user-dp], row: '{name}'}, x: len(name), y: perplexity}"
    )
    (picture,) = pictures(rendered(PLOT.format(line), "page.md"))
    assert all(word in picture for word in ("proven epsilon", "perplexity", "no protection"))
    (marks,) = re.findall(r'<g clip-path="[^"]+">\s+(?:<use [^>]+>\s*){2}</g>', picture)[-1:]
    assert marks.count("<use") == 2
    assert [picture] == pictures(rendered(PLOT.format(line), "page.md")), "the same again"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("dp: {rows: {row: user-db}, x: 1, y: perplexity}", "user-db"),
        ("dp: {rows: {row: user-dp}, x: 1, y: perplexty}", "perplexty"),
        ("dp: {rows: {row: '= ()'}, x: 1, y: perplexity}", "points"),
        ("dp: {rows: {row: user-dp}, x: 1}", "y"),
        ("dp: {rows: {row: user-dp}, x: 1, y: perplexity}\nlog10: 2", "log10"),
    ],
)
def test_what_draws_no_plot_is_an_error(line: str, named: str) -> None:
    with pytest.raises(TableError, match=rf"page\.md, line 3, .*{named}"):
        rendered(PLOT.format(line), "page.md")
