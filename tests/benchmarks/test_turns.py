"""Sides of a benchmark take turns in processes of their own, and do the same work."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from turns import Stopwatch
side = sys.argv[2]
if side == "broken":
    raise ValueError("no such thing")
watch = Stopwatch()
held = bytearray(80_000_000 if side == "large" else 10)
for _ in range(3):
    sum(range(10_000))
    watch.lap()
import json
print("what a library prints")
print(json.dumps(watch.figures(5.0, argument=sys.argv[3])))
"""


@pytest.fixture
def turns():
    return importlib.import_module("turns")


def turn(work: float, wall: float, peak: float = 100.0) -> dict[str, float]:
    return {"work": work, "wall": wall, "cpu": 1.0, "peak_mb": peak, "step_mb": peak / 2}


def test_every_side_runs_in_a_process_of_its_own(turns, tmp_path):
    script = tmp_path / "sides.py"
    script.write_text(SCRIPT.format(folder=str(FOLDER)))
    results = turns.in_turns(str(script), ["small", "large", "broken"], ["seven"], turns=2)
    assert [len(results[side]) for side in ("small", "large", "broken")] == [2, 2, 1]
    assert results["broken"][0] == {"missing": "failed: ValueError: no such thing"}
    small, large = results["small"][0], results["large"][1]
    assert small["argument"] == "seven"
    assert small["wall"] > 0
    # The 80 MB of the other process are nowhere in this one's peak.
    assert 70 < large["peak_mb"] - small["peak_mb"] < 100
    assert large["step_mb"] - small["step_mb"] > 70


def test_ratios_are_taken_turn_by_turn(turns):
    by_side = {
        "base": [turn(10, 1.0), turn(10, 4.0), turn(10, 2.0)],
        # Twice as fast in every turn, whatever the machine did to a turn.
        "fast": [turn(10, 0.5, 150.0), turn(10, 2.0, 150.0), turn(10, 1.0, 150.0)],
        "peer": [{"missing": "not installed: pip install it"}],
    }
    out = turns.ratios(by_side, "base", "wall")
    assert out["fast"]["speed"] == 2.0
    assert out["fast"]["memory"] == 1.5
    assert out["base"]["speed"] == 1.0
    assert out["peer"] == {"missing": "not installed: pip install it"}
    with pytest.raises(SystemExit, match="base: it broke"):
        turns.ratios({"base": [{"missing": "it broke"}]}, "base", "wall")


def test_the_first_laps_do_not_count(turns, monkeypatch):
    times = iter([0.0, 9.0, 10.0, 12.0, 15.0])
    monkeypatch.setattr(turns, "_clocks", lambda: (next(times), 0.0))
    watch = turns.Stopwatch(warm_up=1)
    for _ in range(4):
        watch.lap()
    assert watch.figures(1.0)["wall"] == 2.0  # of 1, 2 and 3: not the 9 of the first
    with pytest.raises(ValueError, match=r"0 laps.* 1 "):
        monkeypatch.setattr(turns, "_clocks", lambda: (0.0, 0.0))
        turns.Stopwatch(warm_up=1).figures(1.0)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_the_fused_lstm_of_the_loop_is_the_network_of_the_engine(turns):
    sides, workloads = (
        importlib.import_module("federated_sides"),
        importlib.import_module("workloads"),
    )
    network = workloads.lstm_network(50, 6, 10)
    for weight in network.parameters():  # biases that differ by gate, too
        torch.nn.init.normal_(weight, generator=torch.Generator().manual_seed(weight.numel()))
    fused = sides.FusedLSTM(network)
    tokens = torch.from_numpy(np.random.default_rng(1).integers(50, size=(3, 7)))
    torch.testing.assert_close(fused(tokens), network(tokens), rtol=1e-5, atol=1e-5)
