"""Progress bars: one for the grid, one for every run in flight."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from uedp_bench.cli.terminal import plain
from uedp_bench.results import Result
from uedp_bench.scheduler import Job, Message


class ProgressBars:
    """Shows what runs, on standard error, so that standard output stays clean for `--json`."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._labels = {job.id: plain(job.label) for job in jobs}
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.completed}/{task.total}"),
            TimeElapsedColumn(),
            console=self._console,
        )
        finished = sum(not job.todo for job in jobs)
        self._all = self._progress.add_task("runs", total=len(jobs), completed=finished)

    def __enter__(self) -> ProgressBars:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def update(self, message: Message) -> None:
        """Moves the bar of one run."""
        with self._lock:
            label = f"{self._labels[message.id]}: {plain(message.phase)}"
            if message.id not in self._tasks:
                self._tasks[message.id] = self._progress.add_task(label, total=message.total)
            self._progress.update(
                self._tasks[message.id],
                description=label,
                completed=message.done,
                total=message.total,
            )

    def finish(self, job: Job, result: Result) -> None:
        """Closes the bar of one run."""
        with self._lock:
            task = self._tasks.pop(job.id, None)
            if task is not None:
                self._progress.remove_task(task)
            self._progress.advance(self._all)
            if not self._console.is_terminal:
                seconds = result.cost.train_seconds + result.cost.attack_seconds
                self._console.print(
                    f"{result.status}: {plain(job.label)} ({seconds:.0f} s)", markup=False
                )
