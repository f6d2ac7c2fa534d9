"""`uedp-bench doctor`: what works, what does not, and the exit code."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import pytest

from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
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
    said = found(capsys)
    assert said["mechanism torn"]["state"] == "bad"
    assert "no_such_package" in said["mechanism torn"]["said"]
    assert said["tracking"]["state"] == "bad"
    assert said["attacks"]["state"] == "good"
