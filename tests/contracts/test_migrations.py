"""Results of schema version 1: what their numbers are called now, and what is known of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from uedp_bench.contracts.migrations import SCHEMA_VERSION, migrated
from uedp_bench.contracts.results import parse_result

HISTORIC = Path(__file__).parents[1] / "historic_results"
FLOORS = {"unigrams": "unigram_perplexity"}


def old(name="v1", **changes):
    raw = json.loads((HISTORIC / f"{name}.json").read_text(encoding="utf-8"))
    return {**raw, **changes}


def migrated_result(raw):
    return parse_result(json.dumps(raw), "a test")


def utility(value, low, high):
    return {
        "perplexity": {"value": value, "low": low, "high": high},
        "unigram_perplexity": {"value": 100.0, "low": 90.0, "high": 110.0},
    }


def test_accuracy_that_counted_unknown_words_is_called_so():
    raw = old()
    result = migrated_result(raw)
    assert "accuracy" not in result.utility
    assert result.utility["accuracy_with_unknown"].value == raw["utility"]["accuracy"]["value"]
    assert result.schema_version == SCHEMA_VERSION == 2


def test_accuracy_of_classes_stays_what_it_was():
    raw = old("v1-before-identity-noiseless")
    result = migrated_result(raw)
    assert result.utility["accuracy"].value == raw["utility"]["accuracy"]["value"]
    assert result.headline.model_dump() == {
        "metric": "error", "larger_is_better": False, "by_vocabulary": False,
    }  # fmt: skip
    assert result.floors == {
        "majority": raw["utility"]["majority_error"]["value"],
        "random": raw["utility"]["random_error"]["value"],
    }
    assert result.learned is (result.utility["error"].high < min(result.floors.values()))


@pytest.mark.parametrize(
    ("value", "low", "high", "pretraining", "learned"),
    [
        (80.0, 70.0, 99.9, {}, True),
        (80.0, 70.0, 100.0, {}, False),
        (1000.0, 900.0, 1100.0, {}, False),
        (100.0, None, None, {}, False),
        (80.0, None, None, {}, None),
        (80.0, 70.0, 90.0, {"rows": 5}, None),  # the model before private training was not kept
        (80.0, 70.0, 120.0, {"rows": 5}, False),
        ("inf", 70.0, "inf", {}, False),
    ],
)
def test_old_runs_that_are_no_better_than_unigrams_say_so(value, low, high, pretraining, learned):
    result = migrated_result(old(utility=utility(value, low, high), pretraining=pretraining))
    assert result.headline.metric == "perplexity"
    assert result.headline.by_vocabulary
    assert result.floors == {"unigrams": 100.0}
    assert result.learned is learned


def test_nothing_is_added_to_what_failed_or_to_a_task_that_nobody_knows():
    error = {"type": "InputError", "message": "x", "phase": "train"}
    failed = migrated_result(old(status="failed", error=error))
    assert (failed.headline, failed.floors, failed.learned) == (None, {}, None)
    raw = old()
    raw["spec"] = {**raw["spec"], "task": {"name": "strange", "params": {}}}
    strange = migrated_result(raw)
    assert strange.headline is None
    assert strange.utility["accuracy"].value == raw["utility"]["accuracy"]["value"]


def test_what_is_new_or_no_result_comes_back_as_it_is():
    result = migrated_result(old()).model_dump(mode="json")
    assert migrated(result) is result
    broken = {"spec": 3, "utility": [], "status": "finished"}
    for value in (broken, {**broken, "spec": {"task": {"name": []}}}, [1], "text", None):
        migrated(value)  # what is wrong with it is said when it is read
