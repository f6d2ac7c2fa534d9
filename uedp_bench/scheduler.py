"""A grid of runs: finished ones are skipped, the others go to one process per core.

Every run writes its result last and atomically, so that a crash or Ctrl-C loses the runs in
flight and nothing else; the same command goes on from there.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from uedp_bench import registry
from uedp_bench.errors import InputError
from uedp_bench.mechanism import CorpusStats
from uedp_bench.results import Result, RunError, RunSpec, read_result, write_result
from uedp_bench.run import Progress
from uedp_bench.runner import (
    Settings,
    build,
    execute,
    failed,
    load_corpus,
    plant,
    public_sizes,
)
from uedp_bench.spec import identity, identity_parts


@dataclass(frozen=True)
class Job:
    """One run of a grid.

    Attributes:
        id: of the result.
        done: the finished result of an earlier run, if there is one.
    """

    id: str
    spec: RunSpec
    done: Result | None = None

    @property
    def label(self) -> str:
        """Mechanism and seed, for people."""
        return f"{self.spec.label}, seed {self.spec.seed}"


class Message(NamedTuple):
    """Progress of one job."""

    id: str
    phase: str
    done: int
    total: int


def plan_jobs(specs: Sequence[RunSpec], out: Path) -> list[Job]:
    """Checks every run before any starts, and finds those that are finished already.

    Raises:
        InputError: for whatever can be known to be wrong before training.
    """
    jobs = []
    sizes: dict[str, tuple[str, CorpusStats]] = {}
    for spec in specs:
        parts = build(spec)
        key = f"{spec.source.model_dump_json()}{[ref.model_dump_json() for ref in spec.attacks]}"
        if key not in sizes:
            corpus = load_corpus(spec.source.model_dump_json())
            # Who is held out depends on the seed, how many are does not.
            planted, _ = plant(parts.attacks, corpus, spec.seed, public_sizes(spec, corpus))
            sizes[key] = corpus.fingerprint, public_sizes(spec, planted)
        fingerprint, stats = sizes[key]
        parts.pipeline.plan(stats)
        identifier, _ = identity(spec, fingerprint)
        jobs.append(Job(identifier, spec, _finished(out / identifier / "result.json")))
    return jobs


def _finished(path: Path) -> Result | None:
    """The finished result in a file; what cannot be read was cut short, and is run again."""
    try:
        result = read_result(path)
    except InputError:
        return None
    return result if result.status == "finished" else None


def run_jobs(
    jobs: Sequence[Job],
    settings: Settings,
    *,
    workers: int,
    plugins: Sequence[Path] = (),
    listen: Callable[[Message], None] = lambda message: None,
) -> Generator[tuple[Job, Result], None, None]:
    """Runs the jobs that are not finished; yields each as it ends.

    Args:
        jobs: the grid.
        settings: how to run.
        workers: processes; 1 runs in this process (and a GPU is used by one process only).
        plugins: files to import in every process.
        listen: called with progress, in this process.
    """
    todo = [job for job in jobs if job.done is None]
    if workers == 1 or len(todo) <= 1:
        for job in todo:
            yield job, _run(job, settings, _throttled(job.id, listen))
        return
    yield from _in_processes(todo, settings, min(workers, len(todo)), plugins, listen)


def default_workers(device: str) -> int:
    """One process per core on CPUs; one where a GPU is used."""
    if device.startswith("cuda"):
        return 1
    if device == "auto":
        from uedp_bench.training.device import choose_device

        if choose_device("auto").startswith("cuda"):
            return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_processes(
    todo: Sequence[Job],
    settings: Settings,
    workers: int,
    plugins: Sequence[Path],
    listen: Callable[[Message], None],
) -> Generator[tuple[Job, Result], None, None]:
    context = multiprocessing.get_context("spawn")
    messages: Any = context.Queue()
    executor = ProcessPoolExecutor(
        workers, context, initializer=_start_worker, initargs=(messages, tuple(plugins))
    )
    stop = threading.Event()
    drain = threading.Thread(target=_drain, args=(messages, stop, listen), daemon=True)
    drain.start()
    left = {job.id: job for job in todo}
    finished = False
    try:
        futures: dict[Future[Result], Job] = {
            executor.submit(_run_in_worker, job, settings): job for job in todo
        }
        for future in as_completed(futures):
            try:
                result = future.result()
            except BrokenProcessPool:
                break
            yield left.pop(futures[future].id), result
        finished = not left
    finally:
        stop.set()
        if not finished:
            for process in list((getattr(executor, "_processes", None) or {}).values()):
                process.terminate()
        executor.shutdown(wait=finished, cancel_futures=True)
        drain.join(timeout=2)
    # A process that died took the whole pool along; nobody knows whose it was.
    if len(todo) == 1:
        for job in left.values():
            yield job, _killed(job, settings)
        return
    for job in left.values():
        yield from _in_processes([job], settings, 1, plugins, listen)


def _killed(job: Job, settings: Settings) -> Result:
    """The result of a run whose process was ended from outside, written like any other."""
    error = RunError(
        type=BrokenProcessPool.__name__,
        message="the process of this run was killed (out of memory?); try fewer --workers",
        phase="",
    )
    corpus = load_corpus(job.spec.source.model_dump_json())
    result = failed(job.spec, identity_parts(job.spec, corpus.fingerprint), error)
    folder = settings.out / result.id
    folder.mkdir(parents=True, exist_ok=True)
    write_result(result, folder / "result.json")
    return result


_messages: Any = None
"""The queue to the parent process, in worker processes."""


def _start_worker(messages: Any, plugins: tuple[Path, ...]) -> None:
    global _messages
    _messages = messages
    # Ctrl-C reaches the whole group; the parent decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    registry.load_plugins(plugins)


def _end_with_parent() -> None:
    """Ends this process when the parent is gone, killed perhaps, for nobody reads its results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run_in_worker(job: Job, settings: Settings) -> Result:
    return _run(job, settings, _throttled(job.id, _messages.put))


def _run(job: Job, settings: Settings, progress: Progress) -> Result:
    return execute(job.spec, replace(settings, progress=progress))


def _throttled(identifier: str, listen: Callable[[Message], None]) -> Progress:
    last, shown = [0.0], [""]

    def progress(phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if phase != shown[0] or done >= total or now - last[0] > 0.2:
            last[0], shown[0] = now, phase
            listen(Message(identifier, phase, done, total))

    return progress


def _drain(messages: Any, stop: threading.Event, listen: Callable[[Message], None]) -> None:
    while not stop.is_set():
        try:
            listen(messages.get(timeout=0.2))
        except queue.Empty:
            continue
        except (EOFError, OSError):
            return


def is_bad_input(result: Result) -> bool:
    """Whether a run failed on bad input, which the user can mend."""
    return result.error is not None and result.error.type in _INPUT_ERRORS


_INPUT_ERRORS = {InputError.__name__, *(kind.__name__ for kind in InputError.__subclasses__())}
