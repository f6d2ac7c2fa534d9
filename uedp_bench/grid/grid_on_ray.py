"""The executor of a grid on Ray: one task a run, its files come back into the folder of results.

This process alone writes there. Ray repeats nothing: a run whose node died is begun again from
here, so that an attempt which nobody waits for any more writes nothing.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tarfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from uedp_bench.components.component import MayBePath
from uedp_bench.contracts.results import parse_result
from uedp_bench.errors import InputError, MissingExtraError, UedpBenchError, shown
from uedp_bench.grid import ray_nodes
from uedp_bench.grid.ray_nodes import (
    ADDRESS,
    AUTO,
    LOCAL,
    NamedFiles,
    Order,
    connected,
    remove_folder,
    with_paths,
)
from uedp_bench.grid.scheduler import MOST_FAILURES, Job, Runs
from uedp_bench.grid.workers import DIED, Crash
from uedp_bench.io.folders import PARTIAL, write_atomically
from uedp_bench.one_run.private_data import MESSAGES, keep_result
from uedp_bench.spec.identity import RELEASE, RESULT

LOST = "lost with its machine, and runs again"
"""Phase of a run whose node died."""

_CHECK_SECONDS, _LOOK_SECONDS, _GOODBYE_SECONDS = 600.0, 0.3, 10.0
_CHUNK_BYTES = 64 * 2**20

Ended = tuple[Job, Crash | None]
Listen = Callable[[Job, Any], None]


@dataclass(frozen=True)
class OnRay:
    """Does the runs of a grid on a cluster of Ray (`uedp_bench.grid.scheduler.Executor`).

    Attributes:
        on: "ray", "auto", "HOST:PORT" or "ray://HOST:PORT".
        cpus: CPUs of a run.
        gpus: GPUs of a run; a share, or a whole number.
        note: is told what the user should know.
    """

    on: str
    cpus: float = 1.0
    gpus: float = 0.0
    note: Callable[[str], None] = lambda line: None

    def check(self, device: str) -> None:
        """Refuse what cannot be, before anything is loaded.

        Raises:
            InputError: naming the option.
            MissingExtraError: if Ray is not installed.
        """
        if self.on not in (LOCAL, AUTO) and not ADDRESS.fullmatch(self.on):
            raise InputError(
                f"--on {shown(self.on)}: allowed are ray (a cluster on this machine), auto (the "
                "one of RAY_ADDRESS, or that this machine belongs to), HOST:PORT and "
                "ray://HOST:PORT"
            )
        if not self.cpus > 0:
            raise InputError(f"--cpus-per-run {self.cpus:g}: allowed is a number above 0")
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            raise InputError(
                f"--gpus-per-run {self.gpus:g}: allowed is 0, a share up to 1, or a whole number"
            )
        if device.startswith("cuda:"):
            raise InputError(f"--device {device}: Ray chooses the GPU of a run; use --device cuda")
        if device == "cuda" and not self.gpus:
            raise InputError(
                "--device cuda with --on: say how much of a GPU a run takes, with --gpus-per-run"
            )
        if find_spec("ray") is None:
            raise MissingExtraError("--on: Ray", "pip install 'uedp-bench[cluster]'")

    def __call__(
        self, runs: Runs, todo: Sequence[Job], /, *, timeout: float | None, listen: Listen
    ) -> Generator[Ended, None, None]:
        """See `Executor`."""
        if not todo:
            return
        probe = runs.execution.out / f".cluster-{secrets.token_hex(8)}{PARTIAL}"
        order = _order(runs, todo, probe, timeout)
        with connected(self.on) as ray:
            self._check_room([node["Resources"] for node in _alive(ray)])
            lacking = _lacking(ray, order)
            try:
                probe.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(probe, "")
                with closing(_Grid(ray, self, order, lacking, listen)) as grid:
                    yield from grid.ended(todo)
            except ConnectionError as error:
                raise UedpBenchError(
                    f"the cluster cannot go on ({_line(error)}); finished runs are kept: the same "
                    "command resumes the others"
                ) from error
            finally:
                probe.unlink(missing_ok=True)

    def _check_room(self, nodes: Sequence[dict[str, float]]) -> None:
        """Say what no node has, and which GPUs stay idle."""
        if not any(
            each.get("CPU", 0) >= self.cpus and each.get("GPU", 0) >= self.gpus for each in nodes
        ):
            most = [max(each.get(kind, 0) for each in nodes) for kind in ("CPU", "GPU")]
            lacks = (
                f"no node has {self.cpus:g} CPUs and {self.gpus:g} GPUs for a run (the most are "
                f"{most[0]:g} and {most[1]:g})"
            )
            if self.on == LOCAL:
                raise InputError(f"--on ray: {lacks}: lower --cpus-per-run or --gpus-per-run")
            self.note(f"{lacks}: runs wait until one comes")
        gpus = sum(each.get("GPU", 0) for each in nodes)
        if gpus and not self.gpus:
            self.note(f"the cluster has {gpus:g} GPUs, and runs use none: give --gpus-per-run")


def _alive(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _on_every_node(
    ray: Any, function: Callable[..., Any], *arguments: Any
) -> list[tuple[dict[str, Any], Any]]:
    """Every node, and a reference to what a function returns there."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    task = ray.remote(num_cpus=0, max_retries=0)(function)
    return [
        (node, task.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote(*arguments))
        for node in _alive(ray)
    ]


def _lacking(ray: Any, order: Order) -> set[int]:
    """Numbers of named files that some node lacks.

    Raises:
        InputError: naming each node that has another version of the package, or none.
    """
    problems, lacking = dict[str, None](), set[int]()
    for node, reference in _on_every_node(ray, ray_nodes.look, order):
        try:
            answer = ray.get(reference, timeout=_CHECK_SECONDS)
        except ray.exceptions.RayTaskError as error:
            answer = f"cannot import uedp-bench ({_line(error.cause or error)})"
        except ray.exceptions.GetTimeoutError:
            answer = "does not answer"
        except ray.exceptions.RayError:
            continue  # gone meanwhile
        if isinstance(answer, str):
            problems[f"node {node['NodeManagerAddress']} {answer}"] = None
        else:
            lacking |= {*answer}
    if problems:
        raise InputError(
            f"--on: {'; '.join(problems)}: install the same version of uedp-bench, with its extra "
            "cluster, on every node"
        )
    return lacking


def _order(runs: Runs, todo: Sequence[Job], probe: Path, timeout: float | None) -> Order:
    """Build the order of a grid; this reads files for their digests."""
    named: dict[str, NamedFiles] = {}

    def noted(text: str, mark: MayBePath) -> str:
        with suppress(OSError, ValueError):  # no file could have this name
            if text not in named and Path(text).exists():
                named[text] = NamedFiles.from_path(text, mark)
        return text

    for job in todo:
        with_paths(job.spec, noted)
    plugins = [NamedFiles.from_path(str(file), MayBePath()) for file in runs.plugins]
    execution = runs.execution
    return Order(
        token=secrets.token_hex(16),
        execution=replace(
            execution,
            out=execution.out.absolute(),
            state=execution.state and execution.state.absolute(),
        ),
        probe=probe.absolute(),
        named=(*named.values(), *plugins),
        plugins=tuple(range(len(named), len(named) + len(plugins))),
        timeout=timeout,
        environment={name: os.environ.get(name) for name in ray_nodes.ARITHMETIC},
        package=ray_nodes.package(),
    )


class _Mailbox:
    """An actor with the progress of all runs of a grid, until it is taken."""

    def __init__(self) -> None:
        self._words: deque[tuple[str, Any]] = deque(maxlen=100_000)

    def tell(self, run: str, progress: Any) -> None:
        """Leave progress of a run."""
        self._words.append((run, progress))

    def take(self) -> list[tuple[str, Any]]:
        """All progress since the last time."""
        words = list(self._words)
        self._words.clear()
        return words


def _run(order: Order, job: Job, contents: Any, mailbox: Any) -> bytes:
    """The task of a run, on a node."""
    return ray_nodes.do_run(
        order, job, contents, lambda message: mailbox.tell.remote(job.id, message)
    )


class _Grid:
    """The tasks of a grid.

    Args:
        ray: connected.
        where: resources that a run needs.
        order: facts that all runs have in common.
        lacking: numbers of named files that are sent.
        listen: hears of progress.
    """

    def __init__(
        self, ray: Any, where: OnRay, order: Order, lacking: set[int], listen: Listen
    ) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        self._ray, self._order, self._listen = ray, order, listen
        self._elsewhere = where.on != LOCAL
        self._numbers = {order.named[at].text: at for at in range(len(order.named))
                         if at not in order.plugins}  # fmt: skip
        self._contents = {at: self._sent(order.named[at]) for at in lacking}
        if (
            order.execution.device == "auto" and not where.gpus
        ):  # those of a node are for other tasks
            order = replace(order, execution=replace(order.execution, device="cpu"))
        self._shared = ray.put(order)
        beside = On(ray.get_runtime_context().get_node_id(), soft=True)
        mailbox = ray.remote(num_cpus=0, max_restarts=-1)(_Mailbox)
        self._mailbox = mailbox.options(scheduling_strategy=beside).remote()
        self._task = ray.remote(num_cpus=where.cpus, num_gpus=where.gpus, max_retries=0)(_run)
        self._flying: dict[Any, Job] = {}
        self._last: dict[str, Any] = {}
        self._deaths: dict[str, int] = {}

    def _sent(self, named: NamedFiles) -> list[tuple[str, list[Any]]]:
        """Put the content of named files where every node can fetch it."""
        sent = []
        try:
            for path in named.files():
                with path.open("rb") as file:
                    pieces = iter(partial(file.read, _CHUNK_BYTES), b"")
                    chunks = [self._ray.put(piece) for piece in pieces]
                sent.append((path.relative_to(named.root).as_posix(), chunks))
        except OSError as error:
            raise InputError(f"{named.text} cannot be read any more: {error}") from None
        return sent

    def ended(self, todo: Sequence[Job]) -> Iterator[Ended]:
        """Yield each job as its run ends."""
        jobs = {job.id: job for job in todo}
        for job in todo:
            self._begin(job)
        while self._flying:
            ready, _ = self._ray.wait([*self._flying], num_returns=1, timeout=_LOOK_SECONDS)
            with suppress(self._ray.exceptions.RayError):
                for run, progress in self._ray.get(self._mailbox.take.remote()):
                    if run in jobs:
                        self._last[run] = progress
                        self._listen(jobs[run], progress)
            for reference in ready:
                job = self._flying.pop(reference)
                crash = self._crash(job, reference)
                if isinstance(crash, Crash | None):
                    del jobs[job.id]
                    yield job, crash
                else:
                    self._begin(job)
                    self._listen(job, (crash, 0, 1, ()))

    def _begin(self, job: Job) -> None:
        def marked(text: str, mark: MayBePath) -> str:
            return self._order.mark(self._numbers[text]) if text in self._numbers else text

        moved = replace(job, spec=with_paths(job.spec, marked))
        self._flying[self._task.remote(self._shared, moved, self._contents, self._mailbox)] = job

    def _crash(self, job: Job, reference: Any) -> Crash | str | None:
        """The crash of a run; the phase of one that runs again; None once results are stored."""
        raised = self._ray.exceptions
        try:
            keep(job, self._ray.get(reference), self._order.execution.out)
        except raised.OutOfMemoryError:
            why = (
                "the machine of this run was short of memory, and Ray ended the run; with more "
                "--cpus-per-run, fewer are side by side"
            )
        except raised.RayTaskError as error:
            why = f"a node of the cluster cannot go on ({_line(error.cause or error)})"
            raise UedpBenchError(f"{why}; finished runs are kept") from error
        except (raised.NodeDiedError, raised.ObjectLostError):
            return LOST
        except raised.RayError as error:
            # Whose fault it was nobody can tell: not the run's a few times.
            self._deaths[job.id] = self._deaths.get(job.id, 0) + 1
            if self._deaths[job.id] < MOST_FAILURES:
                return LOST
            why = f"the task of this run died {MOST_FAILURES} times ({type(error).__name__})"
        else:
            return None
        return Crash(DIED, why, self._last.get(job.id))

    def close(self) -> None:
        """End all tasks, and remove what the grid left on nodes."""
        with suppress(self._ray.exceptions.RayError, ConnectionError, RuntimeError):
            for reference in self._flying:
                self._ray.cancel(reference, force=True)
            if self._elsewhere:
                removed = _on_every_node(self._ray, remove_folder, self._order.token)
                references = [reference for _, reference in removed]
                self._ray.wait(references, num_returns=len(removed), timeout=_GOODBYE_SECONDS)
        remove_folder(self._order.token)


def keep(job: Job, packed: bytes, out: Path) -> None:
    """Write what a run left into the folder of results, its result last."""
    folder = out / job.id
    shutil.rmtree(folder / RELEASE, ignore_errors=True)
    for left in ("planted.json", MESSAGES):
        (folder / left).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    before = os.umask(0o077)  # files get their rights when they are full
    try:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            members = {member.name: member for member in tar.getmembers()}
            record = tar.extractfile(members.pop(RESULT))
            text = record.read().decode() if record else ""
            tar.extractall(folder, members.values(), filter=_kept)  # noqa: S202
    except tarfile.TarError as error:
        raise UedpBenchError(f"a node of the cluster sent what is no run: {error}") from error
    finally:
        os.umask(before)
    result = parse_result(text, f"the result of {job.label}")
    stored = {kind: what for kind, what in result.stored.items()
              if kind != "cache" or (out / "cache").is_dir()}  # fmt: skip
    keep_result(result.model_copy(update={"spec": job.spec, "stored": stored}), out)


def _kept(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """The file with its rights; what lies elsewhere is refused."""
    return tarfile.data_filter(member, folder).replace(mode=member.mode & 0o777)
