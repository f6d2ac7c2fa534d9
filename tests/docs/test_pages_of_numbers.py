"""Pages that repeat what the code says, say the same."""

from __future__ import annotations

import runpy
import tomllib

import yaml
from examples import ROOT


def test_the_glossary_of_the_site_has_all_words():
    hook = runpy.run_path(str(ROOT / "docs" / "hooks" / "glossary.py"))
    text = hook["on_page_markdown"]((ROOT / "docs" / "glossary.md").read_text("utf-8"))
    assert "<!-- glossary" not in text
    for term in (*hook["_DESIGN"], *hook["GUARANTEES"], *hook["MEASURES"]):
        assert f"| **{term.name}** | {term.about} |" in text


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"version = {{{citation['version']}}}" in readme
    assert f"uedp_bench-{citation['version']}-py3-none-any.whl" in readme
    assert all({"name"} == set(author) for author in citation["authors"])
