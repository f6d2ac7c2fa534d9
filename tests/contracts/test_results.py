"""Results: what they refuse, how they are written, and that old ones keep loading."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from uedp_bench.contracts.results import (
    SCHEMA_VERSION,
    Estimate,
    Result,
    migrated,
    parse_result,
    read_result,
    write_result,
)
from uedp_bench.errors import InputError
from uedp_bench.io.files import MOST_DEPTH

HISTORIC = sorted((Path(__file__).parents[1] / "historic_results").glob("*.json"))


def result(**fields) -> Result:
    spec = {"task": {"name": "t"}, "source": {"name": "s"}, "model": {"name": "m"},
            "mechanism": [{"name": "a"}, {"name": "b"}]}  # fmt: skip
    return Result.model_validate(
        {"id": "i", "group": "g", "status": "finished", "spec": spec, **fields}
    )


@pytest.mark.parametrize("path", HISTORIC, ids=lambda path: path.stem)
def test_historic_results_keep_loading(path, tmp_path):
    loaded = read_result(path)
    raw = json.loads(path.read_text(encoding="utf-8"))
    assert loaded.id == raw["id"]
    values = {renamed(raw, name): each["value"] for name, each in raw["utility"].items()}
    assert {name: estimate.value for name, estimate in loaded.utility.items()} == values
    assert [g.kind for g in loaded.guarantees] == [g["kind"] for g in raw["guarantees"]]
    write_result(loaded, tmp_path / "result.json")
    assert read_result(tmp_path / "result.json") == loaded
    rewritten = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert rewritten["schema_version"] == SCHEMA_VERSION
    raw["utility"] = {renamed(raw, name): each for name, each in raw["utility"].items()}
    raw["schema_version"] = SCHEMA_VERSION
    assert kept(raw, rewritten) == raw


def renamed(raw, name):
    """What a metric of a file is called now."""
    old = raw["schema_version"] == 1 and raw["spec"]["task"]["name"] == "next-word"
    return "accuracy_with_unknown" if old and name == "accuracy" else name


def kept(old, new):
    """What of `new` has a place in `old`: fields may be added at any depth, none may be lost."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: kept(value, new[key]) for key, value in old.items() if key in new}
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [kept(a, b) for a, b in zip(old, new, strict=True)]
    return new


def test_there_is_a_historic_result_of_every_version():
    versions = {json.loads(path.read_text(encoding="utf-8"))["schema_version"] for path in HISTORIC}
    assert versions == set(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize(
    "fields",
    [
        {"utility": {"perplexity": {"value": math.nan}}},
        {"utility": {"perplexity": {"value": 1.0, "low": math.nan}}},
        {"leakage": {"x": {"auc": {"value": 0.5, "high": math.nan}}}},
        {"series": {"loss": [(1, 0.5), (2, math.nan)]}},
        {"details": {"x": {"roc": [[0.0, math.nan]]}}},
        {"diagnostics": {"a": {"b": np.float32("nan")}}},
        {"cost": {"train_seconds": 1.0, "users_per_second": math.nan}},
        {"pretraining": {"x": math.nan}},
        {"provenance": {"x": np.array([1.0, np.nan])}},
    ],
)
def test_nan_is_never_a_result(fields):
    with pytest.raises(ValidationError, match=r"(?i)nan"):
        result(**fields)


def test_the_place_of_a_nan_is_named():
    with pytest.raises(ValidationError, match=r"membership: roc: 1: NaN"):
        result(details={"membership": {"roc": [0.5, math.nan]}})


def test_infinity_is_a_string_in_the_file_and_a_number_again(tmp_path):
    written = result(
        utility={"perplexity": {"value": math.inf, "low": -math.inf, "high": None}},
        series={"loss": [(1, math.inf)]},
        diagnostics={"signal_to_noise": math.inf, "many": (np.float64("-inf"), np.int64(3))},
        guarantees=[{"kind": "proven", "unit": "user", "adjacency": "add-or-remove",
                     "epsilon": math.inf, "delta": 1e-5, "accountant": "none"}],
    )  # fmt: skip
    path = tmp_path / "result.json"
    write_result(written, path)
    raw = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert raw["utility"]["perplexity"] == {"value": "inf", "low": "-inf", "high": None}
    assert raw["series"]["loss"] == [[1, "inf"]]
    assert raw["diagnostics"] == {"signal_to_noise": "inf", "many": ["-inf", 3]}
    assert raw["guarantees"][0]["epsilon"] == "inf"
    again = read_result(path)
    assert again == written
    assert again.guarantees[0].epsilon == math.inf
    assert again.series["loss"] == [(1, math.inf)]
    assert again.utility["perplexity"] == Estimate(value=math.inf, low=-math.inf)


def test_a_file_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_result(result(id="old"), path)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            write_result(result(id="new"), path)
    assert read_result(path).id == "old"
    write_result(result(id="new"), path)
    assert read_result(path).id == "new"
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"result\.json.*JSON"),
        ("{}", r"result\.json.*: id: "),
        ("[]", r"result\.json.*dictionary"),
        ('{"schema_version": 99}', "schema_version"),
    ],
)
def test_files_that_are_no_result(tmp_path, text, message):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_result(path)
    with pytest.raises(InputError, match=r"none\.json.*file"):
        read_result(tmp_path / "none.json")


def test_a_field_of_nobody_is_refused_and_the_label_joins_names():
    with pytest.raises(ValidationError, match="epsilons"):
        result(epsilons=3)
    assert result().label == "a + b"


def test_what_is_nested_too_deeply_to_be_written_again_is_refused(tmp_path):
    def written(levels):
        value = 1
        for _ in range(levels):
            value = {"x": value}
        path = tmp_path / "result.json"
        plain = result().model_dump(mode="json") | {"diagnostics": value}
        path.write_text(json.dumps(plain), encoding="utf-8")
        return read_result(path)

    assert written(MOST_DEPTH - 1).diagnostics
    with pytest.raises(InputError, match="100 levels"):
        written(MOST_DEPTH)
    with pytest.raises(InputError, match="100 levels"):
        written(900)


HISTORIC_RESULTS = Path(__file__).parents[1] / "historic_results"
FLOORS = {"unigrams": "unigram_perplexity"}


def old(name="v1", **changes):
    raw = json.loads((HISTORIC_RESULTS / f"{name}.json").read_text(encoding="utf-8"))
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
