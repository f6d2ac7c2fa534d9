"""All runs of a spec, or a share: checked, resumed, shown, logged.

Python and the command line call it. Several commands, each in a folder of its own, run one spec
together, each its share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from uedp_bench.errors import InputError, UedpBenchError, shown

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result, RunSpec
    from uedp_bench.grid.grid_on_ray import OnRay
    from uedp_bench.tracking.tracker import Tracker

One = TypeVar("One")

_FORM = re.compile(r"(\d{1,6})/(\d{1,6})", re.ASCII)


@dataclass(frozen=True)
class Share:
    """One of several parts of a grid, of which each run is in exactly one.

    Attributes:
        number: number of the part, from 1.
        parts: number of parts.
    """

    number: int
    parts: int

    @staticmethod
    def parse(text: str) -> Share:
        """Read the share that a text such as `2/8` names.

        Raises:
            InputError: if it names none.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise InputError(f"--share {shown(text)}: give two numbers, as 2/8 for part 2 of 8")
        share = Share(int(match[1]), int(match[2]))
        if not 1 <= share.number <= share.parts:
            hint = " (a job array of Slurm counts from 1 with --array=1-N)"
            raise InputError(
                f"--share {text}: parts are counted from 1 to {share.parts}"
                + (hint if share.number == 0 else "")
            )
        return share

    def select(self, runs: Sequence[One]) -> list[One]:
        """Select the runs of this part.

        Runs that follow each other stay together, those of a seed for instance: they share models
        that are trained once. The sizes of two parts differ by one at most.
        """
        first, end = ((at * len(runs)) // self.parts for at in (self.number - 1, self.number))
        return list(runs[first:end])


@dataclass(frozen=True)
class Options:
    """Settings of the execution of a benchmark; none of them changes what is run.

    Attributes:
        tracking: MLflow URI; "" for SQLite in `out`, None for no tracking.
        max_retrain: models that the attacks of a run may train; None for any number.
        max_runs: runs that the spec may stand for; None for `spec.grid.MOST_RUNS`.
        run_timeout: seconds that a run may take; None for any.
        retry_failed: run again what failed too often to be tried again unasked.
        log_release: log releases that nothing is proven about.
        keep_release: keep releases, reference models and checkpoints of what did not end; None: all
            of them on this machine, and no releases of runs on a cluster.
        pace: seconds and steps of a training between two checkpoints.
        quiet: show no progress and no notes.
        share: the part of the runs that is run; None for all.
        on: the cluster of Ray that does the runs (`uedp_bench.grid.grid_on_ray.OnRay`); None
            for this machine.
        cpus_per_run: CPUs that a run takes of a node; as many as its threads by default.
        gpus_per_run: likewise, shares of one GPU or whole ones.
    """

    out: Path
    device: str = "auto"
    workers: int | None = None
    threads: int = 1
    tracking: str | None = None
    plugins: tuple[Path, ...] = ()
    log_model: bool = False
    max_retrain: int | None = None
    max_runs: int | None = None
    run_timeout: float | None = None
    retry_failed: bool = False
    log_release: bool = False
    keep_release: bool | None = None
    pace: tuple[float, int] = (60.0, 0)
    quiet: bool = False
    share: Share | None = None
    on: str | None = None
    cpus_per_run: float | None = None
    gpus_per_run: float | None = None

    def select(self, runs: list[RunSpec]) -> list[RunSpec]:
        """Select the runs of a spec that are run."""
        return runs if self.share is None else self.share.select(runs)


def run_grid(data: dict[str, Any], options: Options, tracker: Tracker) -> list[Result]:
    """Run all runs of a spec, and return their results; finished ones are skipped, and come first.

    Args:
        data: content of the spec.
        options: settings of the execution.
        tracker: tracker that logs each result as it ends.

    Raises:
        InputError: for any mistake that shows before training.
        UedpBenchError: if results cannot be written any more.
    """
    from uedp_bench.contracts.checkpoints import Pace
    from uedp_bench.contracts.run_context import Speed
    from uedp_bench.grid.progress import display
    from uedp_bench.grid.scheduler import default_workers, jobs_of, resume, run_jobs
    from uedp_bench.io.folders import only_process
    from uedp_bench.one_run.planting import impossible_pairs
    from uedp_bench.one_run.preparing import Execution
    from uedp_bench.one_run.protecting import check_retrainings
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import parse_spec
    from uedp_bench.training.device import choose_device
    from uedp_bench.training.executors import world_size

    every = expand(parse_spec(data), options.max_runs)
    runs = options.select(every)
    if not runs:
        return []
    where = cluster_of(options)
    if where is None:
        choose_device(options.device, options.threads)
    workers = _alone(options) if world_size() > 1 else options.workers
    if workers is None:
        workers = 1 if where else default_workers(options.device)
    if workers == 0 and options.run_timeout is not None:
        raise InputError("--run-timeout ends processes: it needs --workers 1 or more")
    with display(quiet=options.quiet) as screen:
        screen.checking(len(runs))
        jobs = jobs_of(runs, options.out)
        for line in impossible_pairs((job.spec, job.left_out) for job in jobs):
            if not options.quiet:
                screen.note(line)
        if options.max_retrain is not None:
            check_retrainings((job.spec for job in jobs if job.todo), options.max_retrain)
        # Nothing was written before this line; from here on this process alone writes.
        with only_process(options.out, keep_cache=options.keep_release is not False):
            jobs = resume(jobs, options.out, retry_failed=options.retry_failed)
            screen.begin(jobs)
            results = [earlier for job in jobs if (earlier := job.done or job.given_up)]
            seconds, steps = options.pace
            keeps = where is None if options.keep_release is None else options.keep_release
            speed = Speed(threads=options.threads)
            execution = Execution(options.out, options.device, speed, keep_release=keeps,
                            state=None if options.keep_release is False else options.out,
                            pace=Pace(seconds=seconds, steps=steps))  # fmt: skip
            with tracker.live(
                jobs, every, screen.update, screen.note, machine=where is None
            ) as listen:
                for result in results:  # this server may not have seen them
                    tracker.log(result)
                running = run_jobs(
                    jobs, execution, workers=workers, plugins=options.plugins,
                    timeout=options.run_timeout, listen=listen,
                    executor=where and replace(
                        where, note=(lambda line: None) if options.quiet else screen.note
                    ),
                )  # fmt: skip
                # Closed at once when something goes wrong, so that no process is left behind.
                with closing(running), _writing_to(options.out):
                    for job, result in running:
                        screen.finish(job, result)
                        results.append(result)
                        tracker.log(result)
    return [tracker.latest(result) for result in results]


def cluster_of(options: Options) -> OnRay | None:
    """The cluster that does the runs; None for this machine.

    Raises:
        InputError: for options that do not fit together.
    """
    if options.on is None:
        for name in ("cpus", "gpus"):
            if getattr(options, f"{name}_per_run") is not None:
                raise InputError(f"--{name}-per-run speaks of a cluster: give --on too")
        return None
    if options.workers is not None:
        raise InputError(
            f"--workers {options.workers} with --on: Ray decides how many runs are side by side, "
            "by what each takes (--cpus-per-run, --gpus-per-run)"
        )
    from uedp_bench.training.executors import world_size

    if world_size() > 1:
        raise InputError(f"--on {options.on}: the ranks of torchrun compute one run; start alone")
    from uedp_bench.grid.grid_on_ray import OnRay

    cpus, gpus = options.cpus_per_run, options.gpus_per_run
    cpus = options.threads if cpus is None else cpus
    where = OnRay(options.on, cpus, 0.0 if gpus is None else gpus)
    where.check(options.device)
    return where


def _alone(options: Options) -> int:
    """Workers where several ranks compute one run: none, runs are in this process.

    Raises:
        InputError: if others are asked for.
    """
    if options.workers:
        raise InputError(
            f"--workers {options.workers}: the ranks of torchrun compute one run after the other; "
            "leave --workers out, or start without torchrun"
        )
    return 0


@contextmanager
def _writing_to(out: Path) -> Iterator[None]:
    """Say in one line that a folder which could be written cannot be any more."""
    from uedp_bench.io.folders import FULL

    try:
        yield
    except OSError as error:
        if error.errno in FULL or isinstance(error, UedpBenchError):
            raise
        message = f"cannot write results any more: {error}; those written so far are kept"
        raise UedpBenchError(f"--out {out}: {message}") from error
