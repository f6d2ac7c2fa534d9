"""Grids: resuming, workers, processes that die, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny import NOISELESS, SPIES, USER_DP, flags, plugged, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import read_result
from uedp_bench.errors import InputError, is_input_error
from uedp_bench.grid import scheduler
from uedp_bench.grid.scheduler import (
    MOST_FAILURES,
    Job,
    _Telling,
    default_workers,
    jobs_of,
    result_after,
    resume,
    run_jobs,
)
from uedp_bench.grid.workers import DIED, TIMEOUT, Crash
from uedp_bench.one_run.preparing import Execution
from uedp_bench.spec.identity import Identity

TAGGING = {"model": {"name": "bilstm", "params": {"vocabulary_size": 200, "units": 4}}}


@pytest.fixture(scope="module", autouse=True)
def spies():
    with plugged(SPIES):
        yield


def spy(does, seed=None):
    return {"name": "spy-training", "params": {"does": does, "seed": seed}}


def run_all(specs, out, workers=0, listen=lambda message: None, timeout=None):
    jobs = jobs_of(specs, out)
    settings = Execution(out, "cpu", keep_release=False)
    results = run_jobs(
        jobs, settings, workers=workers, plugins=(SPIES,), listen=listen, timeout=timeout
    )
    return {(job.label): result for job, result in results}


def numbers(result):
    return result.model_dump(exclude={"cost", "provenance"})


def test_finished_runs_are_skipped_and_failed_ones_run_again(tmp_path):
    specs = runs(spy("raise", seed=2), seeds=[1, 2, 3])
    first = run_all(specs, tmp_path)
    assert [result.status for result in first.values()] == ["finished", "failed", "finished"]
    files = {r.id: (tmp_path / r.id / "result.json").stat().st_mtime_ns for r in first.values()}
    jobs = jobs_of(specs, tmp_path)
    assert [job.done is not None for job in jobs] == [True, False, True]
    assert jobs[0].done == first["spy-training, seed 1"]
    again = run_all(specs, tmp_path)
    assert list(again) == ["spy-training, seed 2"]
    changed = [
        r.id for r in first.values()
        if (tmp_path / r.id / "result.json").stat().st_mtime_ns != files[r.id]
    ]  # fmt: skip
    assert changed == [first["spy-training, seed 2"].id]


def test_a_result_that_was_cut_short_is_made_again(tmp_path):
    specs = runs(spy("train"))
    (result,) = run_all(specs, tmp_path).values()
    path = tmp_path / result.id / "result.json"
    whole = path.read_text()
    for left in ("", whole[: len(whole) // 2]):
        path.write_text(left)
        (path.parent / "result.partial").write_text("{")
        assert len(run_all(specs, tmp_path)) == 1
        assert numbers(read_result(path)) == numbers(result)
    assert run_all(specs, tmp_path) == {}


@pytest.mark.long
def test_workers_change_no_number_and_report_progress(tmp_path):
    specs = runs(USER_DP, ["deidentify", NOISELESS])
    heard = []
    two = run_all(specs, tmp_path / "two", workers=2, listen=heard.append)
    one = run_all(specs, tmp_path / "one")
    assert two.keys() == one.keys()
    assert {k: numbers(r) for k, r in two.items()} == {k: numbers(r) for k, r in one.items()}
    assert {r.status for r in two.values()} == {"finished"}
    assert {message.phase for message in heard} >= {"train"}
    assert {message.id for message in heard} >= {two["user-dp, seed 1"].id}


def test_whatever_ends_a_run_is_its_result_and_the_others_go_on(tmp_path):
    ways = {
        "exit": (DIED, "exit code 9"),
        "abort": (DIED, "signal 6 (SIGABRT)"),
        "interrupt": ("KeyboardInterrupt", "KeyboardInterrupt"),
    }
    specs = runs(*[spy(does) for does in (*ways, "train", "fork")])
    jobs = jobs_of(specs, tmp_path)
    running = run_jobs(jobs, Execution(tmp_path, "cpu"), workers=2, plugins=(SPIES,))
    results = {job.spec.mechanism[0].params["does"]: result for job, result in running}
    assert [results.pop(does).status for does in ("train", "fork")] == ["finished", "finished"]
    assert results.keys() == ways.keys()
    for does, (kind, message) in ways.items():
        ended = results[does]
        assert (ended.status, ended.error.type) == ("failed", kind)
        assert message in ended.error.message
        assert ended.error.phase == "train"
        assert ended.error.failures == 1
        assert read_result(tmp_path / ended.id / "result.json") == ended
        assert not is_input_error(ended.error.type)
    assert "spies.py" in results["abort"].error.traceback


@pytest.mark.long
def test_a_run_that_hangs_is_ended(tmp_path):
    (result,) = run_all(runs(spy("hang")), tmp_path, workers=1, timeout=5.0).values()
    assert (result.status, result.error.type) == ("failed", TIMEOUT)
    assert "5 s" in result.error.message
    assert read_result(tmp_path / result.id / "result.json") == result


def test_a_component_that_exits_ends_no_benchmark_in_this_process_either(tmp_path):
    results = run_all(runs(spy("sys-exit", seed=1), seeds=[1, 2]), tmp_path)
    assert [r.status for r in results.values()] == ["failed", "finished"]
    assert results["spy-training, seed 1"].error.message == "SystemExit: 0"


def test_what_failed_three_times_is_left_out_until_it_is_asked_for(tmp_path):
    specs = runs(spy("raise", seed=2), seeds=[1, 2])
    failures = []
    for _ in range(3):
        result = run_all(specs, tmp_path)["spy-training, seed 2"]
        failures.append(result.error.failures)
    assert failures == [1, 2, MOST_FAILURES]
    assert run_all(specs, tmp_path) == {}
    finished, given_up = jobs_of(specs, tmp_path)
    assert (finished.todo, given_up.todo) == (False, False)
    assert given_up.given_up.error.message == "it broke\non purpose"
    _, again = resume([finished, given_up], tmp_path, retry_failed=True)
    assert again.todo
    ((_, result),) = run_jobs([finished, again], Execution(tmp_path, "cpu"), workers=0)
    assert result.error.failures == 4


def test_bad_input_may_be_mended_and_is_never_given_up(tmp_path):
    specs = runs(spy("refuse"))
    for _ in range(4):
        (result,) = run_all(specs, tmp_path).values()
        assert result.error.failures == 0


def test_data_that_changed_since_they_were_checked_are_refused(tmp_path):
    (job,) = jobs_of(runs(spy("train")), tmp_path)
    moved = replace(job, identity=job.identity.on("other"))
    ((_, result),) = run_jobs([moved], Execution(tmp_path, "cpu"), workers=0)
    assert "embedded" in result.error.message


def test_a_result_that_is_whole_survives_the_end_of_its_process(tmp_path):
    """The process is told to end between its last write and its last word."""
    (job,) = jobs_of(runs(spy("train")), tmp_path)
    ((_, result),) = run_jobs([job], Execution(tmp_path, "cpu"), workers=0)
    ended = Crash(DIED, "signal 9", ("account", 0, 1))
    assert result_after(job, Execution(tmp_path, "cpu"), ended) == result


@pytest.mark.parametrize(
    ("mechanism", "fields", "message"),
    [
        ({"name": "user-dp", "params": {"users_per_round": 61}}, {}, "users_per_round is 61.* 60"),
        ({"name": "user-dp", "params": {"users_per_round": 55}}, {"attacks": ["hold-out"]},
         "users_per_round is 55.* 50"),
        (USER_DP, {"attacks": ["membership"]}, "membership: .*train.* 60"),
        (["noiseless", "deidentify"], {}, "order.*deidentify.*noiseless"),
        ("noiseless", {**TAGGING, "task": {"name": "tagging", "params": {"layer": "entitys"}}},
         r"tagging\.layer.*'entitys'.*'entities'"),
        ("noiseless", {**TAGGING, "task": {"name": "tagging", "params": {"scored_layer": "gold"}}},
         r"tagging\.scored_layer.*'gold'.*: entities"),
    ],
)  # fmt: skip
def test_what_can_be_known_before_training_is(tmp_path, mechanism, fields, message):
    with pytest.raises(InputError, match=message):
        jobs_of(runs(mechanism, **fields), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_job_is_called_by_its_mechanism_and_seed():
    assert Job(Identity({}), runs(["deidentify", USER_DP], seeds=[7])[0]).label == (
        "deidentify + user-dp, seed 7"
    )


def test_one_process_a_core_and_one_on_a_gpu():
    assert default_workers("cuda:1") == 1
    assert default_workers("cpu") >= 1


def _session_members(leader: int) -> list[int]:
    members = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == leader and "State:\tZ" not in (
                entry / "status"
            ).read_text(encoding="ascii", errors="replace"):
                members.append(int(entry.name))
        except OSError:
            continue
    return members


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="lists processes in /proc")
def test_a_killed_parent_leaves_no_worker_behind(tmp_path):
    out = tmp_path / "out"
    arguments = [
        *flags(out, "--plugin", str(SPIES), "--mechanism", "spy-training", "--seeds", "1,2,3"),
        "--set", "mechanism.does=wait", "--set", "mechanism.seed=2", "--workers", "2",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "uedp_bench", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not list(out.glob("*/result.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(_session_members(process.pid)) >= 3
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while _session_members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _session_members(process.pid) == []


@pytest.mark.long
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    """Seed 1 finishes, seed 2 waits for the signal."""
    monkeypatch.setenv("SPY_SECONDS", "600")
    out = tmp_path / "out"
    arguments = [
        *flags(out, "--plugin", str(SPIES), "--mechanism", "spy-training", "--seeds", "1,2"),
        "--set", "mechanism.does=wait", "--set", "mechanism.seed=2", "--workers", "2", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "uedp_bench", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # A shell lets its background jobs ignore Ctrl-C, and their children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while not list(out.glob("*/result.json")):
        assert time.monotonic() < deadline, "no run ends"
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    time.sleep(0.5)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    printed, complaint = process.communicate(timeout=100)
    assert time.monotonic() - started < 60
    assert process.returncode == 130
    assert printed == ""
    assert "same command" in complaint
    assert "Traceback" not in complaint
    (kept,) = out.glob("*/result.json")
    before = kept.read_bytes()
    monkeypatch.setenv("SPY_SECONDS", "0")
    assert run_cli(arguments) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert [(run["seed"], run["status"]) for run in row["runs"]] == [
        (1, "finished"), (2, "finished")]  # fmt: skip
    assert kept.read_bytes() == before
    assert len(list(out.glob("*/result.json"))) == 2


def test_a_run_tells_its_points_with_its_progress(monkeypatch):
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    messages = []
    telling = _Telling(messages.append)
    telling.progress("train", 0, 9)
    for step in range(1, 4):
        telling.point("train_loss", np.int64(step), 1.0)
        telling.progress("train", np.int64(step), 9)
    telling.progress("score", 0, 1)
    assert messages[0] == ("train", 0, 9, ())
    assert [point for *_, points in messages for point in points] == [
        ("train_loss", step, 1.0) for step in (1, 2, 3)
    ]
    assert len(messages) < 5
    assert {type(number) for _, *numbers, _ in messages for number in numbers} == {int}
