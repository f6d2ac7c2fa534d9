"""Gates pass what keeps every threshold, and nothing that was not measured."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml
from board_results import bound, promise, seeds

from uedp_bench.cli.gate import decisive_settings
from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result, RunError
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.leaderboard.gate import (
    CLAIMS,
    FAILURES,
    Check,
    Thresholds,
    check_names,
    github_lines,
    judge,
    junit,
)
from uedp_bench.leaderboard.sources import write_bundle
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

TINY = """
task: {name: next-word}
source: {name: embedded, params: {users: 60}}
model: {name: lstm-small, params: {units: 4, vocabulary_size: 100}}
mechanisms: [public-only]
seeds: [1]
"""
PRIVATE = {
    "guarantees": [promise("claimed", 4.0), promise("proven", 8.0),
                   promise("proven", 2.0, "record")],
    "lower_bounds": [bound(1.5, 0.5)],
}  # fmt: skip


def results(**more: Any) -> list[Result]:
    return [*seeds("user-dp", 80.0, 2.0, **{**PRIVATE, **more}), *seeds("noiseless", 50.0, 9.0)]


def checks(results: list[Result], **thresholds: Any) -> dict[tuple[str, str], Check]:
    judged = judge(results, Thresholds(**thresholds))
    return {(check.row, check.quantity): check for check in judged}


@pytest.mark.parametrize(
    ("thresholds", "status"),
    [
        ({"max": {"perplexity": 81}}, "passes"),
        ({"max": {"perplexity": 79}}, "fails"),
        ({"max": {"secret-sharer.exposure_max_repeats": 2.02}}, "passes"),
        ({"max": {"exposure_max_repeats": 2.02}, "interval": True}, "fails"),
        ({"max": {"exposure_max_repeats": 3}, "interval": True}, "passes"),
        ({"max": {"proven": 8}}, "passes"),
        ({"max": {"proven": 7.99}}, "fails"),
        ({"max": {"proven.record": 2}}, "passes"),
        ({"max": {"audited": 1.5}, "interval": True}, "passes"),
        ({"max": {"audited.user": 1}}, "fails"),
        ({"max": {"strict": 0.6}}, "passes"),
    ],
)
def test_a_row_passes_if_its_worst_number_keeps_the_limit(thresholds: Any, status: str) -> None:
    (name,) = thresholds["max"]
    judged = checks(results(), mechanisms=["user-dp"], **thresholds)
    assert judged["user-dp", name].status == status
    assert judged["user-dp", CLAIMS].status == "passes"


def test_what_was_not_measured_does_not_pass() -> None:
    skipped = {"skipped_attacks": [{"name": "membership", "reason": "no users were held out"}]}
    rows = [
        *results(**skipped),
        *seeds("dp-sgd", 70.0, leakage={"membership": {"auc": {"value": 0.5}}}),
    ]
    judged = checks(rows, max={"membership.auc": 0.6, "proven": 9})
    assert judged["user-dp", "membership.auc"].status == "not measured"
    assert "held out" in judged["user-dp", "membership.auc"].reason
    assert judged["dp-sgd", "membership.auc"].status == "passes"
    assert judged["noiseless", "proven"].status == "not measured"
    alone = checks(seeds("user-dp", 80.0)[:1], max={"perplexity": 100}, interval=True)
    assert alone["user-dp", "perplexity"].status == "not measured"


def test_a_row_with_a_failure_does_not_pass() -> None:
    runs = results()
    error = RunError(type="OSError", message="out of disk", phase="train")
    runs[0] = runs[0].model_copy(update={"status": "failed", "error": error, "utility": {}})
    judged = checks(runs, max={"perplexity": 1000, "proven": 9})
    assert judged["user-dp", FAILURES].status == "fails"
    assert "out of disk" in judged["user-dp", FAILURES].reason
    assert judged["user-dp", "perplexity"].status == "not measured"
    assert judged["noiseless", FAILURES].status == "passes"
    failed = [{"name": "membership", "type": "ValueError", "message": "no users"}]
    judged = checks(results(failed_attacks=failed), max={"perplexity": 1000})
    assert judged["user-dp", FAILURES].status == "fails"


def test_infinite_guarantees_and_refuted_claims_fail() -> None:
    refuted = promise("claimed", 1.0, status="refuted", reason="an attack found more")
    rows = seeds("uedp", 80.0, guarantees=[refuted, promise("proven", math.inf)])
    judged = checks(rows, max={"proven": 100})
    assert judged["uedp", CLAIMS].status == "fails"
    assert "found more" in judged["uedp", CLAIMS].reason
    assert judged["uedp", "proven"].status == "fails"
    assert ("uedp", CLAIMS) not in checks(rows, max={"proven": 100}, refuted=True)


def test_the_largest_bound_of_any_seed_counts_if_all_have_one() -> None:
    rows = seeds("user-dp", 80.0, lower_bounds=[bound(0.1, 0.0)])
    worst = bound(4.0, 0.0).model_copy(update={"assumptions": ("scores are normal",)})
    rows[0] = rows[0].model_copy(update={"lower_bounds": (bound(0.1, 0.0), worst)})
    assert checks(rows, max={"audited": 2})["user-dp", "audited"].value == 4.0
    rows[1] = rows[1].model_copy(update={"lower_bounds": ()})
    assert checks(rows, max={"audited": 9})["user-dp", "audited"].status == "not measured"
    claim = seeds("user-dp", 80.0, **PRIVATE)
    claim[2] = claim[2].model_copy(update={"guarantees": claim[2].guarantees[1:]})
    assert checks(claim, max={"claimed": 9})["user-dp", "claimed"].status == "not measured"


def test_other_notions_than_dp_are_no_epsilon_of_it() -> None:
    metric = promise("proven", 1.0, "word", notion="metric-dp")
    computed = promise("claimed", 0.0, "computation", notion="simulation")
    rows = [*results(), *seeds("metric-dp", 90.0, guarantees=[metric, computed])]
    judged = checks(rows, max={"proven": 9, "claimed": 9})
    assert judged["metric-dp", "proven"].status == "not measured"
    assert judged["metric-dp", "claimed"].status == "not measured"


def test_a_name_means_one_quantity_in_all_rows() -> None:
    one = {"leakage": {"membership": {"auc": {"value": 0.5}}}}
    other = {"leakage": {"audit": {"auc": {"value": 0.5}}, "proven": {"user": {"value": 0.1}}}}
    rows = [*seeds("user-dp", 80.0, **one), *seeds("dp-sgd", 80.0, **other)]
    with pytest.raises(InputError, match=r"audit\.auc or membership\.auc"):
        checks(rows, max={"auc": 1})
    with pytest.raises(InputError, match=r"proven\.user"):
        checks(rows, max={"proven.user": 1})


def test_bounds_with_conditions_are_not_strict() -> None:
    conditional = bound(3.0, 2.0).model_copy(update={"assumptions": ("scores are normal",)})
    rows = seeds("user-dp", 80.0, lower_bounds=[conditional])
    assert checks(rows, max={"audited": 4})["user-dp", "audited"].value == 3.0
    with pytest.raises(InputError, match="strict"):
        checks(rows, max={"strict": 4})


@pytest.mark.parametrize(
    ("thresholds", "message"),
    [
        ({"max": {"perplexty": 1}}, "perplexity"),
        ({"min": {"proven": 3}}, "max proven"),
        ({"max": {"audited": 1}, "mechanisms": ["user-pd"]}, "user-dp"),
        ({"max": {"auc": 1}}, r"auc.*membership\.auc or audit\.auc"),
        ({"max": {"audit.auc": 60}}, r"audit\.auc: 60 is not from 0 to 1"),
    ],
)
def test_names_that_mean_nothing_or_two_things_are_refused(thresholds: Any, message: str) -> None:
    both = {"membership": {"auc": {"value": 0.5}}, "audit": {"auc": {"value": 0.5}}}
    with pytest.raises(InputError, match=message):
        checks([*results(), *seeds("dp-sgd", 70.0, leakage=both)], **thresholds)


def test_a_kind_of_bound_that_no_row_has_is_no_known_name() -> None:
    with pytest.raises(UnknownNameError) as error:
        checks(seeds("user-dp", 80.0), max={"audited": 1})
    assert "audited.user" not in str(error.value)


def test_reports_hold_every_check_and_no_markup_of_names() -> None:
    hostile = Check("a<b>&\n::", ("1",), "x", "max 1", 2.0, "fails", "2 exceeds 1: 100 %\nnow")
    good = Check("a<b>&\n::", ("1",), CLAIMS, "", 0.0, "passes", "none is refuted")
    (suite,) = ET.fromstring(junit([hostile, good]))  # noqa: S314
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [True, False]
    (line,) = github_lines([hostile, good])
    assert line == "::error title=a<b>&%0A%3A%3A x max 1::2 exceeds 1: 100 %25%0Anow"


@pytest.mark.parametrize("sign", ["\x1b[31m", "\x00", "\ufffe", "\ud800"])
def test_junit_is_xml_whatever_an_error_says(sign: str, tmp_path: Path) -> None:
    check = Check(f"a{sign}", ("1",), FAILURES, "", 1.0, "fails", f"seed 1: {sign} no disk")
    (tmp_path / "g.xml").write_text(junit([check]), encoding="utf-8")
    (suite,) = ET.parse(tmp_path / "g.xml").getroot()  # noqa: S314
    assert "no disk" in suite.find("testcase/failure").get("message")


def test_an_epsilon_counts_at_the_delta_of_the_run_alone() -> None:
    loose = promise("claimed", 1.0).model_copy(update={"delta": 0.5})
    tight = promise("proven", 1.0).model_copy(update={"delta": 0.0})
    rows = seeds("user-dp", 80.0, guarantees=[loose, tight])
    judged = checks(rows, max={"claimed": 2, "proven": 2, "delta": 1e-5})
    assert judged["user-dp", "claimed"].value == math.inf
    assert judged["user-dp", "claimed"].status == "fails"
    assert judged["user-dp", "proven"].status == judged["user-dp", "delta"].status == "passes"
    rows = [run.model_copy(update={"spec": run.spec.model_copy(update={"delta": 0.5})})
            for run in rows]  # fmt: skip
    assert checks(rows, max={"delta": 1e-5})["user-dp", "delta"].status == "fails"


def test_the_command_exits_with_three_and_writes_what_it_judged(tmp_path: Path, capsys) -> None:
    bundle, file, report = tmp_path / "b.jsonl.gz", tmp_path / "privacy.yaml", tmp_path / "g.xml"
    write_bundle(results(), bundle)
    file.write_text("max: {proven: 8, exposure_max_repeats: 3}\nmechanisms: [user-dp]\n")
    base = ("gate", str(tmp_path / "b"), "--thresholds", str(file))
    assert run_cli((*base, "--junit", str(report))) == 0
    assert "bundles leave failed runs out" in capsys.readouterr().out
    assert ET.parse(report).getroot().find("testsuite") is not None  # noqa: S314
    assert run_cli((*base, "--max", "proven=1", "--json", "--github")) == 3
    out, err = capsys.readouterr()
    judged = json.loads(out)
    assert "::error title=user-dp proven max 1::" in err
    assert {one["quantity"]: one["status"] for one in judged}["proven"] == "fails"
    assert run_cli((*base, "--max", "proven=1", "--github")) == 3
    assert "::error title=user-dp proven max 1::" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max", "proven"), "proven"),
        (("--max", "proven=x"), "proven=x"),
        (("--max", "proven=nan"), "proven=nan"),
        (("--max", "proven=inf"), "proven=inf"),
        (("--max", "proven=1", "--max", "proven=2"), "proven=2"),
        (("--thresholds", "empty.yaml"), "threshold"),
        (("--thresholds", "true.yaml"), "proven"),
        ((), "threshold"),
        (("--thresholds", "none.yaml"), "none.yaml"),
        (("--thresholds", "wrong.yaml"), "mx"),
        (("--thresholds", "twice.yaml"), "twice.yaml: line 1"),
        (("--thresholds", "list.yaml"), "list.yaml: the file"),
        (("--max", "proven=9", "--junit", "none/g.xml"), "none/g.xml"),
    ],
)
def test_thresholds_that_say_nothing_are_refused(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    write_bundle(results(), tmp_path / "b.jsonl.gz")
    Path("wrong.yaml").write_text("mx: {proven: 1}\n")
    Path("true.yaml").write_text("max: {proven: true}\n")
    Path("twice.yaml").write_text("max: {proven: 1, proven: 9}\n")
    Path("list.yaml").write_text("- max\n")
    Path("empty.yaml").write_text("# max: {proven: 1}\n")
    assert run_cli(("gate", "b.jsonl.gz", *options)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("params", "target"),
    [
        ({}, 0.5),
        ({"target_epsilon": 0.1}, 0.5),
        ({"target_epsilon": [0.1, 2.0]}, 2.0),
        ({"stop": ["early", "never"]}, None),
    ],
)
def test_an_audit_stops_where_every_threshold_is_decided(
    params: dict[str, Any], target: float | None
) -> None:
    audit = {"name": "audit", "params": {"retrainings": 4, "stop": "early", **params}}
    runs = expand(parse_spec({**yaml.safe_load(TINY), "attacks": [audit]}))
    thresholds = Thresholds(max={"audited": 0.5, "strict.user": 0.25, "perplexity": 0.1})
    settings = {} if target is None else {"attack.audit.target_epsilon": target}
    assert decisive_settings(runs, thresholds) == settings
    assert decisive_settings(runs, Thresholds(max={"proven": 1})) == {}


def test_a_spec_runs_first(tmp_path: Path, capsys) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(TINY)
    command = ("gate", str(file), "--max", "perplexity=1e9", "--out", str(tmp_path / "out"))
    assert run_cli(command) == 0
    assert "all checks pass" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "threshold"),
        (("--max", "perplexty=1"), "'perplexity'"),
        (("--max", "audit.perplexity=1"), "audit.perplexity"),
        (("--max", "utility.acuracy=1"), "utility.acuracy"),
        (("--min", "accuracy=80"), "80 % is 0.8"),
        (("--max", "proven=1", "--mechanism", "public-onyl"), "public-only"),
        (("--max", "proven=1", "--junit", "none/g.xml"), "none/g.xml"),
    ],
)
def test_a_spec_trains_nothing_for_names_that_it_cannot_have(
    options: tuple[str, ...], message: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(TINY)
    assert run_cli(("gate", "spec.yaml", "--out", "out", *options)) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_names_that_components_declare_are_names_of_a_spec() -> None:
    attacks = [{"name": "audit"}, {"name": "membership"}]
    runs = expand(parse_spec({**yaml.safe_load(TINY), "attacks": attacks}))
    names = ("perplexity", "audit.epsilon_nct", "epsilon_lower_bound", "membership.auc_user",
             "strict.user", "delta")  # fmt: skip
    check_names(runs, Thresholds(max=dict.fromkeys(names, 1.0), mechanisms=("public-only",)))
