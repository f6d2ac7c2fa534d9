"""Stored results of `bloggers-trend` show what the page on bloggers says of more work."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"
MOST = 18_000
BASE, FOUR_TIMES = (800, 20), (1600, 40)


@pytest.fixture(scope="module")
def script() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("bloggers_trend")


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return load_results([RESULTS / "bloggers-trend"])


def test_all_work_is_at_one_proven_epsilon(results: list[Result]) -> None:
    assert results
    for result in results:
        (epsilon,) = (g.epsilon for g in result.guarantees if g.kind == "proven")
        assert 7.9 < epsilon <= 8


def test_four_times_the_work_takes_off_a_third_of_what_is_left(script: Any) -> None:
    study = script.Study(load_results([RESULTS / name for name in ("bloggers", "bloggers-trend")]))
    base, more = study.private[MOST, BASE], study.private[MOST, FOUR_TIMES]
    assert more
    for seed, found in more.items():
        left = (found - study.plain[MOST][seed]) / (base[seed] - study.plain[MOST][seed])
        assert 0.65 < left < 0.75
        assert found < study.bigrams[MOST][seed] < base[seed]


def test_more_work_gives_nothing_of_single_bloggers_away(results: list[Result]) -> None:
    for result in results:
        sharer = result.leakage["secret-sharer"]
        assert 3 < sharer["exposure_max_repeats"].value < 6  # nothing promised covers it
        assert sharer["extracted_random_sampling"].value == 0
        assert sharer["extracted_beam_search"].value == 0
        assert result.leakage["membership"]["auc_user"].value < 0.55
        assert result.leakage["audit"]["epsilon_lower_bound"].value == 0


def test_the_picture_is_that_of_the_results(script: Any, tmp_path: Path) -> None:
    folders = [RESULTS / name for name in script.FOLDERS if (RESULTS / name).is_dir()]
    script.plot(script.Study(load_results(folders)), tmp_path / "made.svg")
    drawn = (ROOT / "docs" / "bloggers-trend.svg").read_text("utf-8")
    assert (tmp_path / "made.svg").read_text("utf-8") == drawn
