"""A rehearsal counts the steps that it leaves out on two clocks, and says what runs hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import runs

from uedp_bench.cli.dry_run import _cells, _cost, _expected
from uedp_bench.contracts.results import ComponentSpec, RunSpec
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.grid import forecast
from uedp_bench.grid.forecast import IN_PART, OTHER, Forecast, SettingForecast
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.one_run import rehearsal

NAMED = ComponentSpec(name="any")


def _setting(memory: float | None, cpu: float, runs: int) -> SettingForecast:
    return SettingForecast(
        spec=RunSpec(task=NAMED, source=NAMED, model=NAMED, mechanism=(NAMED,)),
        seeds=tuple(range(runs)), finished=(0,), rows={}, users={}, units=(), vocabulary=None,
        guarantees=(), skipped=(), failures=(), seconds={"train": 60.0},
        cpu_seconds={"train": cpu}, memory_mb=memory, steps=(), weights=None, measured="",
    )  # fmt: skip


def test_steps_that_are_left_out_count_at_the_pace_of_the_others_on_each_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = np.zeros(2)
    monkeypatch.setattr(rehearsal, "_clocks", clocks.copy)
    first = rehearsal.FirstSteps()
    run = Run(1, CorpusStats(1, 1, 0, 0, public=True))
    done = 0
    for _ in first.steps("train", run, 100, {}):
        # The first step warms up; a step of a second takes half of one of the CPU.
        clocks += [5.0, 4.0] if done == 0 else [1.0, 0.5]
        done += 1
    assert done == rehearsal.LEAST_STEPS
    assert first.left.tolist() == [97.0, 48.5]
    assert list(first.steps("short", run, 2, {})) == [0, 1]
    assert first.left.tolist() == [97.0, 48.5]
    assert first.begun == [("train", 100), ("short", 2)]


def test_runs_side_by_side_hold_the_memory_of_the_largest_of_them() -> None:
    settings = _setting(100.0, 10.0, 3), _setting(300.0, 40.0, 2), _setting(None, 0.0, 4)
    estimate = Forecast(settings, workers=2, took=0.0)
    assert not estimate.lower_limit and "about" in _expected(estimate)
    assert estimate.memory_mb == 400.0  # one run of either: the others of 300 MB are finished
    assert replace(estimate, workers=1).memory_mb == 300.0
    assert replace(estimate, workers=99).memory_mb == 500.0
    assert estimate.cpu_hours == pytest.approx((2 * 10.0 + 40.0) / 3600)
    assert ", 0.017 hours of the CPU, 400 MB of memory" in _expected(estimate)


def test_a_dry_run_says_what_decides_the_cost_of_a_run() -> None:
    one = replace(_setting(1234.5, 7200.0, 2), steps=(("pretrain", 90), ("train", 4000)))
    line = "90 steps of pretrain, 4,000 steps of train, 2 hours of the CPU, 1,234 MB of memory"
    assert _cost(one) == line
    part = replace(one, weights=124_439_808, measured="in part: it ended", steps=())
    assert _cost(part) == "124,439,808 weights, at least 2 hours of the CPU, 1,234 MB of memory"


def test_steps_after_one_that_does_not_end_last_at_least_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = np.zeros(2)
    monkeypatch.setattr(rehearsal, "_clocks", clocks.copy)
    first = rehearsal.FirstSteps()
    steps = first.steps("train", Run(1, CorpusStats(1, 1, 0, 0, public=True)), 10, {})
    next(steps)
    clocks += [30.0, 20.0]
    first.stop()
    assert first.left.tolist() == [9 * 30.0, 9 * 20.0]
    first.stop()  # counted once
    assert first.left.tolist() == [9 * 30.0, 9 * 20.0]


def test_what_takes_longer_than_is_said_is_a_lower_limit_everywhere() -> None:
    whole, part = _setting(1.0, 60.0, 2), replace(_setting(1.0, 60.0, 2), measured=f"{IN_PART}: it")
    for one in (part, replace(whole, seconds={}, cpu_seconds={})):
        both = Forecast((whole, one), workers=1, took=0.0)
        line = _expected(both)
        assert "expected: at least " in line and "at least 0.0" in line and "about" not in line
        assert both.to_dict()["lower_limit"] and both.to_dict()["settings"][1]["lower_limit"]
    done = replace(part, finished=(0, 1))
    assert not Forecast((whole, done), workers=1, took=0.0).lower_limit


def test_a_setting_counted_as_another_keeps_its_lower_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forecast, "MOST_MEASURED", 1e-9)
    for why_not, at_least in (("it ended after 30 seconds", True), ("", False)):
        rehearsed = rehearsal.Rehearsed({"train": 1.0}, {"train": 1.0}, 1.0, (), 0, None, {},
                                        why_not=why_not)  # fmt: skip
        monkeypatch.setattr(forecast, "rehearse", lambda *_, outcome=rehearsed, **__: outcome)
        jobs = jobs_of(runs({"name": "noiseless", "params": {"epochs": [1, 900]}}), tmp_path)
        both = forecast.forecast(jobs, "cpu", 1)
        assert [one.lower_limit for one in both.settings] == [at_least] * 2
        assert OTHER in both.settings[1].measured
        assert [one.rough for one in both.settings] == [False, True] and both.to_dict()["rough"]
        assert ("at least" if at_least else "roughly") in _expected(both)
        assert _cells(both.settings[1])[-1] == ("> 1 s" if at_least else "~ 1 s")
        assert "1 setting" in _expected(both)
