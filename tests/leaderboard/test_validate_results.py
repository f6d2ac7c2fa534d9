"""Validation of honest results: those of the checkout, old ones, and fresh ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from references import REFERENCE, bundle_names
from tiny import NOISELESS, ROUNDS, SPIES, USER_DP, plugged, runs

from uedp_bench.leaderboard.sources import Line
from uedp_bench.leaderboard.validate import check, find
from uedp_bench.leaderboard.validation.report import Report
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

ROOT = Path(__file__).parents[2]
HISTORIC = sorted((ROOT / "tests" / "historic_results").glob("*.json"))

KNOWN = (
    "not checked: provenance.identity is missing",
    "it depends on sizes of the corpus",
    "name no stage",
    "names a MLflow store",
    "results of different versions do not compare",
    "numbers of different versions of what computes do not compare",
    "is of another version than the one installed",
    "did not state what all proofs assume",
    "no bound of this file exceeds the claim at its delta",  # one at the delta of the bound does
    "look like names of people",  # politicians, whose mention is an attribute
)
"""What cannot be checked of results that are older than what they would have to record."""


@pytest.mark.long
@pytest.mark.parametrize("name", bundle_names())
def test_reference_results_are_valid(name):
    lines = list(find([REFERENCE / name]))
    assert lines
    for line in lines:
        assert isinstance(line, Line), line  # not a report on the bundle
        report = check(line)
        assert report.errors == ()
        assert report.id == line.id
        for note in report.notes:
            assert any(text in note.what for text in KNOWN), note


@pytest.mark.parametrize("path", HISTORIC, ids=lambda path: path.stem)
def test_historic_results_are_valid(path):
    report = check(path)
    assert report.errors == ()
    for note in report.notes:
        assert any(text in note.what for text in KNOWN), note


# ---------------------------------------------------------------------------- fresh runs


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    with plugged(SPIES.parent / "judges.py"):
        yield tmp_path_factory.mktemp("fresh")


def of_run(out: Path, mechanism, *attacks, status="finished", **fields) -> tuple[Path, Report]:
    (spec,) = runs(mechanism, attacks=list(attacks), **fields)
    result = execute(spec, Execution(out, "cpu", keep_release=False))
    assert result.status == status
    path = out / result.id / "result.json"
    return path, check(path)


def errors(path: Path, change) -> set[str]:
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    changed = path.with_name("changed.json")
    changed.write_text(json.dumps(data), encoding="utf-8")
    return {problem.where for problem in check(changed).errors}


SHARER = {"name": "secret-sharer", "params": {"p_u": [0.2], "p_e": [1.0], "canaries": 2,
                                              "references": 16, "word_pool": 50}}  # fmt: skip
MEMBERSHIP = {"name": "membership", "params": {"held_out_users": 10, "shadow_models": 2}}


@pytest.mark.parametrize("mechanism", [NOISELESS, "deidentify+user-dp"])
def test_nothing_is_left_unchecked_of_a_fresh_run(out, mechanism):
    if isinstance(mechanism, str):
        mechanism = [{"name": "deidentify"}, USER_DP]
    # Canaries of many users would leave membership too few members as they were.
    rare = {**SHARER, "params": {**SHARER["params"], "p_u": [0.05]}}
    _, report = of_run(out, mechanism, rare, MEMBERSHIP)
    assert report.problems == ()


def test_failed_runs_are_valid_too(out):
    _, report = of_run(out, NOISELESS, {"name": "membership", "params": {"held_out_users": 500}},
                       status="failed")  # fmt: skip
    assert report.errors == ()


def test_a_plug_in_is_checked_where_it_is_loaded(out):
    mechanism = {"name": "secretly-fixed", "params": ROUNDS}
    path, report = of_run(out, mechanism)
    assert report.problems == ()  # its proof is refused

    def with_proof(data):
        data["guarantees"][1] |= {"status": "given", "epsilon": 1.0, "notion": "dp"}

    assert {"guarantees.1.epsilon", "events.0.event.event.kind"} <= errors(path, with_proof)


def test_bounds_of_an_attack(out):
    low = {"name": "verdict", "params": {"epsilon": 0.1, "strict": 0.1}}
    path, report = of_run(out, USER_DP, low)
    assert report.problems == ()

    def raised(data):
        data["lower_bounds"][0]["strict_epsilon"] = 1e6

    def lowered(data):
        data["lower_bounds"][0]["epsilon"] = 0.05

    assert errors(path, raised) == {"lower_bounds.0.strict_epsilon", "guarantees.0.status"}
    assert errors(path, lowered) == {"lower_bounds.0.epsilon"}  # as the plug-in itself says


TRIED = {"mechanism.user-dp.clip": [0.3, 0.6], "model.units": [8]}
CLIPPED = {"name": "user-dp", "params": {**ROUNDS, "clip": 0.3}}
CHOICES = {
    "fixed": {},
    "poisson": {"repetitions": "poisson", "mean": 4.0},
    "not-charged": {"charge": False},
}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_cost_of_choosing_settings(out, choice):
    path, report = of_run(out, CLIPPED, selection={"tried": TRIED, **CHOICES[choice]})
    assert report.problems == ()
    data = json.loads(path.read_text(encoding="utf-8"))
    single = data["selection"]["guarantees"][0]["epsilon_of_one_trial"]

    def as_if_fixed_in_advance(data):
        data["guarantees"][1]["epsilon"] = single / 2
        data["selection"]["guarantees"][0]["epsilon"] = single / 2

    def without_record(data):
        data["selection"] = {}

    def another_trial(data):
        data["selection"]["guarantees"][0]["epsilon_of_one_trial"] = 1.0

    def fewer(data):
        data["selection"]["settings"] = 1

    def nothing_charged(data):
        data["selection"]["guarantees"] = []

    assert errors(path, as_if_fixed_in_advance) == {"guarantees.1.epsilon"}
    assert "selection.guarantees" in errors(path, without_record)
    assert errors(path, another_trial) == {"selection.guarantees.0.epsilon_of_one_trial"}
    assert errors(path, fewer) == {"selection.settings"}
    assert errors(path, nothing_charged) == {"selection.guarantees"}


def test_a_run_that_is_none_of_those_tried(out):
    path, _ = of_run(out, CLIPPED, selection={"tried": TRIED})

    def other(data):
        for spec in (data["spec"]["selection"], data["selection"]):
            spec["tried"]["mechanism.user-dp.clip"] = [0.6, 0.9]

    assert {"spec.selection"} <= errors(path, other)


# ---------------------------------------------------------------------------- where files are


def test_files_are_found_once_and_copies_are_left_out(tmp_path):
    for name in ("runs/a", "runs/b/c", "runs/mlartifacts/1/a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "result.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    runs_folder = tmp_path / "runs"
    first = runs_folder / "a" / "result.json"
    finds = list(find([runs_folder, first, tmp_path / "empty", tmp_path / "none"]))
    assert finds[:2] == [first, runs_folder / "b" / "c" / "result.json"]
    assert isinstance(finds[2], Report)
    assert finds[2].problems[0].what == "holds no result.json and no bundle"
    assert finds[3:] == [tmp_path / "none"]
