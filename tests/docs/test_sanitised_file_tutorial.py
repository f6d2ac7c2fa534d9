"""The tutorial's commands run as printed, on fewer users, and show what it says."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from examples import commands, example

from uedp_bench.cli.main import run_cli

PAGE = "docs/tutorials/sanitised-file.md"
SIZES = ("users=60", "valid_users=5", "test_users=10", "public_users=20")
HELD_OUT = "attack.membership.held_out_users"


def smaller(printed: list[str]) -> list[str]:
    """The command as printed, on fewer users."""
    runs = printed[0] == "run"
    sizes = [f"source.{size}" if runs else size for size in SIZES]
    more = [part for size in sizes for part in ("--set", size)]
    kept = [part.replace(f"{HELD_OUT}=20", f"{HELD_OUT}=10") for part in printed]
    for size in ("users=200", "source.users=200"):
        if size in kept:
            at = kept.index(size)
            del kept[at - 1 : at + 1]
    return [*kept, *more, *(("--workers", "0", "--no-tracking") if runs else ())]


@pytest.mark.long
def test_the_tutorial_measures_a_masked_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mask.py").write_text(example("mask.py", PAGE))
    for at, printed in enumerate(commands(PAGE)):
        assert run_cli(smaller(printed)) == 0, capsys.readouterr().err
        if at == 0:
            runpy.run_path("mask.py")
    records = [json.loads(file.read_text()) for file in Path("runs").glob("*/result.json")]
    of = {
        (run["spec"]["task"]["name"], run["spec"]["mechanism"][0]["name"]): run for run in records
    }
    masked = of["pii-detection", "sanitized-elsewhere"]
    recall = masked["diagnostics"]["detection"]["recall"]
    assert (recall["PERSON"]["recall"], recall["MONEY"]["recall"]) == (1.0, 0.0)
    assert {*masked["leakage"]} == {"reidentify", "word-reconstruction"}
    classified = of["text-classification", "sanitized-elsewhere"]
    assert classified["guarantees"][-1]["notion"] == "none"
    assert "auc" in classified["leakage"]["membership"]
    assert len(records) == 3
