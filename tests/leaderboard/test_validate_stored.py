"""What a result says of its files must be what its mechanisms leave there."""

from __future__ import annotations

import copy
import json

import pytest
from references import bundle_lines
from validated import GONE, Data, changed, reference

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.validate import check_samples, check_stored

HIDES = "hides the model from those who ask it; only the owner can read the model"


def errors_of(data: Data) -> dict[str, str]:
    return {problem.where: problem.what for problem in check_stored(Result.model_validate(data))}


@pytest.fixture(scope="module")
def served() -> Data:
    for line in bundle_lines("reproductions/secure-inference"):
        data: Data = json.loads(line.text)
        if [ref["name"] for ref in data["spec"]["mechanism"]] == ["dp-sgd", "mpc"]:
            return data
    raise LookupError


def test_stored_results_say_what_their_mechanisms_leave(served: Data) -> None:
    assert errors_of(served) == errors_of(json.loads(reference("user-dp"))) == {}


def test_a_protocol_that_no_mechanism_runs_is_an_error() -> None:
    data = json.loads(reference("user-dp"))
    data["stored"] = {**data.get("stored", {}), "protocol": HIDES}
    assert "mechanism" in errors_of(data)["stored.protocol"]


def test_a_model_behind_a_protocol_is_said_to_be_there(served: Data) -> None:
    changed_run = changed(served, "stored/protocol", GONE)
    assert "mpc" in errors_of(changed_run)["stored.protocol"]
    del changed_run["stored"]["release"]  # nothing was kept
    assert errors_of(changed_run) == {}


def test_samples_of_real_text_are_refused_unless_somebody_asked() -> None:
    data = json.loads(reference("user-dp"))
    one = {"private": "Ann is ill", "seen": "", "read": "Ann"}
    data["samples"] = {"reader": [one] * 6}

    def places_and_texts() -> dict[str, str]:
        problems = check_samples(Result.model_validate(data))
        return {problem.where: problem.what for problem in problems}

    assert set(places_and_texts()) == {"samples.reader"}  # generated text, but too much of it
    data["samples"]["reader"] = [one]
    data["spec"]["source"] = {"name": "text", "params": {"path": "mail.csv"}}
    assert "source.show_samples" in places_and_texts()["samples"]
    data["spec"]["source"]["params"]["show_samples"] = True
    assert places_and_texts() == {}
    del data["samples"]
    assert places_and_texts() == {}


def test_of_mechanisms_that_are_not_here_nothing_is_said(served: Data) -> None:
    data = copy.deepcopy(served)
    data["spec"]["mechanism"][1]["name"] = "of-somebody-else"
    del data["stored"]["protocol"]
    assert errors_of(data) == {}
