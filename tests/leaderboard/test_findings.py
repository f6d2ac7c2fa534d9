"""Findings of pages hold of the stored results, and stand on their pages."""

from __future__ import annotations

import re
from functools import cache

import pytest
from expressions import ROOT, WrongNameError
from findings import Finding, findings
from tables import rendered

FINDINGS = tuple(findings())


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@cache
def text_of(page: str) -> str:
    """The page as the site has it, on one line."""
    return one_line(rendered((ROOT / page).read_text(encoding="utf-8"), page))


@pytest.mark.long
@pytest.mark.parametrize("finding", FINDINGS, ids=lambda one: f"{one.results}: {one.says[:40]}")
def test_a_finding_is_on_its_page_and_holds(finding: Finding) -> None:
    assert one_line(finding.says).strip() in text_of(finding.page), finding.page
    assert finding.is_true(), finding.holds


def test_a_finding_that_does_not_hold_is_seen() -> None:
    """Guards the check itself: an expression that is wrong, and one that is no truth value."""
    name = "quickstart"
    learns = 'mean("perplexity", "noiseless") < mean("perplexity", "user-dp")'
    assert Finding(name, "README.md", "", learns).is_true()
    assert not Finding(name, "README.md", "", f"not {learns}").is_true()
    levels = {"base": 'mean("perplexity", "noiseless")', "twice": "2 * base"}
    assert Finding(name, "README.md", "", "twice == 2 * base > 0", levels).is_true()
    with pytest.raises(AssertionError, match="is"):
        Finding(name, "README.md", "", 'mean("perplexity", "noiseless")').is_true()
    with pytest.raises(WrongNameError, match="0 rows"):
        Finding(name, "README.md", "", 'mean("perplexity", "noisless") > 0').is_true()
