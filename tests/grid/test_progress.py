"""Lines where there is no terminal, bars with the time left where there is one."""

from __future__ import annotations

import io
import math
import re
import time

import pytest
from rich.console import Console
from tiny import SPIES, USER_DP, flags, plugged, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Cost, Result
from uedp_bench.grid.progress import Bars, Display, Lines, OneLine, display
from uedp_bench.grid.scheduler import Job, JobProgress
from uedp_bench.spec.identity import Identity


@pytest.fixture
def jobs():
    return [Job(Identity.from_spec(spec), spec) for spec in runs(USER_DP, seeds=[1, 2])]


def result(job):
    return Result(id=job.id, group="g", status="finished", spec=job.spec, cost=Cost())


def printed(screen):
    return re.sub(r"\d\d:\d\d:\d\d ", "", screen.getvalue()).splitlines()


def test_a_line_for_each_step_and_none_for_each_round(jobs):
    screen = io.StringIO()
    with Lines(Console(file=screen)) as lines:
        lines.checking(2)
        lines.begin(jobs)
        for done in range(5):
            lines.update(JobProgress(jobs[0].id, "train", done, 36))
        lines.update(JobProgress(jobs[0].id, "score", 0, 1))
        lines.update(JobProgress(jobs[0].id, "train", 5, 36))  # of a reference model, told before
        lines.finish(jobs[0], result(jobs[0]))
    assert printed(screen) == [
        "2 of 2 runs to do",
        "user-dp, seed 1: train 0/36",
        "user-dp, seed 1: score",
        "finished: user-dp, seed 1 (0 s; 1 run left)",
    ]


class Handle:
    """What IPython gives for something that is displayed and changed later."""

    def __init__(self):
        self.shown = []

    def update(self, what):
        self.shown.append(what.data)


def test_a_notebook_has_one_line_that_changes(jobs, monkeypatch):
    import IPython.display

    handle = Handle()
    monkeypatch.setattr(IPython.display, "display", lambda *what, display_id: handle)
    with OneLine(Console(file=io.StringIO()), seconds=60.0) as line:
        line.checking(2)
        line.begin(jobs)
        line._before = -math.inf
        line.update(JobProgress(jobs[0].id, "train", 3, 36))
        line.update(JobProgress(jobs[0].id, "train", 4, 36))  # a moment later: not shown
        line.finish(jobs[0], result(jobs[0]))
        line.finish(jobs[1], result(jobs[1]).model_copy(update={"status": "failed"}))
    assert handle.shown == [
        "checking 2 runs and their data",
        "0 of 2 runs done; user-dp, seed 1: train 3/36",
        "2 of 2 runs done, 1 of them failed",
    ]


def test_a_notebook_is_known_and_quiet_is_quiet(monkeypatch):
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert type(display()) is OneLine
    assert type(display(quiet=True)) is Display


def soon(screen, line):
    """Waits until the line was printed again."""
    deadline = time.monotonic() + 60
    while len(re.findall(line, screen.getvalue())) < 2:
        assert time.monotonic() < deadline, screen.getvalue()
        time.sleep(0.02)


def test_nothing_is_silent_for_long(jobs):
    screen = io.StringIO()
    with Lines(Console(file=screen), seconds=0.05) as lines:
        lines.checking(2)
        soon(screen, "checking 2 runs and their data")
        lines.begin(jobs)
        lines.update(JobProgress(jobs[0].id, "train", 3, 36))
        lines.update(JobProgress(jobs[1].id, "load", 0, 1))
        soon(screen, r"user-dp, seed 1: train 3/36, \d+ s")
        soon(screen, r"user-dp, seed 2: load, \d+ s")


def test_lines_are_not_wrapped_and_nobody_writes_markup(jobs):
    screen = io.StringIO()
    with Lines(Console(file=screen, width=20)) as lines:
        lines.begin(jobs)
        lines.update(JobProgress(jobs[0].id, "[red]" + "x" * 100 + "\x1b[2J", 0, 1))
    assert printed(screen)[1] == f"user-dp, seed 1: [red]{'x' * 100}\\x1b[2J"


def test_bars_show_the_time_that_is_left(jobs):
    screen, clock = io.StringIO(), [0.0]
    with Bars(Console(file=screen, force_terminal=True, width=120)) as bars:
        bars._progress.get_time = lambda: clock[0]
        bars.checking(2)
        bars.begin(jobs)
        for done in range(1, 6):
            bars.update(JobProgress(jobs[0].id, "train", done, 50))
            clock[0] += 0.05
        bars._progress.refresh()
        left = screen.getvalue()
        bars.finish(jobs[0], result(jobs[0]))
    assert "user-dp, seed 1: train" in left
    assert re.search(r"5/50 \S*0:00:0\d\S*\s+\S*0:00:0\d", re.sub(r"\x1b\[[\d;]*m", "", left))


def test_a_quiet_run_prints_nothing_but_failures(tmp_path, capsys):
    fine = flags(tmp_path, "--mechanism", "noiseless", "--set", "mechanism.epochs=1", "--quiet")
    assert run_cli([*fine, "--attack", "reidentify"]) == 0
    screen = capsys.readouterr()
    assert (screen.out, screen.err) == ("", "")
    assert len(list(tmp_path.glob("*/result.json"))) == 1
    broken = flags(tmp_path, "--plugin", str(SPIES), "--mechanism", "spy-training", "-q")
    with plugged(SPIES):
        assert run_cli([*broken, "--set", "mechanism.does=raise"]) == 1
    screen = capsys.readouterr()
    assert screen.out == ""
    assert screen.err.startswith("failed: spy-training, seed 1: ")
