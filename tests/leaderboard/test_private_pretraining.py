"""What docs/reproductions says of private pre-training is what the results say."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import pytest

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
def arms(script: dict[str, Any]) -> dict[str, Result]:
    found: dict[str, Result] = script["arms"](FOLDER)
    return found


def test_the_page_holds_the_tables_that_results_print(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script["main"](FOLDER)
    for table in capsys.readouterr().out.strip().split("\n\n"):
        assert table in PAGE


def test_without_noise_exposure_grows_with_occurrences(
    script: dict[str, Any], arms: dict[str, Result]
) -> None:
    bits = {
        n: script["exposure"](script["secrets"](arms["noiseless"]), n) for n in (0, 10, 100, 500)
    }
    assert max(bits[0], bits[10]) < CHANCE + 1
    assert bits[10] + 2 < bits[100] < bits[500]


def test_private_training_and_public_text_alone_leave_chance(
    script: dict[str, Any], arms: dict[str, Result]
) -> None:
    others = {name: result for name, result in arms.items() if name != "noiseless"}
    assert len(others) >= 3
    for result in others.values():
        for n in (0, 1, 10, 100, 500):
            assert script["exposure"](script["secrets"](result), n) < CHANCE + 1.5
        assert result.leakage["secret-sharer"]["extracted_filling"].value < 0.05


def test_likelihood_has_the_order_of_the_paper_and_words_have_not(arms: dict[str, Result]) -> None:
    names = ["noiseless", "ε = 8", "ε = 3.2", "ε = 1", "public-only"]
    assert list(arms) == names
    nats = [result.utility["pseudo_perplexity_piece"].value for result in arms.values()]
    assert nats == sorted(nats)
    right = {name: result.utility["accuracy"].value for name, result in arms.items()}
    assert max(right[name] for name in names[1:4]) < right["public-only"] < right["noiseless"]
    assert right["public-only"] < arms["noiseless"].utility["constant_accuracy"].value


def test_at_most_occurrences_exposure_grows_with_epsilon(
    script: dict[str, Any], arms: dict[str, Result]
) -> None:
    bits = [script["exposure"](script["secrets"](result), 500) for result in arms.values()]
    assert bits == sorted(bits, reverse=True)


def test_epsilons_of_a_sentence_are_those_of_the_page(arms: dict[str, Result]) -> None:
    for name, result in arms.items():
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
    for file in [*FOLDER.rglob("result.json"), *ENTITIES.rglob("result.json")]:
        text = file.read_text(encoding="utf-8")
        assert all(root not in text for root in ("/home/", "/root/", "/usr/"))
