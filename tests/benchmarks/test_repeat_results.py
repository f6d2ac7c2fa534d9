"""Stored results done again: equal runs are equal, and what differs is counted."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tiny import NOISELESS, USER_DP, runs

from uedp_bench.harness.execution import Execution
from uedp_bench.harness.runner import execute


@pytest.fixture(scope="module")
def script() -> Any:
    return importlib.import_module("repeat_results")


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A folder of results of two mechanisms and a floor; the utility of one was changed by hand."""
    folder = tmp_path / "results" / "small"
    specs = [run for one in (NOISELESS, USER_DP, {"name": "public-only"}) for run in runs(one)]
    done = {spec.mechanism[-1].name: execute(spec, Execution(folder, "cpu")) for spec in specs}
    file = folder / done["noiseless"].id / "result.json"
    data = json.loads(file.read_text("utf-8"))
    data["utility"]["perplexity"]["value"] *= 1.25
    file.write_text(json.dumps(data), "utf-8")
    return folder


def test_runs_are_repeated_and_only_what_was_changed_differs(
    script: Any, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    asked = ["small", "--results", str(stored.parent), "--out", str(tmp_path / "again")]
    script.main(asked)
    first = capsys.readouterr().out
    rows = {line.split("|")[2].strip(): line for line in first.splitlines()[2:] if line}
    assert sorted(rows) == ["noiseless, seed 1", "user-dp, seed 1"]
    cells = {name: [cell.strip() for cell in row.split("|")[3:8]] for name, row in rows.items()}
    assert cells["user-dp, seed 1"][1:] == ["0", "0", "0", "0"]
    assert int(cells["user-dp, seed 1"][0].replace(",", "")) > 40
    assert cells["noiseless, seed 1"][1:] == ["1", "0", "0.2", "0.2"]
    monkeypatch.setattr(script, "execute", None)  # what is there is not run again
    script.main(asked)
    assert capsys.readouterr().out == first


def test_differences_are_relative_and_nan_is_equal_to_nan(script: Any) -> None:
    assert script.difference(4.0, 5.0) == pytest.approx(0.2)
    assert script.difference(0.0, 0.0) == script.difference(math.nan, math.nan) == 0.0
    assert math.isinf(script.difference(1.0, math.nan))
    assert math.isinf(script.difference(1.0, math.inf))
