"""Shares of a round in several processes, added as one process would add them.

Every process is given the learner once, the weights once a round, and one share at a time. Only
this process draws: shares carry the seeds that were drawn for their rows, and the streams of coins
and noise stay here. Clients that draw for themselves are given streams of their own (`Place`), each
of one client and one round.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, NamedTuple

from torch import Tensor

from uedp_bench.errors import UedpBenchError
from uedp_bench.fresh_processes import start_fresh
from uedp_bench.rank_group import Failed
from uedp_bench.training.bounds import Limits
from uedp_bench.training.device import keep_freed_memory
from uedp_bench.training.process_messages import Begin, as_bytes
from uedp_bench.training.unit_sums import (
    RoundWork,
    Share,
    ShareWorker,
    UnitSum,
    WorkerSetup,
    joined,
)
from uedp_bench.training.vector import FlatModule

_GONE_SECONDS = 5.0
"""Waited for the exit code of a process that has closed its end."""


class _Buffers:
    """Asks for the names of changed buffers."""


class _Question(NamedTuple):
    """Asks the trainer of a process something of its own kind."""

    what: Any


class _Rest:
    """Ends a training: nothing of it is kept."""


_idle: list[_Worker] = []
"""Processes that wait for the next training of this one. They end with it, however it ends."""


class InProcesses:
    """An executor in processes, which are this training's alone within the block it is used in.

    Processes are kept for the next training where all went well (audits and references train many
    models); where anything was raised they are ended.

    Args:
        setup: of the training.
        processes: how many.

    Raises:
        InputError: if the learner or the local work cannot be sent to another process.
    """

    def __init__(self, setup: WorkerSetup, processes: int) -> None:
        self.flat = FlatModule(setup.learner.module, setup.device)
        self._begin = Begin.of(setup, "use --processes 1")
        self._count = processes
        self._workers: list[_Worker] = []
        self._asked = 0

    def __enter__(self) -> InProcesses:
        try:
            for number in range(self._count):
                self._workers.append(_rested() or _Worker.started(number))
            for worker in self._workers:
                worker.send(self._begin)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            while error is None and self._workers:
                self._workers[-1].send(_Rest())
                _idle.append(self._workers.pop())
        finally:
            self._end()

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """See `Executor.unit_sum`.

        Raises:
            UedpBenchError: if a process ends before its work does. What a process raises is raised.
        """
        working = self._workers[: len(shares)]
        for worker in working:
            worker.send(work._replace(theta=work.theta.cpu()))
        return joined(self._in_order(shares, working, work.theta), work.theta)

    def answer(self, what: Any) -> Any:
        """See `Executor.answer`: processes answer in turns.

        Raises:
            UedpBenchError: if a process ends before it answers. What a process raises is raised.
        """
        worker = self._workers[self._asked % len(self._workers)]
        self._asked += 1
        worker.send(_Question(what))
        return worker.receive()

    def changed_buffers(self) -> list[str]:
        """See `Executor.changed_buffers`."""
        for worker in self._workers:
            worker.send(_Buffers())
        return [name for worker in self._workers for name in worker.receive()]

    def _in_order(
        self, shares: Sequence[Share], working: Sequence[_Worker], theta: Tensor
    ) -> Iterator[UnitSum]:
        """The sums of all shares, each as soon as those before it are there.

        A process has one share at a time: it never writes while this process writes to it.
        """
        done: dict[int, UnitSum] = {}
        doing: dict[_Worker, int] = {}
        begun = given = 0
        while given < len(shares):
            for worker in working:
                # Sums that wait for an earlier one take memory: nobody runs far ahead.
                if worker not in doing and begun < min(len(shares), given + 2 * len(working)):
                    worker.send(shares[begun])
                    doing[worker] = begun
                    begun += 1
            for worker in _ready(list(doing)):
                found: UnitSum = worker.receive()
                done[doing.pop(worker)] = replace(found, total=found.total.to(theta))
            while given in done:
                yield done.pop(given)
                given += 1

    def _end(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()


def _rested() -> _Worker | None:
    """A process that waits for a training; None if there is none."""
    while _idle:
        worker = _idle.pop()
        if worker.process.is_alive():
            return worker
        worker.end()
    return None


@dataclass(frozen=True, eq=False)
class _Worker:
    """A process as this one sees it."""

    process: BaseProcess
    connection: Connection[Any, Any]

    @staticmethod
    def started(number: int) -> _Worker:
        here, there = multiprocessing.Pipe()
        process = start_fresh(_serve, there, name=f"uedp-bench-updates-{number}", daemon=True)
        there.close()  # so that its end is seen when the process is gone
        return _Worker(process, here)

    def send(self, message: object) -> None:
        """Gives the process a message."""
        try:
            self.connection.send_bytes(as_bytes(message))
        except OSError:
            with contextlib.suppress(OSError):
                while self.connection.poll():  # its last word says more than that it is gone
                    self.receive()
            raise self._gone() from None

    def receive(self) -> Any:
        """The answer of the process; raises what it raised."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        if isinstance(answer, Failed):
            raise answer.again()
        return answer

    def end(self) -> None:
        """Ends the process at once; it holds nothing that is to be kept."""
        self.connection.close()
        self.process.kill()
        self.process.join()

    def _gone(self) -> UedpBenchError:
        """The error to raise for a process that ended."""
        self.process.join(_GONE_SECONDS)
        code = self.process.exitcode
        how = f"ended with exit code {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        hint = "; if the system was out of memory, try fewer --processes" if code == -9 else ""
        return UedpBenchError(f"a process that computed updates {how}{hint}")


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    """Processes that have answered, or are gone; waits for one."""
    by_connection = {worker.connection: worker for worker in workers}
    return [by_connection[ready] for ready in wait(list(by_connection))]  # type: ignore[index]


# ------------------------------------------------------------------------------ in the process


def _serve(connection: Connection[Any, Any]) -> None:
    # Ctrl-C reaches all processes of the terminal; the one that started this decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # standard output belongs to the parent
    try:
        keep_freed_memory()
        while True:
            _train(connection)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # nobody is there to compute for
    except BaseException as error:
        with contextlib.suppress(OSError):
            connection.send_bytes(as_bytes(Failed.of(error)))


def _train(connection: Connection[Any, Any]) -> None:
    """Computes shares until one training ends."""
    begin: Begin = connection.recv()
    setup = begin.read()
    worker = ShareWorker(setup)
    work = RoundWork(worker.trainer.flat.vector, Limits(0.0))
    while not isinstance(message := connection.recv(), _Rest):
        if isinstance(message, RoundWork):
            work = message._replace(theta=message.theta.to(setup.device))
        elif isinstance(message, _Question):
            connection.send_bytes(as_bytes(worker.answer(message.what)))
        elif isinstance(message, _Buffers):
            connection.send_bytes(as_bytes(worker.trainer.flat.changed_buffers()))
        else:
            found = worker.unit_sum(work, message)
            sent = None if found.updates is None else found.updates.cpu()
            found = replace(found, total=found.total.cpu(), updates=sent)
            connection.send_bytes(as_bytes(found))


def _end_with_parent() -> None:
    """Ends this process when its parent is gone, killed perhaps."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
