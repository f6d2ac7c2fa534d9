"""What a command logs to MLflow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from uedp_bench.errors import UedpBenchError
from uedp_bench.harness.tracking_client import RETRY_SECONDS

if TYPE_CHECKING:
    from uedp_bench.harness.live_metrics import LiveMetrics
    from uedp_bench.harness.scheduler import Job, JobProgress
    from uedp_bench.harness.tracking_grid import GridRun
    from uedp_bench.results import Result, RunSpec

EXPERIMENT = "uedp-bench"


class Tracker:
    """Logs results to MLflow as they come, and points of series while runs train.

    What a server does not take waits: until the server is there again, until the last run has
    ended, or for the next command.

    Args:
        out: folder of results.
        uri: MLflow's; "" for SQLite in `out`, None for no tracking.
        log_model: log large releases, too.
        log_release: log releases that nothing is proven about, too.

    Attributes:
        error: why results wait to be logged; None once they are. They are on disk anyway.
    """

    def __init__(
        self, out: Path, uri: str | None, *, log_model: bool = False, log_release: bool = False
    ) -> None:
        self.error: UedpBenchError | None = None
        self._out, self._uri = out, uri
        self._log_model, self._log_release = log_model, log_release
        self._live: LiveMetrics | None = None
        self._grid: GridRun | None = None
        self._warn: Callable[[str], None] = lambda line: None
        self._seen: list[Result] = []
        self._waiting: dict[str, Result] = {}
        self._late: dict[str, Result] = {}
        self._again = 0.0

    def begin(self, jobs: Sequence[Job], every: Sequence[RunSpec] = ()) -> None:
        """Takes the runs that are logged next as one grid: MLflow shows them under one parent.

        Args:
            jobs: of this command.
            every: all runs of the grid, where other commands have their share of them.
        """
        if self._uri is not None:
            from uedp_bench.harness.tracking_grid import GridRun

            self._grid = GridRun({job.id: job.spec for job in jobs}, every)

    @contextmanager
    def live(
        self,
        jobs: Sequence[Job],
        show: Callable[[JobProgress], None],
        warn: Callable[[str], None],
        *,
        machine: bool = True,
    ) -> Iterator[Callable[[JobProgress], None]]:
        """What hears of progress within the block: it shows it, and logs the points in it.

        The grid ends with the block, after what waits was tried once more.

        Args:
            jobs: that are run.
            show: is called with all progress.
            warn: is called if points or results cannot be logged, in another thread too.
            machine: the runs are on this machine: how busy it is goes with them.
        """
        self._warn = warn
        todo = {job.id: job.spec for job in jobs if job.todo}
        try:
            if self._uri is None or not todo:
                yield show
                return
            from uedp_bench.harness.live_metrics import LiveMetrics
            from uedp_bench.harness.tracking_client import default_uri

            where = self._uri or default_uri(self._out), EXPERIMENT
            with LiveMetrics(todo, where, warn, grid=self._grid, machine=machine) as live:

                def listen(message: JobProgress) -> None:
                    show(message)
                    live.hear(message)

                self._live = live
                yield listen
        finally:
            self._live = None
            self._catch_up(failures=2)
            self._end()

    def _catch_up(self, failures: int = 1) -> None:
        """Logs what waits, until the server failed so often; one result may be at fault itself."""
        for result in list(self._waiting.values()):
            found = self._logged(result)
            if found is not None:
                self._late[result.id] = found
                continue
            failures -= 1
            if not failures:
                return

    def _end(self) -> None:
        """Says in MLflow how the grid ended; a server that is gone is told that next time."""
        if self._grid is None or self.error is not None:
            return
        from uedp_bench.harness.tracking_client import PROBE, as_tracking_error, environment

        with suppress(UedpBenchError), as_tracking_error("end the grid"), environment(PROBE):
            self._grid.end(self._seen)

    def log(self, result: Result) -> Result:
        """The result with the run that it was logged as; without where it waits."""
        if self._live is None:
            return self._log(result)
        self._live.ended(result.id)
        with self._live.sending:
            return self._log(result)

    def latest(self, result: Result) -> Result:
        """The result as it was logged later on."""
        return self._late.get(result.id, result)

    def _log(self, result: Result) -> Result:
        if self._uri is None:
            return result
        self._waiting[result.id] = result
        if self.error is None or time.monotonic() >= self._again:
            self._catch_up()
        return self.latest(result)

    def _logged(self, result: Result) -> Result | None:
        """The result with the run that it was logged as; None if the server does not take it."""
        from uedp_bench.harness.tracking import log_result
        from uedp_bench.harness.tracking_model import Uploads
        from uedp_bench.results import write_result

        folder, uri = self._out / result.id, self._uri or None
        try:
            found = log_result(
                result, folder, uri=uri, experiment=EXPERIMENT, grid=self._grid,
                uploads=Uploads(large=self._log_model, unproven=self._log_release),
            )  # fmt: skip
        except UedpBenchError as error:
            if self.error is None:
                self._warn(f"{error}; results wait to be logged")
            self.error, self._again = error, time.monotonic() + RETRY_SECONDS
            self._waiting[result.id] = self._waiting.pop(result.id)  # the others come first
            return None
        self._again = 0.0
        del self._waiting[result.id]
        if not self._waiting:
            self.error = None
        self._seen.append(result)
        if found == result.tracking:
            return result
        logged = result.model_copy(update={"tracking": found})
        write_result(logged, folder / "result.json")
        return logged
