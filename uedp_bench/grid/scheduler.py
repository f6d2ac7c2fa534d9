"""A grid of runs: finished ones are skipped, the others go to processes of their own.

Every run writes its result last and atomically, so that a crash or Ctrl-C loses the runs in
flight and nothing else; the same command goes on from there. A run whose process dies has a failed
result that says how, and what failed too often is left out until it is asked for.
"""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from uedp_bench.components import registry
from uedp_bench.components.component import check_requirements
from uedp_bench.contracts.checkpoints import remove
from uedp_bench.contracts.results import Result, RunError, RunSpec
from uedp_bench.errors import Problems, is_input_error
from uedp_bench.grid.workers import DIED, Crash, Tell, in_processes
from uedp_bench.io.folders import CHECKPOINT, refuse_links
from uedp_bench.one_run.components import Components, build
from uedp_bench.one_run.planting import forget_corpora, left_out
from uedp_bench.one_run.preparing import Execution, PlantedCounts, unit_sizes
from uedp_bench.one_run.private_data import keep_result
from uedp_bench.one_run.publishing import check_read
from uedp_bench.one_run.stored_run import after_failure, failed, result_of_run
from uedp_bench.spec.identity import Identity, check_files

MOST_FAILURES = 3
"""A run that failed so often, and not on bad input, is left out until it is asked for."""

_TELL_SECONDS = 0.2
"""A run tells no more often how far it is."""


@dataclass(frozen=True)
class Job:
    """One run of a grid.

    Attributes:
        identity: identity of the run, on the corpus that it must find.
        left_out: why some of its attacks cannot apply, as far as that is known.
        done: the finished result of an earlier run, if there is one.
        given_up: the last result of a run that failed too often to be tried again.
        failures: number of earlier failures of the run, other than on bad input.
    """

    identity: Identity
    spec: RunSpec
    left_out: tuple[str, ...] = ()
    done: Result | None = None
    given_up: Result | None = None
    failures: int = 0

    @property
    def id(self) -> str:
        """Name of the result."""
        return self.identity.id

    @property
    def label(self) -> str:
        """Mechanism and seed, for people."""
        return f"{self.spec.label}, seed {self.spec.seed}"

    @property
    def todo(self) -> bool:
        """True if it is to be run."""
        return self.done is None and self.given_up is None


Point = tuple[str, int, float]
"""A value of a series: the series' name, the step, the value."""


class JobProgress(NamedTuple):
    """Progress of one job.

    Attributes:
        id: id of the job.
        phase, done, total: phase, steps done, and steps in all.
        points: new points of its series.
    """

    id: str
    phase: str
    done: int
    total: int
    points: tuple[Point, ...] = ()


class Executor(Protocol):
    """Executor of the runs of a grid: processes of this machine, or other machines."""

    def __call__(
        self,
        runs: Runs,
        todo: Sequence[Job],
        /,
        *,
        timeout: float | None,
        listen: Callable[[Job, Any], None],
    ) -> Generator[tuple[Job, Crash | None], None, None]:
        """Do runs; yield each when its result is in the folder of results, or with its crash.

        Closing the generator ends all that is in flight.

        Args:
            runs: work for each job.
            todo: the jobs.
            timeout: seconds after which a run is ended; None for any time.
            listen: is called with what runs tell (`JobProgress` without its id).

        Raises:
            OSError: if no result can be written any more.
            UedpBenchError: if nobody is left to do them.
        """
        ...


def jobs_of(specs: Sequence[RunSpec], out: Path) -> list[Job]:
    """Check every run before any starts, and find those that are finished already.

    What needs no data is checked first: names, values, packages and files of all runs.

    Raises:
        InputError: for any mistake that shows before training, of all runs at once.
    """
    forget_corpora()  # of an earlier grid of this process: files may have changed
    built, jobs, counts = [], [], PlantedCounts()
    problems, missing = Problems(), Problems()
    for spec in specs:
        with problems.collect():
            built.append((spec, build(spec)))
    for _, parts in built:
        with missing.collect():
            check_requirements(parts.all)
        with missing.collect():
            check_files(parts.after_sources)
    if missing.errors:  # nothing is read before it is there
        problems.errors |= missing.errors
        problems.check()
    for spec, parts in built:
        with problems.collect():
            jobs.append(_job_of(spec, parts, counts))
    problems.check()
    return resume(jobs, out)


def _job_of(spec: RunSpec, parts: Components, counts: PlantedCounts) -> Job:
    """The run as a job.

    Raises:
        InputError: for whatever can be known to be wrong before training.
    """
    rows = counts.counts_of(spec, parts)
    check_read(parts, rows.columns)
    unit_sizes(parts.pipeline, rows.units, rows.downstream, rows.stats)
    planned = parts.pipeline.plan(rows.stats)
    skipped = (*rows.unplanted, *left_out(parts, planned))
    return Job(Identity.from_spec(spec, rows.fingerprint), spec, skipped)


def resume(jobs: Sequence[Job], out: Path, *, retry_failed: bool = False) -> list[Job]:
    """The jobs with what earlier runs left in a folder.

    Args:
        jobs: jobs of a grid.
        out: folder of results.
        retry_failed: run again what failed `MOST_FAILURES` times, and finished runs in which an
            attack failed, too.

    Raises:
        InputError: if something in the folder would have a run write elsewhere.
    """
    for job in jobs:
        refuse_links(out, job.id)
    return [_resumed(job, _result_in(out, job), retry_failed) for job in jobs]


def _resumed(job: Job, result: Result | None, retry_failed: bool) -> Job:
    if result is None:
        return replace(job, done=None, given_up=None, failures=0)
    if result.error is None:
        again = retry_failed and bool(result.failed_attacks)
        return replace(job, done=None if again else result, given_up=None, failures=0)
    failures = result.error.failures
    tries = retry_failed or failures < MOST_FAILURES
    return replace(job, done=None, given_up=None if tries else result, failures=failures)


def _result_in(out: Path, job: Job) -> Result | None:
    """The result of a run; what cannot be read was cut short, and is run again."""
    return result_of_run(out / job.id / "result.json", job.id, job.spec)


def run_jobs(
    jobs: Sequence[Job],
    execution: Execution,
    *,
    workers: int,
    plugins: Sequence[Path] = (),
    timeout: float | None = None,
    listen: Callable[[JobProgress], None] = lambda message: None,
    executor: Executor | None = None,
) -> Generator[tuple[Job, Result], None, None]:
    """Run the jobs that are not finished; yield each as it ends.

    Args:
        jobs: jobs of the grid.
        execution: settings of the execution.
        workers: number of processes; 0 runs in this process, for a debugger: what ends a run ends
            it too.
        plugins: files to import in every process.
        timeout: seconds after which a run is ended; not for runs in this process.
        listen: function called with progress, in this process.
        executor: executor of the runs instead of `workers` processes of this machine.

    Raises:
        OSError: if a run cannot write its result, for then no other can.
    """
    todo = [job for job in jobs if job.todo]
    for job in jobs:
        if job.done is not None:  # killed after its result, and before it was done with
            remove(execution.out / job.id / CHECKPOINT)
    if workers == 0 and executor is None:
        from uedp_bench.one_run.runner import execute

        for job in todo:
            heard = partial(_pass_on, job, listen)
            yield job, execute(job.spec, _reporting_to(job, execution, heard), job.identity)
            give_back_memory()
        return
    forget_corpora()  # every process loads what it needs, and this one needs none
    if executor is None:
        executor = partial(in_processes, workers=workers)
    running = executor(
        Runs(execution, tuple(plugins)), todo, timeout=timeout,
        listen=lambda job, message: _pass_on(job, listen, message),
    )  # fmt: skip
    with closing(running):
        for job, crash in running:
            yield job, result_after(job, execution, crash)


def result_after(job: Job, execution: Execution, crash: Crash | None) -> Result:
    """The result that a process left of a job; a crash is one if nothing was finished."""
    result = _result_in(execution.out, job)
    if result is None or (crash is not None and result.error is not None):
        return _crashed(job, execution, crash or Crash(DIED, "the run left no result"))
    return result


@dataclass(frozen=True)
class Runs:
    """The work of a process.

    Attributes:
        execution: settings of the execution.
        plugins: files that a process imports first.
    """

    execution: Execution
    plugins: tuple[Path, ...] = ()

    def start(self) -> None:
        """Import the plug-ins, and what runs need."""
        import_module("uedp_bench.one_run.runner")  # torch; who looks after runs needs none
        registry.load_plugins(self.plugins)

    def __call__(self, job: Job, tell: Tell) -> bool:
        """Do one run; True if the process is fit for another."""
        from uedp_bench.one_run.runner import execute

        result = execute(job.spec, _reporting_to(job, self.execution, tell), job.identity)
        give_back_memory()
        # An unforeseen error may have broken the process too, a GPU's context for instance.
        error_types = [error.type for error in (result.error, *result.failed_attacks) if error]
        return all(map(is_input_error, error_types))


def give_back_memory() -> None:
    """Has glibc give freed memory back to the system, between runs of a process.

    While it trains it keeps all (`training.device`). What a run leaves of the heap is in pieces,
    and the next run finds no room there for larger tensors: the process would grow with every run.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def _reporting_to(job: Job, execution: Execution, tell: Tell) -> Execution:
    telling = _Telling(tell)
    return replace(
        execution, failures=job.failures, progress=telling.progress, points=telling.point
    )  # fmt: skip


def _pass_on(job: Job, listen: Callable[[JobProgress], None], message: tuple[Any, ...]) -> None:
    listen(JobProgress(job.id, *message))


def _crashed(job: Job, execution: Execution, crash: Crash) -> Result:
    """The result of a run that its process did not survive, written like any other."""
    error = RunError(
        type=crash.kind,
        message=crash.message,
        phase=crash.last[0] if crash.last else "",
        traceback=crash.stack,
        failures=job.failures + 1,
    )
    stored = after_failure(execution.state_folder / job.id, goes_on=execution.keeps_checkpoints)
    result = failed(job.spec, job.identity, error, stored)
    keep_result(result, execution.out)
    return result


def default_workers(device: str) -> int:
    """One process per core on CPUs; one where a GPU is used."""
    if device.startswith("cuda"):
        return 1
    if device == "auto":
        from uedp_bench.training.device import choose_device

        if choose_device("auto").startswith("cuda"):
            return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Telling:
    """Tells how a run goes on: now and then, with the points of its series since the last time."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._last, self._shown = tell, 0.0, ""
        self._points: list[Point] = []

    def point(self, name: str, step: int, value: float) -> None:
        """See `Run.points`."""
        self._points.append((name, int(step), value))

    def progress(self, phase: str, done: int, total: int) -> None:
        """See `Run.progress`."""
        clock = time.monotonic()
        if phase != self._shown or done >= total or clock - self._last > _TELL_SECONDS:
            self._last, self._shown = clock, phase
            points, self._points = tuple(self._points), []
            # Numbers of a component may be of a class that the parent process cannot load.
            self._tell((str(phase), int(done), int(total), points))
