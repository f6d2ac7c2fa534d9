"""Numbers of docs/reproductions/index.md are those of the pages that its rows link to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tables import rendered

DOCS = Path(__file__).parents[2] / "docs" / "reproductions"
NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\w|[.,]\d)")
NAMED = re.compile(r"\b(?:Tables?|Figures?|section) [\dIV]+[a-z]?(?: (?:and|to) \d+)?|\"[^\"]*\"")
"""Tables and figures of papers, and what is quoted."""


def rows() -> dict[str, list[str]]:
    """The cells of the front page but the first, by the page that a row links to."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| \[[^\]]+\]\(([a-z-]+)\.md\)[^|]*\|(.*)\|$", index, re.M)
    return {page: cells.split("|") for page, cells in lines}


def test_every_reproduction_has_a_row() -> None:
    assert set(rows()) == {page.stem for page in DOCS.glob("*.md")} - {"index"}


@pytest.mark.parametrize("page", rows())
def test_numbers_stand_on_the_page_as_results_have_them(page: str) -> None:
    text = rendered((DOCS / f"{page}.md").read_text(encoding="utf-8"), page)
    page_numbers = set(NUMBER.findall(text))
    for cell in rows()[page]:
        numbers = set(NUMBER.findall(NAMED.sub("", cell)))
        assert numbers <= page_numbers, (cell, numbers - page_numbers)
