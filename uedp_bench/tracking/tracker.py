"""A command's results and curves go to MLflow in a thread, which holds up no training.

`result.json` is the truth: what MLflow does not take waits, until the server is there again, until
the last run has ended, or for the next command.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from uedp_bench.errors import UedpBenchError

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result, RunSpec
    from uedp_bench.grid.scheduler import Job, JobProgress
    from uedp_bench.tracking.content import Grid
    from uedp_bench.tracking.runs import LiveRun
    from uedp_bench.tracking.store import Place

EXPERIMENT = "uedp-bench"

SECONDS = 5.0
"""Results and points are sent no more often."""

RETRY_SECONDS = 60.0
"""A server that failed is asked again no earlier."""

_MOST_POINTS = 100_000


class Tracker:
    """Logs results to MLflow as they come, and points of series while runs train.

    Args:
        out: folder of results.
        uri: MLflow's address; "" for SQLite in `out`, None for no tracking.
        log_model: log large releases, too.
        log_release: log releases that nothing is proven about, too.

    Attributes:
        error: why results wait to be logged; None once they are. They are on disk anyway.
    """

    def __init__(
        self, out: Path, uri: str | None, *, log_model: bool = False, log_release: bool = False
    ) -> None:
        self.error: Exception | None = None
        self._out, self._uri = out, uri
        self._uploads = {"large": log_model, "unproven": log_release}
        self._grid: Grid
        self._warn: Callable[[str], None] = lambda line: None
        self._machine = False
        self._stop, self._again = threading.Event(), 0.0
        self._specs: dict[str, RunSpec] = {}
        self._began: dict[str, int] = {}
        self._points: deque[tuple[str, str, int, float, int]] = deque(maxlen=_MOST_POINTS)
        self._running: dict[str, LiveRun] = {}
        self._waiting: dict[str, Result] = {}
        self._logged: dict[str, Result] = {}

    @contextmanager
    def live(
        self,
        jobs: Sequence[Job],
        every: Sequence[RunSpec],
        show: Callable[[JobProgress], None],
        warn: Callable[[str], None],
        *,
        machine: bool = True,
    ) -> Iterator[Callable[[JobProgress], None]]:
        """Track the runs of a command; the block is left when all that can be logged is.

        Args:
            jobs: runs of this command: MLflow shows them under one parent.
            every: specs of all runs of the grid, where other commands have their share of them.
            show: function that is called with all progress.
            warn: function that is called once if MLflow cannot be reached, in another thread.
            machine: the runs are on this machine: how busy it is goes with them.

        Yields:
            Function to call with progress.
        """
        if self._uri is None or not jobs:
            yield show
            return
        from uedp_bench.tracking.content import Grid
        from uedp_bench.tracking.store import default_uri

        self._uri = self._uri or default_uri(self._out)
        self._warn, self._machine = warn, machine
        self._grid = Grid.from_specs({job.id: job.spec for job in jobs}, every)
        self._specs = {job.id: job.spec for job in jobs if job.todo}

        def listen(message: JobProgress) -> None:
            show(message)
            if message.id in self._specs:
                milliseconds = round(1000 * time.time())
                self._began.setdefault(message.id, milliseconds)
                self._points.extend((message.id, *point, milliseconds) for point in message.points)

        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield listen
        finally:
            self._stop.set()
            thread.join()

    def log(self, result: Result) -> None:
        """Have a result logged, which is on disk; its points are sent with it."""
        self._specs.pop(result.id, None)
        self._waiting[result.id] = result

    def latest(self, result: Result) -> Result:
        """The result with the MLflow run that it was logged as; without where it waits."""
        return self._logged.get(result.id, result)

    def _work(self) -> None:
        while not self._stop.wait(SECONDS):
            if time.monotonic() >= self._again:
                self._send()
        self._send(failures=2)  # one result may be at fault itself
        for running in self._running.values():
            running.close()
        if self.error is None:
            with suppress(UedpBenchError):  # the next command says it
                self._end()

    def _send(self, failures: int = 1) -> None:
        """Log what waits until MLflow failed so often."""
        steps: list[Callable[[], None]] = [self._send_points] if not self._stop.is_set() else []
        steps += [partial(self._log, result) for result in self._waiting.copy().values()]
        for step in steps:
            try:
                step()
            except Exception as error:  # whatever it is, the thread goes on
                if self.error is None:
                    self._warn(f"{error}; results wait to be logged")
                self.error, self._again = error, time.monotonic() + RETRY_SECONDS
                failures -= 1
                if not failures:
                    return
        if not self._waiting:
            self.error = None

    def _send_points(self) -> None:
        """Log the points of runs in training; those that MLflow misses come with the result."""
        from uedp_bench.tracking.runs import LiveRun
        from uedp_bench.tracking.store import use_experiment

        points: dict[str, list[tuple[str, int, float, int]]] = {}
        while self._points:
            identifier, name, step, value, at = self._points.popleft()
            points.setdefault(identifier, []).append((name, step, value, at))
        specs = dict(self._specs)
        began = {one: at for one, at in self._began.copy().items() if one in specs}
        if not points and began.keys() <= self._running.keys():
            return

        def log(place: Place) -> None:
            for one, at in began.items():
                if one not in self._running:
                    self._running[one] = LiveRun(
                        place, one, specs[one], at, self._grid, machine=self._machine
                    )
                self._running[one].log(points.get(one, []))

        use_experiment(str(self._uri), EXPERIMENT, log)

    def _log(self, result: Result) -> None:
        from uedp_bench.contracts.results import write_result
        from uedp_bench.tracking.runs import log_result

        if running := self._running.pop(result.id, None):
            running.close()
        self._waiting[result.id] = self._waiting.pop(result.id)  # the last, if it is refused
        folder = self._out / result.id
        tracking = log_result(
            result, folder, uri=str(self._uri), experiment=EXPERIMENT, grid=self._grid,
            **self._uploads,
        )  # fmt: skip
        if tracking != result.tracking:
            result = result.model_copy(update={"tracking": tracking})
            write_result(result, folder / "result.json")
        self._logged[result.id] = result
        del self._waiting[result.id]

    def _end(self) -> None:
        """Say how the grid ended, and which runs nobody trains any more."""
        from uedp_bench.tracking.content import view
        from uedp_bench.tracking.runs import end_grid
        from uedp_bench.tracking.store import use_experiment

        run_ids = [result.tracking["mlflow_run_id"] for result in self._logged.values()]

        def end(place: Place) -> None:
            for running in self._running.values():
                place.client.set_terminated(running.run_id, "KILLED")
            end_grid(place, self._grid, run_ids)
            place.client.set_experiment_tag(place.experiment, *view(self._logged.values()))

        use_experiment(str(self._uri), EXPERIMENT, end)
