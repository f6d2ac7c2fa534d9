"""What docs/reproductions says of classification by two parties is what the results say."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "leaderboard" / "results" / "reproductions"
CNN, LINEAR = "secure-inference", "secure-inference-linear"
PAGE = (ROOT / "docs" / "reproductions" / "secure-inference.md").read_text(encoding="utf-8")


def found(name: str, *mechanisms: str) -> list[Result]:
    """One result a seed."""
    each = [
        result
        for result in load_results([FOLDER / name])
        if tuple(part.name for part in result.spec.mechanism) == mechanisms
    ]
    assert sorted(result.spec.seed for result in each) == [1, 2, 3]
    return each


def proven(result: Result) -> dict[str, float]:
    return {g.unit: g.epsilon for g in result.guarantees if g.kind == "proven"}


@pytest.mark.parametrize("name", [CNN, LINEAR])
def test_the_page_holds_the_tables_that_results_print(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "reproductions.py"))
    script["main"]("secure-inference", FOLDER / name)
    assert capsys.readouterr().out.strip() in PAGE


@pytest.mark.parametrize("name", [CNN, LINEAR])
def test_neither_promise_changes_the_other(name: str) -> None:
    for one in found(name, "noiseless"):
        assert proven(one) == {"user": math.inf}
    for one in found(name, "noiseless", "mpc"):
        assert proven(one) == {"user": math.inf, "computation": 0.0}
    for one in found(name, "dp-sgd", "mpc"):
        both = proven(one)
        assert both.keys() == {"record", "computation"}
        assert 0.0 < both["record"] < 10.0
        assert both["computation"] == 0.0


@pytest.mark.parametrize("name", [CNN, LINEAR])
def test_transcripts_tell_nothing_and_answers_tell_the_model(name: str) -> None:
    for trainer in ("noiseless", "dp-sgd"):
        for one in found(name, trainer, "mpc"):
            auc = one.leakage["transcript"]["auc_inputs"]
            assert auc.low is not None
            assert auc.high is not None
            assert auc.low < 0.5 < auc.high
            assert one.leakage["transcript"]["p_uniform"].value > 0.05
            assert one.leakage["transcript"]["p_inputs"].value > 0.27
    for one in found(name, "noiseless", "mpc"):
        copied = one.leakage["model-extraction"]
        assert copied["agreement_majority"].high is not None
        assert copied["agreement"].value > copied["agreement_majority"].high


def test_labels_tell_members_and_dp_sgd_brings_that_near_what_words_tell() -> None:
    for one in found(LINEAR, "noiseless", "mpc"):
        assert one.leakage["membership"]["auc_user"].value > 0.86
    for one in found(LINEAR, "dp-sgd", "mpc"):
        assert one.leakage["membership"]["auc"].value < 0.56
        assert 0.45 < one.leakage["membership"]["auc_bag_of_words"].value < 0.54


def test_a_linear_classifier_is_better_and_takes_a_hundredth() -> None:
    pairs = zip(*(found(name, "noiseless", "mpc") for name in (CNN, LINEAR)), strict=True)
    for cnn, linear in pairs:
        right = linear.utility["accuracy"].low
        wrong = cnn.utility["accuracy"].high
        assert right is not None
        assert wrong is not None
        assert right > wrong + 0.2
        costs = [each.cost.model_dump() for each in (cnn, linear)]
        a_text = [(cost["mpc_bytes_party"] + cost["mpc_bytes_dealer"]) / cost["mpc_texts"]
                  for cost in costs]  # fmt: skip
        assert a_text[1] < a_text[0] / 100
