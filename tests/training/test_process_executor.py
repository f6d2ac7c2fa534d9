"""Several processes compute what one computes, to the last bit; they end with who started them."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import elsewhere
import numpy as np
import pytest
import torch
from elsewhere import InAnotherProcess, adaptive_plan, complain, die
from learners import NetworkLearner, flat, learner_with_dropout, run_of
from tiny import flags
from toy import toy_run
from trainings import ROUNDS, TRAININGS

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.results import read_result
from uedp_bench.run_context import Diary, Speed
from uedp_bench.training.federated import train_federated
from uedp_bench.transcript import MessageLog


@pytest.mark.parametrize("name", list(TRAININGS))
def test_bits_events_and_diagnostics_are_those_of_one_process(name: str) -> None:
    found = []
    for processes in (1, 2):
        learner = NetworkLearner(12)
        learner.points[7] = float("nan")
        diary = Diary(messages=MessageLog(keep=True, payload_rounds=1))
        speed = Speed(chunk=2, processes=processes)
        run = replace(run_of(learner), injected=(2, 5), speed=speed, diary=diary)
        module, events = TRAININGS[name](learner, run)
        # As text: the loss of a user whose data are no numbers is none either.
        sent = diary.messages.closed()
        told = repr((events, run.diagnostics, run.series, run.counts, sent))
        found.append((flat(module), told))
        rows = run.diagnostics.get("dropped_rows", 0)
        assert (rows if name == "two-level" else run.diagnostics["dropped_updates"]) > 0
        assert run.diagnostics["injected_updates"] > 0
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]


def test_a_run_with_processes_gives_the_same_result(tmp_path: Path) -> None:
    found = []
    for processes in ("1", "2"):
        out = tmp_path / processes
        settings = [f"mechanism.{name}={value}" for name, value in ROUNDS.items()]
        more = [part for setting in settings for part in ("--set", setting)]
        attack = [
            "--attack",
            "audit",
            "--set",
            "attack.canaries=20",
            "--set",
            "attack.canary=update",
        ]
        command = flags(out, "--mechanism", "user-dp", *more, *attack, "--processes", processes)
        assert run_cli(command) == 0
        (path,) = out.glob("*/result.json")
        found.append(read_result(path).model_dump(exclude={"cost", "provenance", "tracking"}))
    assert repr(found[0]) == repr(found[1])
    assert found[0]["diagnostics"]["injected_updates"] > 0


@pytest.mark.parametrize("model", ["awd-lstm", "bilstm"])
def test_learners_of_tasks_can_be_sent(model: str) -> None:
    learner = learner_with_dropout(model)
    again = pickle.loads(pickle.dumps(learner))  # noqa: S301
    rows, seeds = np.array([0, 3]), np.array([5, 6])
    for name, value in learner.batch(rows, seeds).items():
        assert torch.equal(value, again.batch(rows, seeds)[name])


def _children() -> set[int | None]:
    return {child.pid for child in multiprocessing.active_children()}


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [(die, UedpBenchError, "signal 9"), (complain, InputError, "row 7")],
)
def test_what_goes_wrong_in_a_process_is_one_error_and_leaves_none_behind(
    wrong: Callable[[], None], error: type[Exception], said: str
) -> None:
    run = replace(toy_run(), speed=Speed(chunk=1, processes=2))
    before = _children()
    with pytest.raises(error, match=said):
        train_federated(adaptive_plan(), InAnotherProcess(wrong), run)
    assert _children() <= before


def test_a_learner_that_cannot_be_sent_is_refused() -> None:
    run = replace(toy_run(), speed=Speed(processes=2))
    with pytest.raises(InputError, match="--processes 1"):
        train_federated(adaptive_plan(), InAnotherProcess(lambda: None), run)


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False


def _process_of(training: subprocess.Popen[str]) -> int:
    """The process that computes for a training, as soon as it does."""
    assert training.stderr is not None
    return int(training.stderr.readline())


def _ends(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not _alive(pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_ctrl_c_and_a_kill_leave_no_process_behind() -> None:
    with subprocess.Popen(
        [sys.executable, elsewhere.__file__], stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as training:  # fmt: skip
        try:
            interrupted = _process_of(training)
            os.killpg(training.pid, signal.SIGINT)  # as a terminal does
            assert _ends(interrupted)
            killed = _process_of(training)
            training.kill()
            assert _ends(killed)
            _, said = training.communicate(timeout=20)
            assert not said
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(training.pid, signal.SIGKILL)
