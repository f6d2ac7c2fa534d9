"""Declarations of a result: its own, else those of its components."""

from __future__ import annotations

import csv
import io
import json

import pytest
from board_results import seeds
from references import reference_results

from uedp_bench.api import Metric
from uedp_bench.components.metric import COSTS, Declared
from uedp_bench.components.registry import attacks, mechanisms
from uedp_bench.contracts.results import Headline, Result
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.installed import NOTE, OLDER, is_older, result_metrics, versions_of
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.table import to_csv
from uedp_bench.version import ENGINE

LIST = (Metric("auc", better="lower", no_leak=0.5, low=0.0, high=1.0),)


def test_stored_results_have_declared_metrics_within_their_limits():
    for result in reference_results():
        metrics = result_metrics(result)
        parts = [("utility", "", result.utility)]
        parts += [("leakage", *each) for each in result.leakage.items()]
        for kind, attack, values in parts:
            for name, estimate in values.items():
                one = metrics.metric(kind, name, attack)
                assert (one.name, bool(one.about)) == (name, True), (attack, name)
                assert one.low <= estimate.value <= one.high, (attack, name)


def test_an_older_result_is_read_by_its_components():
    stored = next(one for one in reference_results() if "membership" in one.leakage)
    result = stored.model_copy(update={"metrics": None})
    assert result_metrics(result).leakage["membership"] == attacks.get("membership").metrics
    assert result_metrics(result).metric("cost", "train_seconds") == COSTS[0]


def test_own_declarations_go_before_those_of_components():
    result = next(one for one in reference_results() if "membership" in one.leakage)
    own = Declared(utility=(Metric("perplexity", "own"),), leakage={"membership": LIST})
    carried = result_metrics(result.model_copy(update={"metrics": own, "headline": None}))
    assert carried.metric("utility", "perplexity").label == "own"
    assert carried.metric("leakage", "auc", "membership").label == "auc"


def test_the_headline_ranks_in_its_direction_whatever_is_declared():
    result = reference_results()[0]
    for name in ("of_a_stranger", "x" * 10_000):
        ranked = Headline(metric=name, larger_is_better=True)
        strange = result.model_copy(update={"headline": ranked})
        one = result_metrics(strange).metric("utility", name)
        assert (one.better, one.main, one.name) == ("higher", True, name)


PRESENT = {
    "engine": ENGINE,
    "task": ["next-word", 10**6, {}],
    "source": ["embedded", 10**6, {}],
    "model": ["lstm-small", 10**6, {}],
    "mechanism": [["user-dp", mechanisms.get("user-dp").version, {}]],
    "attacks": [],
}
OLDER_IDENTITIES = {
    "engine": {**PRESENT, "engine": ENGINE - 1},
    "no engine": {name: part for name, part in PRESENT.items() if name != "engine"},
    "component": {**PRESENT, "mechanism": [["user-dp", 1, {}]]},
    "no form": {**PRESENT, "engine": "2"},
}


def with_identity(result: Result, identity: object) -> Result:
    return result.model_copy(update={"provenance": {**result.provenance, "identity": identity}})


def recorded(result: Result) -> object:
    return result.provenance.get("identity")


def make_result(mechanism: str = "user-dp") -> Result:
    return seeds(mechanism, 50.0)[0]


@pytest.mark.parametrize("identity", OLDER_IDENTITIES.values(), ids=OLDER_IDENTITIES)
def test_an_earlier_version_is_older_code(identity):
    result = with_identity(make_result(), identity)
    assert is_older(recorded(result))


@pytest.mark.parametrize("mechanism", [PRESENT["mechanism"], [["a-strangers", 1, {}, "digest"]]])
def test_present_versions_are_not(mechanism):
    result = with_identity(make_result(), {**PRESENT, "mechanism": mechanism})
    assert not is_older(recorded(result))


def test_rows_are_marked_where_a_board_has_both():
    old = with_identity(make_result("uedp"), OLDER_IDENTITIES["engine"])
    new = with_identity(make_result(), PRESENT)
    rows = aggregate([old, new])
    (utility, *_) = sheets(rows)
    assert [cells[0].endswith(f"({OLDER})") for cells in utility.cells[:2]] == [
        row.older_code for row in rows
    ]
    assert NOTE in utility.notes
    lines = csv.DictReader(io.StringIO(to_csv(rows)))
    assert sorted(line["older_code"] for line in lines) == ["false", "true"]
    (present, *_) = sheets(aggregate([new]))
    assert NOTE not in present.notes


def test_nothing_is_marked_without_an_identity():
    assert not is_older(recorded(make_result()))


def test_versions_hold_no_parameters():
    secret = {**PRESENT, "mechanism": [["user-dp", 2, {"sigma": "S"}]]}
    assert "S" not in json.dumps(versions_of(secret))
