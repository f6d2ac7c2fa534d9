"""`uedp-bench show`: a result in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import NOISELESS, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import ComponentSpec, Estimate, LowerBound, Result, RunSpec
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (spec,) = runs(NOISELESS, attacks=["reidentify"])
    execute(spec, Execution(folder, "cpu"))
    return folder


def test_a_run_is_shown_by_the_beginning_of_its_id(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder,) = (file.parent for file in out.glob("*/result.json"))
    assert run_cli(["show", folder.name[:5], "--out", str(out)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("noiseless, task next-word, model lstm-small")
    assert "Without any proven protection of the data" in output
    assert "perplexity" in output
    assert "attack reidentify was left out" in output
    assert run_cli(["show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == folder.name


def test_a_run_that_is_not_there(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["show", "zzzz", "--out", str(out)]) == 2
    assert "'zzzz'" in capsys.readouterr().err


def test_audit_lines_stand_under_their_attack_with_unit_and_method() -> None:
    mechanism = ComponentSpec(name="noiseless")
    spec = RunSpec(task=mechanism, source=mechanism, model=mechanism, mechanism=(mechanism,))
    about = {"unit": "user", "delta": 1e-5, "confidence": 0.95, "epsilon": 1.5}
    bounds = (
        LowerBound(**about, method="one-run", attack="audit", assumptions=("users are alike",)),
        LowerBound(**about | {"unit": "user-entity", "epsilon": 2.5}, method="threshold",
                   attack="secret-sharer", spread=3, sentences=9),
    )  # fmt: skip
    leakage = {name: {"auc": Estimate(value=0.5)} for name in ("audit", "secret-sharer", "last")}
    shown = list(
        result_lines(Result(id="a", group="b", status="finished", spec=spec,
                     utility={"loss": Estimate(value=1.0)}, leakage=leakage, lower_bounds=bounds))
    )  # fmt: skip
    audit, sharer, last = (shown.index(f"\nattack {name}") for name in leakage)
    (first,) = (line for line in shown[audit:sharer] if "refutes" in line)
    assert "below 1.5 for user (add-or-remove, delta 1e-05), 95 % sure, by one-run" in first
    assert first.endswith("if users are alike")
    (second,) = (line for line in shown[sharer:last] if "refutes" in line)
    assert "for user-entity (add-or-remove, delta 1e-05, spread 3, 9 sentences of others)" in second
    assert not any("refutes" in line for line in shown[last:])
