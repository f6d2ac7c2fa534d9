"""Progress on standard error: bars in a terminal, one line in a notebook, lines elsewhere.

Standard output stays clean for tables and `--json`.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from uedp_bench.contracts.results import Result
from uedp_bench.errors import plain
from uedp_bench.grid.scheduler import Job, JobProgress

LINE_SECONDS = 60.0
"""Without a terminal, a line is printed at least so often."""


class Display:
    """Display of nothing; subclasses show the progress.

    Args:
        console: console of standard error.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._labels: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()

    def _begin(self) -> None:
        """Start to show; nothing by default."""

    def _end(self) -> None:
        """Show no more; nothing by default."""

    def checking(self, runs: int) -> None:
        """Called while runs are checked, before any starts; that loads their data."""

    def begin(self, jobs: Sequence[Job]) -> None:
        """Called with the runs that are to be done."""
        self._labels = {job.id: plain(job.label) for job in jobs}

    def _state(self, message: JobProgress) -> str:
        at = f" {message.done}/{message.total}" if message.total > 1 else ""
        return f"{self._labels[message.id]}: {plain(message.phase)}{at}"

    def update(self, message: JobProgress) -> None:
        """Called when a run has gone on."""

    def note(self, line: str) -> None:
        """Say something beside the progress; it may be called in another thread."""
        self._console.print(f"note: {plain(line)}", markup=False, highlight=False, soft_wrap=True)

    def finish(self, job: Job, result: Result) -> None:
        """Called when a run has ended."""


def display(*, quiet: bool = False) -> Display:
    """Choose a display that suits a terminal, a notebook or a log; one of nothing if `quiet`."""
    console = Console(stderr=True)
    in_notebook, console.is_jupyter = console.is_jupyter, False
    if quiet:
        return Display(console)
    if in_notebook:
        return OneLine(console)
    return Bars(console) if console.is_terminal else Lines(console)


class Bars(Display):
    """A bar for the grid, and one for every run in flight, with the time that is left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._tasks: dict[str, tuple[TaskID, str]] = {}
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._all = self._progress.add_task("runs", total=None)

    def _begin(self) -> None:
        self._progress.start()

    def _end(self) -> None:
        self._progress.stop()

    def checking(self, runs: int) -> None:
        """Say that runs are checked."""
        self._progress.update(self._all, description=f"checking {runs} runs", total=runs)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Count those that are finished."""
        super().begin(jobs)
        finished = sum(not job.todo for job in jobs)
        self._progress.reset(self._all, total=len(jobs), completed=finished, description="runs")

    def update(self, message: JobProgress) -> None:
        """Move the bar of one run."""
        with self._lock:
            label = f"{self._labels[message.id]}: {plain(message.phase)}"
            if message.id not in self._tasks:
                self._tasks[message.id] = self._progress.add_task(label), label
            task, before = self._tasks[message.id]
            if label != before:  # the speed of one step says nothing of the next
                self._progress.reset(task)
                self._tasks[message.id] = task, label
            self._progress.update(
                task, description=label, completed=message.done, total=message.total
            )

    def finish(self, job: Job, result: Result) -> None:
        """Closes the bar of one run."""
        with self._lock:
            task = self._tasks.pop(job.id, None)
            if task is not None:
                self._progress.remove_task(task[0])
            self._progress.advance(self._all)


class OneLine(Display):
    """Line below the cell of a notebook: current runs, and at last a summary.

    Args:
        console: console of notes.
        seconds: between two changes of the line.
    """

    def __init__(self, console: Console, seconds: float = 0.3) -> None:
        super().__init__(console)
        self._seconds = seconds
        self._all = self._finished = self._failed = 0
        self._before = -math.inf

    def _begin(self) -> None:
        from IPython.display import Pretty, display

        # A library says that it has no widgets for bars of its own.
        warnings.filterwarnings("ignore", message="IProgress not found")
        self._handle = display(Pretty(""), display_id=True)

    def _end(self) -> None:
        self._show("", at_once=True)

    def checking(self, runs: int) -> None:
        """Say that runs are checked."""
        self._show(f"checking {runs} runs and their data", at_once=True)

    def begin(self, jobs: Sequence[Job]) -> None:
        """Count those that are finished."""
        super().begin(jobs)
        self._all, self._finished = len(jobs), sum(not job.todo for job in jobs)

    def update(self, message: JobProgress) -> None:
        """Say what a run does."""
        self._show(self._state(message))

    def finish(self, job: Job, result: Result) -> None:
        """Count it."""
        self._finished += 1
        self._failed += result.status == "failed"

    def _show(self, current: str, *, at_once: bool = False) -> None:
        """Change the line, unless it was changed a moment ago."""
        from IPython.display import Pretty

        with self._lock:
            clock = time.monotonic()
            if not at_once and clock - self._before < self._seconds:
                return
            self._before = clock
            failed = f", {self._failed} of them failed" if self._failed else ""
            done = f"{self._finished} of {self._all} runs done{failed}" if self._all else ""
            self._handle.update(Pretty("; ".join(filter(None, (done, current)))))


class Lines(Display):
    """A line for each step of a run, and one a minute for all that is in flight.

    Args:
        console: console of standard error.
        seconds: between the lines of what is in flight.
    """

    def __init__(self, console: Console, seconds: float = LINE_SECONDS) -> None:
        super().__init__(console)
        self._seconds = seconds
        self._running: dict[str, tuple[float, JobProgress]] = {}
        self._shown_phases: set[tuple[str, str]] = set()
        self._left = 0
        self._checking = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def _begin(self) -> None:
        self._thread.start()

    def _end(self) -> None:
        self._stop.set()
        self._thread.join()

    def checking(self, runs: int) -> None:
        """Print a line about current runs every minute."""
        self._checking = f"checking {runs} runs and their data"

    def begin(self, jobs: Sequence[Job]) -> None:
        """Say how many are to be run."""
        self._checking = ""
        super().begin(jobs)
        self._left = sum(job.todo for job in jobs)
        if self._left:
            self._print(f"{self._left} of {len(jobs)} runs to do")

    def update(self, message: JobProgress) -> None:
        """Print a step that is new."""
        with self._lock:
            began, _ = self._running.get(message.id, (time.monotonic(), message))
            self._running[message.id] = began, message
            if (message.id, message.phase) not in self._shown_phases:
                self._shown_phases.add((message.id, message.phase))
                self._print(self._state(message))

    def finish(self, job: Job, result: Result) -> None:
        """Print how a run has ended."""
        with self._lock:
            began, _ = self._running.pop(job.id, (time.monotonic(), None))
            self._left -= 1
            seconds = time.monotonic() - began
            times = int((result.cost.model_extra or {}).get("resumed", 0))
            resumed = f"resumed {'once' if times == 1 else f'{times} times'}; " if times else ""
            left = f"{self._left} run{'s' * (self._left != 1)} left"
            self._print(f"{result.status}: {plain(job.label)} ({resumed}{seconds:.0f} s; {left})")

    def _tick(self) -> None:
        while not self._stop.wait(self._seconds):
            with self._lock:
                if self._checking:
                    self._print(self._checking)
                for began, message in self._running.values():
                    self._print(f"{self._state(message)}, {time.monotonic() - began:.0f} s")

    def _print(self, line: str) -> None:
        clock = time.strftime("%H:%M:%S")
        self._console.print(f"{clock} {line}", markup=False, highlight=False, soft_wrap=True)
