"""The executor of a grid on Ray: one task a run, its files come back into the folder of results.

This process alone writes there. Ray is told to repeat nothing: a run whose node died is given to
it again from here, so that an attempt which nobody waits for any more writes nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from uedp_bench.cluster.connection import (
    LOCAL,
    OnCluster,
    check_nodes,
    check_room,
    connected,
    lost,
    on_every_node,
)
from uedp_bench.cluster.mailbox import Mailbox
from uedp_bench.cluster.named_paths import NamedFiles, named_in, with_paths
from uedp_bench.cluster.node_folder import remove
from uedp_bench.cluster.node_runs import (
    NAMED,
    THREADS,
    KeptFile,
    Order,
    Outcome,
    built,
    do_run,
    result_text,
)
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.files.output_folder import PARTIAL, private_folder, write_atomically
from uedp_bench.harness.named_files import RELEASE, RESULT
from uedp_bench.harness.scheduler import MOST_FAILURES, Job, Runs, default_workers
from uedp_bench.harness.stored import MESSAGES, keep_result
from uedp_bench.harness.workers import DIED, Crash
from uedp_bench.results import parse_result

_MOST_WAITING = 1000
"""Tasks that Ray holds at a time: enough for it to see what is needed."""

_LOOK_SECONDS = 0.3
_LAST_WORDS_SECONDS = 5.0
_GOODBYE_SECONDS = 10.0
LOST = "lost with its machine, and runs again"
"""Phase of a run whose node died."""

Heard = Callable[[Job, Any], None]
Ended = tuple[Job, Crash | None]


@dataclass(frozen=True)
class OnRay:
    """Does the runs of a grid on a cluster of Ray (`uedp_bench.harness.scheduler.Executor`).

    Attributes:
        where: the cluster, and what a run needs.
        note: is told what the user should know.
    """

    where: OnCluster
    note: Callable[[str], None] = lambda line: None

    def __call__(
        self, runs: Runs, todo: Sequence[Job], /, *, timeout: float | None, listen: Heard
    ) -> Generator[Ended, None, None]:
        """See `Executor`."""
        if not todo:
            return
        probe = runs.how.out / f".cluster-{secrets.token_hex(8)}{PARTIAL}"
        with connected(self.where.on, default_workers("cpu")) as ray:
            check_room(ray, self.where, self.note)
            check_nodes(ray, built())
            try:
                probe.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(probe, "")
                order = order_of(runs, todo, probe.name, timeout)
                grid = _Grid(ray, self.where, order, todo, listen)
                try:
                    yield from grid.ended()
                except ConnectionError as error:
                    raise lost(error) from error
                finally:
                    grid.end()
            finally:
                probe.unlink(missing_ok=True)


def order_of(runs: Runs, todo: Sequence[Job], probe: str, timeout: float | None) -> Order:
    """What the machines are told once: files are read for their digests here."""
    named = named_in(job.spec for job in todo)
    names = [(text, named[text]) for text in named]
    names += [(str(file), NamedFiles.of(file)) for file in runs.plugins]
    how = runs.how
    return Order(
        token=secrets.token_hex(16),
        how=replace(how, out=how.out.absolute(), state=how.state and how.state.absolute()),
        probe=probe,
        named=tuple(names),
        plugins=tuple(range(len(named), len(names))),
        timeout=timeout,
        environment={name: os.environ.get(name) for name in THREADS},
        built=built(),
    )


class _Grid:
    """The tasks of a grid.

    Args:
        ray: connected.
        where: what a run needs.
        order: what all runs have in common.
        todo: the jobs.
        listen: hears of progress.
    """

    def __init__(
        self, ray: Any, where: OnCluster, order: Order, todo: Sequence[Job], listen: Heard
    ) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._ray, self._order, self._listen = ray, order, listen
        self._jobs = {job.id: job for job in todo}
        self._waiting, self._flying = deque(todo), dict[Any, Job]()
        self._attempts = dict.fromkeys(self._jobs, 0)
        self._crashes = dict.fromkeys(self._jobs, 0)
        self._last: dict[str, Any] = {}
        self._asked: Any = None
        self._sent: dict[str, list[Any]] = {}
        self._numbers = {text: at for at, (text, _) in enumerate(order.named)
                         if at not in order.plugins}  # fmt: skip
        self._elsewhere = where.on != LOCAL
        self._shared = ray.put(order)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        self._mailbox = ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).options(
            scheduling_strategy=here
        ).remote()  # fmt: skip
        self._task = ray.remote(num_cpus=where.cpus, num_gpus=where.gpus, max_retries=0)(_run)

    def ended(self) -> Generator[Ended, None, None]:
        """Yields each run as it ends."""
        while self._waiting or self._flying:
            while self._waiting and len(self._flying) < _MOST_WAITING:
                self._begin(self._waiting.popleft())
            ready, _ = self._ray.wait([*self._flying], num_returns=1, timeout=_LOOK_SECONDS)
            if ready:
                self._hear(_LAST_WORDS_SECONDS)
            self._hear(_LAST_WORDS_SECONDS if ready else 0)
            for reference in ready:
                job = self._flying.pop(reference)
                crash, known = self._crash_of(job, reference)
                if known:
                    del self._attempts[job.id]
                    yield job, crash

    def _begin(self, job: Job) -> None:
        self._attempts[job.id] += 1
        spec = with_paths(
            job.spec,
            lambda text, mark: f"{NAMED}{self._numbers[text]}" if text in self._numbers else text,
        )
        address = job.id, self._attempts[job.id]
        reference = self._task.remote(
            self._shared, replace(job, spec=spec), self._sent, self._mailbox, address
        )
        self._flying[reference] = job

    def _hear(self, seconds: float) -> None:
        """Passes on what runs told; runs do not wait for a mailbox that is not there yet."""
        if self._asked is None:
            self._asked = self._mailbox.take.remote()
        with suppress(self._ray.exceptions.RayError):
            ready, _ = self._ray.wait([self._asked], timeout=seconds)
            if not ready:
                return
            asked, self._asked = self._asked, None
            for (identifier, attempt), told in self._ray.get(asked):
                if attempt == self._attempts.get(identifier):
                    self._last[identifier] = told
                    self._listen(self._jobs[identifier], told)

    def _crash_of(self, job: Job, reference: Any) -> tuple[Crash | None, bool]:
        """The crash of a run, and True if it has ended; else it was put back."""
        raised = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(reference)
        except raised.OutOfMemoryError:
            said = (
                "the machine of this run was short of memory, and Ray ended the run; with more "
                "--cpus-per-run, fewer are side by side"
            )
            return Crash(DIED, said, self._last.get(job.id)), True
        except raised.RayTaskError as error:
            raise lost(error.cause or error) from error
        except (raised.TaskUnschedulableError, raised.RuntimeEnvSetupError) as error:
            raise lost(error) from error
        except raised.RayError as error:
            return self._lost(job, error)
        if outcome.problem:
            raise UedpBenchError(f"a node of the cluster {outcome.problem}; finished runs are kept")
        if outcome.needs:
            for digest in outcome.needs:
                self._send(digest)
            self._waiting.appendleft(job)
            return None, False
        self._keep(job, outcome.files)
        return outcome.crash, True

    def _lost(self, job: Job, error: Exception) -> tuple[Crash | None, bool]:
        """Puts back a run whose machine died; it has not failed.

        Of a task that died alone nobody can tell whose fault it was: not the run's a few times.
        """
        raised = self._ray.exceptions
        if not isinstance(error, raised.NodeDiedError | raised.ObjectLostError):
            self._crashes[job.id] += 1
            if self._crashes[job.id] >= MOST_FAILURES:
                said = f"the task of this run died {MOST_FAILURES} times ({type(error).__name__})"
                return Crash(DIED, said, self._last.get(job.id)), True
        self._waiting.append(job)
        self._listen(job, (LOST, 0, 1, ()))
        return None, False

    def _send(self, digest: str) -> None:
        """Puts the content of named files where every node can fetch it, once."""
        if digest not in self._sent:
            named = next(each for _, each in self._order.named if each.digest == digest)
            try:
                self._sent[digest] = [self._ray.put(part) for part in named.chunks()]
            except OSError as error:
                raise InputError(f"{named.where} cannot be read any more: {error}") from None

    def _keep(self, job: Job, files: Sequence[KeptFile]) -> None:
        """Writes what a run left into the folder of results, its result last."""
        out = self._order.how.out
        text = result_text(files)
        if text is None:
            return
        folder = out / job.id
        shutil.rmtree(folder / RELEASE, ignore_errors=True)
        for left in ("planted.json", MESSAGES):
            (folder / left).unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        for each in files:
            if each.path != RESULT:
                _write(each, folder)
        for each in reversed(files):  # a folder gets its rights when it is full
            if each.content is None:
                (folder / each.path).chmod(each.mode)
        result = parse_result(text, f"the result of {job.label}")
        stored = {kind: said for kind, said in result.stored.items()
                  if kind != "cache" or (out / "cache").is_dir()}  # fmt: skip
        keep_result(result.model_copy(update={"spec": job.spec, "stored": stored}), out)

    def end(self) -> None:
        """Ends all tasks, and removes what the grid left on nodes."""
        errors = (self._ray.exceptions.RayError, ConnectionError, RuntimeError)
        for reference in self._flying:
            with suppress(*errors):
                self._ray.cancel(reference, force=True)
        with suppress(*errors):
            if self._elsewhere:
                cleaned = on_every_node(self._ray, remove, self._order.token)
                self._ray.wait(cleaned, num_returns=len(cleaned), timeout=_GOODBYE_SECONDS)
            self._ray.kill(self._mailbox)
        remove(self._order.token)


def _write(file: KeptFile, folder: Path) -> None:
    name = PurePosixPath(file.path)
    if name.is_absolute() or ".." in name.parts:
        raise UedpBenchError(f"a node sent a file with the name {file.path!r}")
    path = folder / name
    if file.content is None:
        private_folder(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:  # noqa: PTH123
        out.write(file.content)
    path.chmod(file.mode)


def _run(order: Order, job: Job, sent: Any, mailbox: Any, address: tuple[str, int]) -> Outcome:
    """The task of a run, on a node."""
    return do_run(order, job, sent, lambda told: mailbox.tell.remote(address, told))
