"""The stored results of `bloggers` are those of its spec, and the page has its settings.

The results are the committed ones, or those of a fresh run in the folder UEDP_BENCH_BLOGGERS.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "leaderboard" / "results" / "bloggers"

Rows = dict[str, Row]


@pytest.fixture(scope="module")
def results() -> list[Result]:
    folder = Path(os.environ.get("UEDP_BENCH_BLOGGERS", COMMITTED))
    if not folder.is_dir():
        pytest.skip(f"no results of bloggers in {folder.name}: run the spec and store them there")
    return load_results([folder])


@pytest.fixture(scope="module")
def rows(results: list[Result]) -> Rows:
    return {row.label: row for row in aggregate(results)}


def test_they_are_those_of_the_packaged_spec(rows: Rows) -> None:
    spec = read_spec("bloggers")
    spec["source"]["params"] |= {"path": "x"}
    labels = {run.label for run in expand(parse_spec(spec))}
    assert (
        set(rows) == labels == {"public-only", "noiseless", "deidentify", "user-dp", "uedp-group"}
    )
    assert all(row.seeds == (1, 2, 3) for row in rows.values())
    assert len({(row.corpus, row.vocabulary) for row in rows.values()}) == 1


def test_no_leaked_detail_is_longer_than_a_canary(results: list[Result]) -> None:
    """Texts that results hold are canaries of public words: none is a row of anybody."""
    for result in results:
        canaries = result.details["secret-sharer"]["canaries"]
        assert canaries
        assert {len(canary["text"].split()) for canary in canaries} == {5}
        membership = result.details["membership"]
        assert set(membership["records"]) == {"members", "non_members"}  # how many, not which
        assert "texts" not in json.dumps(membership)


def test_the_page_has_what_each_setting_came_to() -> None:
    page = (ROOT / "docs" / "bloggers.md").read_text("utf-8")
    section = page[page.index("## Settings") :]
    results = load_results([COMMITTED.with_name("bloggers-levers")])
    assert len(results) == 15
    for result in results:
        assert f" {result.utility['perplexity'].value:.1f}" in section, result.spec.mechanism
