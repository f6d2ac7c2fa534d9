"""The tutorial's commands run as printed on fewer messages, from a file to its table."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from examples import commands, example

from uedp_bench.cli.main import run_cli

PAGE = "docs/tutorials/own-data.md"
SMALL = (
    "task.pretraining_epochs=1", "mechanism.noiseless.epochs=1", "mechanism.dp-sgd.steps=3",
    "model.units=8", "model.vocabulary_size=60", "attack.held_out_users=10",
)  # fmt: skip


@pytest.mark.long
def test_a_file_becomes_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("make_chat.py").write_text(example("make_chat.py", PAGE).replace("20_000", "300"))
    runpy.run_path("make_chat.py")
    init, dry, run = commands(PAGE)
    assert (init[0], dry[-1], run) == ("init", "--dry-run", dry[:-1])
    assert run_cli(init) == 0, capsys.readouterr().err
    output = capsys.readouterr().out
    assert "'message.body'" in output
    assert "--user from.id" in output
    small = ["--attack", "membership", "--seeds", "1", "--workers", "0", "--no-tracking"]
    small += [part for size in SMALL for part in ("--set", size)]
    assert run_cli([*run, *small]) == 0, capsys.readouterr().err
    records = [json.loads(file.read_text()) for file in Path("runs").glob("*/*/result.json")]
    by_name = {result["spec"]["mechanism"][0]["name"]: result for result in records}
    assert by_name.keys() == {"public-only", "noiseless", "deidentify", "dp-sgd"}
    (proven,) = [g for g in by_name["dp-sgd"]["guarantees"] if g["kind"] == "proven"]
    assert proven["unit"] == "record"
    assert 0 < float(proven["epsilon"]) < 1e3
    assert {*by_name["noiseless"]["leakage"]} >= {"membership"}
