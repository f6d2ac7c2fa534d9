"""What docs/reproductions says of private pre-training is what the results say."""

from __future__ import annotations

import math
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from references import bundle_lines

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "leaderboard" / "results" / "reproductions" / "private-pretraining"
ENTITIES = FOLDER.with_name("private-pretraining-extraction")
PAGE = (ROOT / "docs" / "reproductions" / "private-pretraining.md").read_text(encoding="utf-8")
CHANCE = 1.0 / math.log(2.0)


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "pretraining_table.py"))


@pytest.fixture(scope="module")
def arms(script: dict[str, Any]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = script["arms"](FOLDER)
    return found


def interval(script: dict[str, Any], results: list[Result], copies: int) -> tuple[float, float]:
    mean, half = script["mean_of"](script["bits"](script["secrets"](results), copies))
    return mean - half, mean + half


def test_the_page_holds_the_tables_that_results_print(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script["main"](FOLDER)
    for table in capsys.readouterr().out.strip().split("\n\n"):
        assert table in PAGE


def test_every_model_has_three_seeds(arms: dict[str, list[Result]]) -> None:
    assert list(arms) == ["noiseless", "ε = 8", "ε = 3.2", "ε = 1", "public-only"]
    for results in arms.values():
        assert sorted(result.spec.seed for result in results) == [1, 2, 3]


def test_without_noise_exposure_grows_with_occurrences(
    script: dict[str, Any], arms: dict[str, list[Result]]
) -> None:
    """Intervals over secrets do not touch: a few copies, a hundred, five hundred."""
    few, many, most = (interval(script, arms["noiseless"], n) for n in (10, 100, 500))
    assert few[0] < CHANCE < few[1]
    assert few[1] < many[0] < many[1] < most[0]


def test_noise_lowers_exposure_in_the_order_of_epsilon(
    script: dict[str, Any], arms: dict[str, list[Result]]
) -> None:
    most = {name: interval(script, results, 500) for name, results in arms.items()}
    means = [sum(found) / 2 for found in most.values()]
    assert means == sorted(means, reverse=True)
    assert most["noiseless"][0] > most["ε = 8"][1]
    # A record-level epsilon of 1 says nothing about what 500 records hold.
    assert most["ε = 1"][0] > CHANCE > most["public-only"][0]
    for results in arms.values():
        for n in (0, 1, 10):
            low, high = interval(script, results, n)
            assert low < CHANCE < high or high < CHANCE


def test_likelihood_has_the_order_of_table_1(
    script: dict[str, Any], arms: dict[str, list[Result]]
) -> None:
    nats = {
        name: script["mean_of"](
            [math.log(one.utility["pseudo_perplexity_piece"].value) for one in results]
        )
        for name, results in arms.items()
    }
    means = [mean for mean, _ in nats.values()]
    assert means == sorted(means)
    ends = [(mean - half, mean + half) for mean, half in nats.values()]
    assert all(one[1] < two[0] for one, two in pairwise(ends[1:]))
    share = (nats["public-only"][0] - nats["ε = 1"][0]) / (means[-1] - means[0])
    assert f"ε = 1 gets {share:.0%} of".replace("%", " %") in PAGE


def test_words_that_are_right_tell_only_the_model_without_noise_apart(
    arms: dict[str, list[Result]],
) -> None:
    above = {
        name: all(one.utility["accuracy"].value > one.utility["constant_accuracy"].value
                  for one in results)
        for name, results in arms.items()
    }  # fmt: skip
    assert [name for name, found in above.items() if found] == ["noiseless"]


def test_only_training_without_noise_beats_unigrams(arms: dict[str, list[Result]]) -> None:
    better = {name for name, results in arms.items() for one in results if one.learned}
    assert better == {"noiseless"}


def test_epsilons_of_a_sentence_are_those_of_the_page(arms: dict[str, list[Result]]) -> None:
    for name, results in arms.items():
        for result in results:
            (proof,) = (g for g in result.guarantees if g.kind == "proven")
            if name.startswith("ε"):
                assert proof.unit == "record"
                assert f"ε = {proof.epsilon:.3g}" == name
            else:
                assert proof.epsilon in (0.0, math.inf)


def test_taggers_cannot_be_told_apart() -> None:
    found = aggregate(load_results([ENTITIES]))
    assert len(found) == 4
    strict = [row.utility["f1_strict"] for row in found]
    assert {stat.n for stat in strict} == {3}
    means = [stat.value for stat in strict]
    assert max(means) - min(means) < 0.02
    assert max(stat.low or 0.0 for stat in strict) < min(stat.high or 1.0 for stat in strict)


def test_no_file_holds_a_folder_of_a_machine() -> None:
    for folder in (FOLDER, ENTITIES):
        for line in bundle_lines(f"reproductions/{folder.name}"):
            assert all(root not in line.text for root in ("/home/", "/root/", "/usr/"))
