"""The comparison of devices: every path is a run, and a difference is seen."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script() -> Any:
    return importlib.import_module("devices")


def test_every_path_is_a_run_beside_training_on_public_text(script: Any) -> None:
    ways = script.paths(None)
    assert len({way.name for way in ways}) == len(ways) > 40
    for way in ways:
        assert len(expand(parse_spec(way.spec()))) == 2
    assert {way.network for way in script.paths("gpt2, LoRA")} == {"gpt2, LoRA"}


def test_a_difference_is_told_as_a_share_of_what_training_changed(script: Any) -> None:
    (way, *_) = script.paths(None)
    before = np.zeros(4)
    one = {
        "before": before,
        "after": np.array([3.0, 4.0, 0.0, 0.0]),
        "scores": {"a": 2.0, "b": 1.0},
    }
    same = script.compared(way, [one, one])
    assert (same["weights"], same["scores"]) == (0.0, 0.0)
    other = {**one, "after": np.array([3.0, 4.0, 0.0, 0.5]), "scores": {"a": 2.0, "b": 1.1}}
    apart = script.compared(way, [one, other])
    assert apart["weights"] == pytest.approx(0.1)
    assert (apart["of"], apart["scores"]) == ("b", pytest.approx(0.1))
    assert script.table([same, apart]).splitlines()[2].startswith(f"| {way.name} | 1.0e-01")


def test_a_path_is_trained_and_scored(script: Any) -> None:
    (way, *_) = script.paths("lstm-small: noiseless")
    measured = script.measured(way.spec(), "cpu")
    assert np.linalg.norm(measured["after"] - measured["before"]) > 0
    assert measured["scores"]


def test_a_name_that_no_path_has_is_refused(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        script.main(["--paths", "gpt3"])
    assert stopped.value.code == 2
    assert "'gpt3'" in capsys.readouterr().err
