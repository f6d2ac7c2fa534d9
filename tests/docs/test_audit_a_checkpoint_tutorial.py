"""The tutorial's commands and its training run as printed, smaller, and refute what it claims."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from examples import ROOT, commands, example

from tests.support import checkpoints
from uedp_bench.cli.main import run_cli

PAGE = "docs/tutorials/audit-a-checkpoint.md"
SMALLER = (
    ("p_u: [0.05]", "p_u: [0.02]"),
    ("users: 250", "users: 130"),
    ("public_users: 60", "public_users: 20"),
)
HERE = ["--workers", "0", "--no-tracking"]


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in folder.glob("runs/*/result.json")]


@pytest.mark.long
def test_the_tutorial_refutes_the_claim_of_a_model_that_learnt_by_heart(
    work_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant, attack, validate, splits, _ = commands(PAGE)
    (spec,) = re.findall(r"```yaml\n# audit.yaml\n(.*?)```", (ROOT / PAGE).read_text(), re.S)
    for printed, small in SMALLER:
        assert printed in spec
        spec = spec.replace(printed, small)
    Path("audit.yaml").write_text(spec)
    assert run_cli(plant) == 0, capsys.readouterr().err
    training = example("train.py", PAGE)
    assert "range(120)" in training
    Path("train.py").write_text(training.replace("range(120)", "range(60)"))
    runpy.run_path("train.py")
    assert run_cli([*attack, *HERE]) == 1, capsys.readouterr().err  # a claim is refuted
    (audited,) = results(work_folder)
    claim = audited["guarantees"][0]
    assert (claim["status"], claim["accountant"]) == ("refuted", "declared by the user")
    capsys.readouterr()
    assert run_cli(validate) == 0
    assert "details.audit, details.secret-sharer, leakage.audit" in capsys.readouterr().out
    checkpoints.write_rows(
        Path("rows.csv"),
        [{"text": text, "split": split} for at, split in enumerate(("train", "held_out", "test"))
         for text in checkpoints.sentences(12, at)],
    )  # fmt: skip
    assert run_cli([*splits, *HERE]) == 0, capsys.readouterr().err
    assert any(
        "auc" in run_record["leakage"].get("membership", {}) for run_record in results(work_folder)
    )


@pytest.mark.long
def test_the_base_shows_more_of_tuned_weights_and_adapters(
    work_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("peft")
    tune = example("tune.py", PAGE)
    for printed, small in (("users=300", "users=60"), ("public_users=600", "public_users=150")):
        assert printed in tune
        tune = tune.replace(printed, small)
    Path("tune.py").write_text(tune)
    runpy.run_path("tune.py")
    Path("compare.py").write_text(example("compare.py", PAGE))
    capsys.readouterr()
    runpy.run_path("compare.py")
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if " auc " in line]
    people = {(name, base): float(auc) for name, base, _, _, _, auc, *_ in rows}
    assert len(people) == 4
    for name in ("full", "lora"):
        assert people[name, "base"] > people[name, "None"] + 0.03
    assert run_cli([*commands(PAGE)[-1], *HERE]) == 0, capsys.readouterr().err
    (run,) = results(work_folder)
    # By the command the same attack, where the base is the network that the adapters change.
    assert run["leakage"]["membership"]["auc_user"]["value"] == pytest.approx(
        people["lora", "base"], abs=2e-3
    )
