"""Stored results show what the page on bloggers says of more work and of fewer people."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from drawings import assert_same_drawing

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"
MOST = 18_000
BASE, FOUR_TIMES, SIXTEEN_TIMES = (800, 20), (1600, 40), (3200, 80)
FEWER = {4_500: (200, 20), 9_000: (400, 20)}


@pytest.fixture(scope="module")
def script() -> Any:
    return importlib.import_module("bloggers_trend")


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return load_results([RESULTS / "bloggers-trend"])


def test_all_work_is_at_one_proven_epsilon(results: list[Result]) -> None:
    assert results
    for result in results:
        (epsilon,) = (g.epsilon for g in result.guarantees if g.kind == "proven")
        assert 7.9 < epsilon <= 8


@pytest.fixture(scope="module")
def work(script: Any) -> Any:
    return script.Study(load_results([RESULTS / name for name in ("bloggers", "bloggers-trend")]))


def left(work: Any, tried: tuple[int, int]) -> dict[int, float]:
    """Perplexity above that without protection, by seed."""
    return {
        seed: found - work.plain[MOST][seed] for seed, found in work.private[MOST, tried].items()
    }


def test_four_times_the_work_takes_off_a_third_of_what_is_left(work: Any) -> None:
    base, more = work.private[MOST, BASE], work.private[MOST, FOUR_TIMES]
    assert more
    for seed, found in left(work, FOUR_TIMES).items():
        assert 0.65 < found / left(work, BASE)[seed] < 0.75
        assert more[seed] < work.bigrams[MOST][seed] < base[seed]


def test_sixteen_times_the_work_halves_what_is_left(work: Any) -> None:
    found, before = left(work, SIXTEEN_TIMES), left(work, FOUR_TIMES)
    assert found
    for seed, gap in found.items():
        assert 0.45 < gap / left(work, BASE)[seed] < 0.55
        assert 0.70 < gap / before[seed] < 0.80
    next_half = 4 ** (math.log(0.5) / math.log(found[1] / before[1]))
    assert next_half == pytest.approx(28, abs=1)


def test_more_work_gives_nothing_of_single_bloggers_away(results: list[Result]) -> None:
    for result in results:
        sharer = result.leakage["secret-sharer"]
        longest = result.spec.mechanism[0].params["rounds"] == SIXTEEN_TIMES[1]
        # What thirty bloggers share stands out, which nothing promised covers.
        assert 3 < sharer["exposure_max_repeats"].value < (8 if longest else 6)
        assert sharer["extracted_random_sampling"].value <= (0.05 if longest else 0)
        assert sharer["extracted_beam_search"].value == 0
        assert result.leakage["membership"]["auc_user"].value < 0.55
        assert result.leakage["audit"]["epsilon_lower_bound"].value == 0


@pytest.fixture(scope="module")
def people(script: Any) -> Any:
    return script.Study(load_results([RESULTS / n for n in ("bloggers", "bloggers-population")]))


def test_fewer_people_are_at_the_same_proven_epsilon() -> None:
    results = load_results([RESULTS / "bloggers-population"])
    assert len(results) == 12
    for result in results:
        (epsilon,) = (g.epsilon for g in result.guarantees if g.kind == "proven")
        if result.spec.mechanism[0].name == "user-dp":
            assert 7.9 < epsilon <= 8


def test_half_of_the_gain_is_there_with_a_quarter_of_the_people(people: Any) -> None:
    quarter = people.share(4_500, FEWER[4_500])
    every = people.share(MOST, BASE)
    assert 0.5 < quarter.low < quarter.value < 0.6
    assert quarter.value < every.value
    assert quarter.high > every.low  # the intervals touch: not told apart


def test_the_gain_grows_with_people(people: Any) -> None:
    private = {n: people.private[n, work] for n, work in {**FEWER, MOST: BASE}.items()}
    for runs in (people.plain, private):
        quarter, half, every = (
            [found / people.public[count][seed] for seed, found in runs[count].items()]
            for count in (4_500, 9_000, MOST)
        )
        assert mean(quarter) > mean(half) > mean(every)
        assert min(quarter) > max(every)


def test_without_protection_fewer_people_leak_more() -> None:
    results = load_results([RESULTS / n for n in ("bloggers", "bloggers-population")])
    area: dict[str, dict[int, list[float]]] = {"noiseless": {}, "user-dp": {}}
    for result in results:
        if len(result.spec.mechanism) == 1 and result.spec.mechanism[0].name in area:
            count = int(result.spec.source.params["users"])
            found = result.leakage["membership"]["auc_user"].value
            area[result.spec.mechanism[0].name].setdefault(count, []).append(found)
    assert min(area["noiseless"][4_500]) > max(area["noiseless"][MOST]) + 0.03
    assert max(max(found) for found in area["user-dp"].values()) < 0.54


def test_the_picture_is_that_of_the_results(script: Any, tmp_path: Path) -> None:
    folders = [RESULTS / name for name in script.FOLDERS]
    script.plot(script.Study(load_results(folders)), tmp_path / "made.svg")
    assert_same_drawing(tmp_path / "made.svg", ROOT / "docs" / "bloggers-trend.svg")
