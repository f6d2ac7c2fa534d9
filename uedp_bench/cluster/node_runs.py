"""What a machine of a cluster does for a grid: a task of Ray looks after the process of one run.

The run is in a process of its own below the task, as it would be on one machine: what ends it is
told with its exit code or signal and where Python was, and a process that is fit does the next run.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uedp_bench.checkpoints import Pace
from uedp_bench.cluster.named_paths import NamedFiles
from uedp_bench.cluster.node_folder import NodeFolder
from uedp_bench.files.output_folder import CHECKPOINT
from uedp_bench.fresh_processes import hide_main
from uedp_bench.harness.checkpointing import code_digest
from uedp_bench.harness.execution import Execution
from uedp_bench.harness.named_files import RESULT
from uedp_bench.harness.scheduler import Job, Runs
from uedp_bench.harness.workers import Crash, in_processes
from uedp_bench.results import RunSpec
from uedp_bench.version import __version__

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Variables that decide how libraries add; Ray sets the first to the CPUs of a task."""

NAMED = "uedp-bench-named-file:"
"""Begins what stands in a spec on its way, in place of a path."""


@dataclass(frozen=True)
class Order:
    """What all runs of a grid have in common; it is sent once.

    Attributes:
        token: names the folder of the grid on each machine.
        how: to run, as the machine that started the grid would.
        probe: name of a file in the folder of results, by which a machine that sees that folder
            knows it.
        named: files and folders that specs and the command name: text, and content.
        plugins: numbers of the plug-ins among them.
        timeout: seconds of a run; None for any time.
        environment: variables as the machine that started the grid has them; None for unset.
        built: version and code of the package there.
    """

    token: str
    how: Execution
    probe: str
    named: tuple[tuple[str, NamedFiles], ...]
    plugins: tuple[int, ...]
    timeout: float | None
    environment: Mapping[str, str | None]
    built: tuple[str, str]


@dataclass(frozen=True)
class KeptFile:
    """A file of a run, or a folder.

    Attributes:
        path: below the folder of the run.
        mode: rights.
        content: of a file; None of a folder.
    """

    path: str
    mode: int
    content: bytes | None


@dataclass(frozen=True)
class Outcome:
    """How the task of a run ended.

    Attributes:
        files: that the run left, its result among them.
        crash: what ended the run, if it did not end by itself.
        needs: digests of files that were not sent yet: the run was not begun.
        problem: why this machine can do no run.
    """

    files: tuple[KeptFile, ...] = ()
    crash: Crash | None = None
    needs: tuple[str, ...] = ()
    problem: str = ""


def built() -> tuple[str, str]:
    """Version and digest of the code of the package that is installed here."""
    return __version__, code_digest()


def difference(here: tuple[str, str], wanted: tuple[str, str]) -> str:
    """How the package of a node differs from that of the machine that starts the grid, if so."""
    if here[0] != wanted[0]:
        return f"has uedp-bench {here[0]}, and this machine {wanted[0]}"
    same = here[1] == wanted[1]
    return "" if same else f"has other code of uedp-bench {here[0]} than this machine"


def do_run(
    order: Order,
    job: Job,
    sent: Mapping[str, Sequence[Any]],
    tell: Callable[[Any], None],
) -> Outcome:
    """Does one run on this machine.

    Args:
        order: of the grid.
        job: whose spec has `NAMED` and a number in place of paths.
        sent: references to the content of files, by digest.
        tell: is called with progress.
    """
    if said := difference(built(), order.built):
        return Outcome(problem=said)
    try:
        return _do_run(order, job, sent, tell)
    except OSError as error:
        _forget_process()
        return Outcome(problem=f"cannot write: {error}")


def _do_run(
    order: Order, job: Job, sent: Mapping[str, Sequence[Any]], tell: Callable[[Any], None]
) -> Outcome:
    node = _node_folder(order.token)
    places: dict[int, Path] = {}
    needs: list[str] = []
    for number in sorted({*order.plugins, *numbers_in(job.spec.model_dump())}):
        named = order.named[number][1]
        place = node.place(named, lambda digest: _fetched(sent, digest))
        if place is None:
            needs.append(named.digest)
        else:
            places[number] = place
    if needs:
        return Outcome(needs=tuple(dict.fromkeys(needs)))
    spec = RunSpec.model_validate(with_places(job.spec.model_dump(), places))
    process = _process(order, node, [places[number] for number in order.plugins])
    folder = node.runs / job.id
    shutil.rmtree(folder, ignore_errors=True)
    crash = process.do(replace(job, spec=spec), tell)
    given = {str(place): order.named[number][0] for number, place in places.items()}
    files = tuple(_files_of(folder, given))
    shutil.rmtree(folder, ignore_errors=True)
    return Outcome(files, crash)


def _fetched(sent: Mapping[str, Sequence[Any]], digest: str) -> Iterable[bytes] | None:
    import ray

    return (ray.get(part) for part in sent[digest]) if digest in sent else None


def numbers_in(value: Any) -> Iterator[int]:
    """Numbers of the named files in a spec on its way."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from numbers_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers_in(part)
    elif isinstance(value, str) and value.startswith(NAMED):
        yield int(value.removeprefix(NAMED))


def with_places(value: Any, places: Mapping[int, Path]) -> Any:
    """A spec on its way with paths of this machine."""
    if isinstance(value, Mapping):
        return {name: with_places(part, places) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [with_places(part, places) for part in value]
    if isinstance(value, str) and value.startswith(NAMED):
        return str(places[int(value.removeprefix(NAMED))])
    return value


def _files_of(folder: Path, given: Mapping[str, str]) -> Iterator[KeptFile]:
    """What a run left; its texts name files as the user named them, not where they lay here."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if name.parts[0] == CHECKPOINT or path.is_symlink():
            continue
        mode = path.stat().st_mode & 0o777
        if path.is_dir():
            yield KeptFile(name.as_posix(), mode, None)
        else:
            content = path.read_bytes()
            if path.suffix == ".json":
                content = _as_given(content, given)
            yield KeptFile(name.as_posix(), mode, content)


def _as_given(content: bytes, given: Mapping[str, str]) -> bytes:
    for place in sorted(given, key=len, reverse=True):
        here, there = (json.dumps(text)[1:-1].encode() for text in (place, given[place]))
        if here != there:
            content = content.replace(here, there)
    return content


class KeptProcess:
    """A process that does runs one after the other; another takes its place when it dies.

    Args:
        runs: what it does.
        timeout: seconds of a run.
    """

    def __init__(self, runs: Runs, timeout: float | None) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._tell: Callable[[Any], None] = lambda told: None
        self._ended = in_processes(
            runs, iter(self._jobs.get, None), workers=1, timeout=timeout,
            listen=lambda job, told: self._tell(told),
        )  # fmt: skip

    def do(self, job: Job, tell: Callable[[Any], None]) -> Crash | None:
        """Does a run; the crash that ended it, if one did.

        Raises:
            OSError: if nothing can be written.
        """
        self._tell = tell
        self._jobs.put(job)
        return next(self._ended)[1]

    def end(self) -> None:
        """Ends the process."""
        self._jobs.put(None)
        for _ in self._ended:
            pass


_FOLDERS: dict[str, NodeFolder] = {}
_PROCESSES: dict[tuple[str, str], KeptProcess] = {}


def _node_folder(token: str) -> NodeFolder:
    if token not in _FOLDERS or not _FOLDERS[token].runs.is_dir():
        _FOLDERS[token] = NodeFolder(token)
    return _FOLDERS[token]


def _process(order: Order, node: NodeFolder, plugins: Sequence[Path]) -> KeptProcess:
    """The process of this task, which sees the GPUs that Ray gave to it."""
    key = order.token, os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if key not in _PROCESSES:
        _forget_process()
        for name, value in order.environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        hide_main()  # it is Ray's
        shared = (order.how.out / order.probe).is_file()
        state = order.how.state if shared else None
        # Nobody could go on elsewhere from a checkpoint that lies here alone.
        pace = order.how.pace if state is not None else Pace(seconds=0, steps=0)
        how = replace(order.how, out=node.runs, state=state, pace=pace)
        _PROCESSES[key] = KeptProcess(Runs(how, tuple(plugins)), order.timeout)
    return _PROCESSES[key]


def _forget_process() -> None:
    for process in _PROCESSES.values():
        process.end()
    _PROCESSES.clear()


def result_text(files: Iterable[KeptFile]) -> str | None:
    """The result among the files of a run; None if there is none."""
    found = [each.content for each in files if each.path == RESULT and each.content is not None]
    return found[0].decode() if found else None
