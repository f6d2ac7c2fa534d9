"""The commands `check` and `doctor`."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import pytest
from tiny import plugged

from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry


def checks(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    return {one["what"]: one for one in json.loads(capsys.readouterr().out)}


def test_all_is_well_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["doctor", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "all is well" in out
    assert "cores, torch uses" in out
    assert "mechanisms" in out


def test_a_broken_plug_in_and_a_broken_store_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mlflow.db").write_text("no database at all, but long enough to be read as one")
    entry = EntryPoint("torn", "no_such_package:Torn", registry.mechanisms.group)
    torn = {"torn": registry._origin(entry)}
    with patch.object(registry.mechanisms, "_plugins", torn):
        assert run_cli(["doctor", "--out", str(tmp_path), "--json"]) == 1
    states = checks(capsys)
    assert states["mechanism torn"]["state"] == "bad"
    assert "no_such_package" in states["mechanism torn"]["said"]
    assert states["tracking"]["state"] == "bad"
    assert states["attacks"]["state"] == "good"


BROKEN = str(Path(__file__).parents[1] / "support" / "broken_components.py")


def test_a_component_that_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", "model/none", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "parameters declared" in out
    assert "riddle" in out


def test_a_component_that_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    with plugged():
        code = run_cli(["check", "source/other-each-time", "--plugin", BROKEN, "--json"])
    assert code == 1
    (report,) = json.loads(capsys.readouterr().out)
    failed = {one["check"] for one in report["checks"] if one["state"] == "failed"}
    assert "check_corpus_repeats" in failed
    assert report["conforms"] is False


def test_bad_input_is_refused_before_anything_is_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["check", "user-dp", "--set", "roundz=2"]) == 2
    assert "'rounds'" in capsys.readouterr().err
    assert run_cli(["check", "no-such-file.py"]) == 2
