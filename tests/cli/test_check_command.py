"""`uedp-bench check`: its table, its JSON, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import plugged

from uedp_bench.cli.main import run_cli

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
