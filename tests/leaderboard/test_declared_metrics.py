"""Declared metrics: from a stranger's attack to the page, and through validation."""

from __future__ import annotations

import gzip
import json
import re
from html import unescape
from pathlib import Path

import pytest
from tiny import NOISELESS, SPIES, plugged, runs

from uedp_bench.components.registry import attacks
from uedp_bench.contracts.results import Result, parse_result, read_result
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.leaderboard.site_files import Contents
from uedp_bench.leaderboard.validate import check
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

ROOT = Path(__file__).resolve().parents[2]
MEMBERSHIP = {"name": "membership", "params": {"held_out_users": 10}}


def executed(out, *attacks):
    with plugged(SPIES.parent / "counting_attack.py"):
        (spec,) = runs(NOISELESS, attacks=list(attacks))
        return execute(spec, Execution(out, "cpu")).id


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A result whose attack is not installed any more."""
    out = tmp_path_factory.mktemp("declared")
    return out / executed(out, {"name": "counting"}, MEMBERSHIP) / "result.json"


def pages(*results: Result) -> dict[str, str]:
    files = Contents().files(list(results), lambda name: "").files
    return {name: str(files[name].make()) for name in files if name.endswith(".html")}


def test_an_attack_of_a_stranger_stands_on_the_board_as_ours(path):
    result = read_result(path)
    assert "counting" not in attacks
    site_pages = pages(result)
    text = re.search(
        r'<script[^>]*"application/json"[^>]*>(.*?)</script>', site_pages["table.html"], re.S
    )
    columns = {one["key"]: one for one in json.loads(text[1])["columns"]}
    names_column, tries = columns["counting.names_told"], columns["counting.tries_rare"]
    assert (names_column["heading"], names_column["better"], names_column["floor"]) == (
        "names told %",
        "lower",
        "2.00 %",
    )
    assert (names_column["main"], names_column["low"], names_column["high"]) == (True, 0.0, 1.0)
    assert (tries["heading"], tries["main"]) == ("tries for rare (kQ)", False)
    assert "share of planted names that a stranger reads" in site_pages["glossary.html"]
    run = unescape(site_pages[f"runs/{result.id}.html"])
    assert "names told 30.0 %, where 2.00 % is expected if nothing leaks: it finds" in run
    (_, leakage) = sheets(aggregate([result]))
    assert leakage.cells[0][leakage.columns.index("names told %")].startswith("30.0")
    assert any("names told 2.00 %" in note for note in leakage.notes)
    assert any("names told 30.0 %" in line for line in result_lines(result))


def test_a_metric_that_is_not_declared_fails_its_attack_alone(tmp_path):
    name = executed(tmp_path, {"name": "counting", "params": {"gives": "undeclared"}}, MEMBERSHIP)
    result = read_result(tmp_path / name / "result.json")
    (failure,) = result.failed_attacks
    assert (failure.name, failure.type) == ("counting", "InputError")
    assert "'attempts_rare'" in failure.message
    assert list(result.leakage) == ["membership"]
    assert list(result.metrics.leakage) == ["membership"]


def test_declarations_of_a_fresh_run_are_those_of_its_components(path):
    report = check(path)
    assert report.errors == ()


def forged(path, change) -> set[str]:
    data = json.loads(path.read_text())
    change(data["metrics"])
    other = path.with_name("changed.json")
    other.write_text(json.dumps(data))
    return {problem.where for problem in check(other).errors}


OURS, THEIRS = "metrics.leakage.membership", "metrics.leakage.counting"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda m: m["leakage"]["membership"][0].update(better="higher"), f"{OURS}.0.better"),
        (lambda m: m["leakage"]["membership"][0].update(label="safe"), f"{OURS}.0.label"),
        (lambda m: m["leakage"]["membership"][0].update(no_leak=0.9), f"{OURS}.0.no_leak"),
        (lambda m: m["leakage"]["membership"].pop(), OURS),
        (lambda m: m["utility"].reverse(), "metrics.utility"),
        (lambda m: m.update(cost=[{"name": "train_seconds", "better": "higher"}]), "metrics.cost"),
        (lambda m: m["leakage"].update(absent=[]), "metrics.leakage.absent"),
        (lambda m: m["leakage"]["counting"].append({"name": "names_told"}), f"{THEIRS}.2.name"),
        (lambda m: m["leakage"]["counting"].append({"name": "n" * 101}), f"{THEIRS}.2.name"),
        (lambda m: m["leakage"]["counting"][0].update(label="a\nb"), f"{THEIRS}.0.label"),
        (lambda m: m["leakage"]["counting"][0].update(about="a" * 301), f"{THEIRS}.0.about"),
        (lambda m: m["leakage"]["counting"][0].update(better="up"), f"{THEIRS}.0.better"),
        (lambda m: m["leakage"]["counting"][0].update(color="red"), f"{THEIRS}.0.color"),
        (lambda m: m["leakage"]["counting"][0].update(high=0.1),
         "leakage.counting.names_told.value"),
    ],
)  # fmt: skip
def test_a_forged_declaration_is_refused(path, change, where):
    assert where in forged(path, change)


def test_an_entry_that_is_left_out_is_that_of_the_component(path):
    assert forged(path, lambda metrics: metrics["leakage"].pop("membership")) == set()


def test_a_result_may_lack_a_metric_that_its_component_learned_later(path):
    data = json.loads(path.read_text())
    lost = data["metrics"]["leakage"]["membership"].pop()["name"]
    other = path.with_name("older.json")
    other.write_text(json.dumps(data))
    assert OURS in {problem.where for problem in check(other).errors}
    del data["leakage"]["membership"][lost]
    other.write_text(json.dumps(data))
    assert OURS not in {problem.where for problem in check(other).errors}


def test_a_cost_keeps_its_declaration(tmp_path):
    bundle = ROOT / "leaderboard/results/reproductions/secure-inference-linear.jsonl.gz"
    with gzip.open(bundle, "rt", encoding="utf-8") as lines:
        data = next(one for one in map(json.loads, lines) if one["metrics"].get("cost"))
    stored = tmp_path / "result.json"
    stored.write_text(json.dumps(data))
    assert "metrics.cost" in forged(stored, lambda metrics: metrics["cost"].pop())


def test_html_in_a_declaration_is_text(path):
    data = json.loads(path.read_text())
    payload = "<img src=x onerror=alert(1)>"
    data["metrics"]["leakage"]["counting"][0] |= {"label": payload, "about": payload}
    result = parse_result(json.dumps(data), "forged")
    for name, page in pages(result).items():
        assert payload not in page, name
