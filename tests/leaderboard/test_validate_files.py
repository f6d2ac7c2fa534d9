"""Whatever a file of anybody holds, validation says what is wrong with it in short lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from validated import changed, checked, errors, reference

from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation.report import plain, shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ('{"id": 1,}', "JSON"),
        ("[]", "list"),
        ("3", "kind: 3"),
        ("null", "kind: null"),
        ("{}", "id, group, status, spec"),
        ('{"id": "a", "guarantees": []}', "group, status, spec"),
        ("[" * 100_000, "deep"),
        ('{"id": 1, "group": 1, "status": 1, "spec": ' + "[" * 300 + "]" * 300 + "}",
         "deep"),
        ("1" * 5000, "JSON"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "JSON"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_one_line(tmp_path, text, message):
    report = checked(tmp_path, text)
    assert len(report.problems) == 1
    assert message in report.problems[0].what
    assert "\n" not in report.problems[0].what


def test_files_that_cannot_be_read(tmp_path):
    assert check(tmp_path / "none.json").problems
    assert "folder" in check(tmp_path).problems[0].what
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "UTF-8" in check(binary).problems[0].what
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(65 * 2**20)
    assert "16 MiB" in check(large).problems[0].what


def test_all_problems_are_told_at_once(tmp_path):
    data = json.loads(reference("user-dp"))
    for field, value in (("epsilons", 1), ("status", "done"), ("utility/accuracy/value", None)):
        data = changed(data, field, value)
    assert errors(checked(tmp_path, data)).keys() == {
        "epsilons", "status", "utility.accuracy.value"
    }  # fmt: skip
    data = json.loads(reference("user-dp"))
    data["series"]["train_loss"] = ["x"] * 1000
    problems = checked(tmp_path, data).problems
    assert len(problems) == 201
    assert problems[-1].what == "has 800 more problems"


def test_a_key_that_is_there_twice(tmp_path):
    text = reference("user-dp")
    assert text.startswith("{")
    by_place = errors(checked(tmp_path, '{"id": "0123456789abcdef", ' + text[1:]))
    assert by_place["id"] == "'id' is there twice in one object"


def test_names_of_strangers_are_shown_as_text(tmp_path):
    data = json.loads(reference("user-dp"))
    evil = "\x1b[31m<b>\n\u202e" + "x" * 500
    data["utility"][evil] = {"value": -1.0, "low": 2.0, "high": 1.0}
    data["leakage"][evil] = {}
    report = checked(tmp_path, data)
    text = "".join(problem.where + problem.what for problem in report.problems)
    assert text.isprintable()
    assert "\\x1b[31m<b>\\n\\u202e" in text
    assert all(len(problem.where) <= 300 for problem in report.problems)
    assert plain("a\ud800") == "a\\ud800"
    assert shown(None) == "null"


SMALL = ("dpnr", "reproductions/dpnr-ag-dropout")
NUMBERS = [-1, 0, 1, 7, 0.5, 2.0, -1e300, 1e300, 10**30, -(10**30), 10**400, 1e-300]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.sampled_from(
        ["", "inf", "-inf", "nan", "proven", "user", "dpnr", "/x", "0" * 16, "é\ud800"]
    ),
    lambda part: (
        st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=3), part, max_size=3)
    ),
    max_leaves=6,
)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    out = []
    for name, part in parts:
        out.append((*where, name))
        if isinstance(part, dict | list):
            out += places(part, (*where, name))
    return out


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_is_changed_there_is_a_report(tmp_path_factory, data):
    result = json.loads(reference(*SMALL))
    for _ in range(data.draw(st.integers(1, 3))):
        *parents, last = data.draw(st.sampled_from(places(result)))
        inner: Any = result
        for part in parents:
            inner = inner[part]
        if data.draw(st.booleans()):
            inner[last] = data.draw(JSON)
        else:
            del inner[last]
    report = checked(tmp_path_factory.mktemp("fuzz"), result)
    for problem in report.problems:
        assert "could not be checked" not in problem.what
        assert (problem.where + problem.what).isprintable()


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(at=st.integers(0, 4000), inserted=st.text(max_size=5), removed=st.integers(0, 50))
def test_whatever_the_text_is_there_is_a_report(tmp_path_factory, at, inserted, removed):
    text = reference(*SMALL)
    path = tmp_path_factory.mktemp("fuzz") / "result.json"
    cut = text[:at] + inserted + text[at + removed :]
    path.write_bytes(cut.encode("utf-8", "surrogatepass"))
    assert "could not be checked" not in str(check(path).problems)
