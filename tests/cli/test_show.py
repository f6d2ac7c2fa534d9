"""`uedp-bench show`: a result in plain words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import NOISELESS, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.harness.execution import Execution
from uedp_bench.harness.runner import execute


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
    said = capsys.readouterr().out
    assert said.startswith("noiseless, task next-word, model lstm-small")
    assert "Without any proven protection of the data" in said
    assert "perplexity" in said
    assert "attack reidentify was left out" in said
    assert run_cli(["show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == folder.name


def test_a_run_that_is_not_there(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["show", "zzzz", "--out", str(out)]) == 2
    assert "no run 'zzzz'" in capsys.readouterr().err
