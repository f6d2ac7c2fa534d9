"""Plots, tables, settings and leaked details of studies are those of their results."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from drawings import assert_same_drawing

from uedp_bench.leaderboard.loading import load_results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"


@pytest.mark.parametrize(
    ("picture", "studies", "people"),
    [
        ("bloggers-larger", ["bloggers-larger"], "bloggers"),
        ("bloggers-mechanisms", ["bloggers-larger", "bloggers-mechanisms"], "bloggers"),
        ("ubuntu-irc", ["ubuntu-irc", "ubuntu-irc-mechanisms"], "nicks"),
    ],
)
def test_a_picture_is_that_of_the_results(
    picture: str, studies: list[str], people: str, tmp_path: Path
) -> None:
    plot = runpy.run_path(str(ROOT / "benchmarks" / "bloggers_plot.py"))["plot"]
    plot([RESULTS / study for study in studies], tmp_path / "drawn.svg", people)
    assert_same_drawing(tmp_path / "drawn.svg", ROOT / "docs" / f"{picture}.svg")


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
