"""Settings and leaked details of studies are those of their results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from uedp_bench.leaderboard.loading import load_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"


@pytest.mark.parametrize("page", ["bloggers", "bloggers-mechanisms"])
def test_the_page_has_the_perplexity_of_each_setting(page: str) -> None:
    section = (ROOT / "docs" / f"{page}.md").read_text("utf-8").partition("## Settings")[2]
    for result in load_results([RESULTS / f"{page}-levers"]):
        assert f" {result.utility['perplexity'].value:.1f}" in section, result.spec.mechanism


def test_no_leaked_detail_is_longer_than_a_canary() -> None:
    """Texts that results hold are canaries of public words: none is a row of anybody."""
    for result in load_results([RESULTS / "bloggers"]):
        canaries = result.details["secret-sharer"]["canaries"]
        assert canaries
        assert {len(canary["text"].split()) for canary in canaries} == {5}
        membership = result.details["membership"]
        assert set(membership["records"]) == {"members", "non_members"}  # how many, not which
        assert "texts" not in json.dumps(membership)
