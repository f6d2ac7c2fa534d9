"""Numbers that short pages repeat are those of the tables that results fill."""

from __future__ import annotations

import re
import runpy
import tomllib

import pytest
import yaml
from examples import ROOT


def tables(page: str) -> list[list[list[str]]]:
    """Cells of all tables of a page, without links."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", (ROOT / page).read_text("utf-8"))
    found = re.findall(r"(?:^\|.*\n)+", text, re.M)
    return [
        [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in table.splitlines()
        ]
        for table in found
    ]


def rows(page: str) -> dict[str, dict[str, str]]:
    """Values by the names of rows and columns, of all tables of a page together."""
    found: dict[str, dict[str, str]] = {}
    for head, _, *body in tables(page):
        for cells in body:
            found.setdefault(cells[0], {}).update(zip(head, cells, strict=True))
    return found


@pytest.mark.parametrize(
    ("page", "holds", "least"),
    [("docs/index.md", "docs/bloggers.md", 5), ("docs/tutorials/read-a-row.md", "README.md", 3)],
)
def test_a_short_table_repeats_the_whole_one(page, holds, least):
    whole, compared = rows(holds), 0
    for head, _, *body in tables(page):
        for cells in body:
            if head[0] == "mechanism":
                compared += 1
                for column, value in zip(head, cells, strict=True):
                    known = whole[cells[0]].get(column, value).replace("<br>learned nothing", "")
                    assert value == known or value == "–", (cells[0], column)
                    assert column in whole[cells[0]] or column == "what it does" or value == "–"
    assert compared >= least


def test_the_glossary_is_what_its_script_writes():
    said = runpy.run_path(str(ROOT / "docs" / "hooks" / "glossary.py"))["text"]()
    assert said == (ROOT / "docs" / "glossary.md").read_text("utf-8"), (
        "python docs/hooks/glossary.py"
    )


def test_the_citation_is_of_this_version():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert said["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(said)
    assert (said["version"], said["license"]) == (project["version"], project["license"])
    assert f"version = {{{said['version']}}}" in (ROOT / "docs" / "cite.md").read_text("utf-8")
    assert all({"name"} == set(author) for author in said["authors"])
