"""Tasks in processes of their own: one that dies, hangs or exits harms no other.

A process is kept for the next task as long as all goes well; one that died is replaced.
`concurrent.futures` gives all tasks up when one process dies, and cannot end one that hangs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from uedp_bench.files.scratch import scratch_folder
from uedp_bench.fresh_processes import start_fresh

Task = TypeVar("Task")
Done = TypeVar("Done", contravariant=True)
Tell = Callable[[Any], None]
"""Sends something small about a task to the parent process."""

DIED, TIMEOUT = "ProcessDied", "RunTimeout"
"""Kinds of `Crash` beside names of exceptions."""

_LOOK_SECONDS = 0.2
_GOODBYE_SECONDS = 10.0
_MOST_TEXT = 8000


class Work(Protocol[Done]):
    """What processes do. It is pickled and goes to each of them."""

    def start(self) -> None:
        """Prepares a new process."""
        ...

    def __call__(self, task: Done, tell: Tell, /) -> bool:
        """Does one task and keeps what comes of it in files.

        Returns:
            Whether the process is fit for another task.
        """
        ...


@dataclass(frozen=True)
class Crash:
    """How a task ended that did not return.

    Attributes:
        kind: `DIED`, `TIMEOUT` or the name of the exception.
        message: signal, exit code or text of the exception.
        last: what the task told last; None for nothing.
        stack: where Python was, as far as that is known.
    """

    kind: str
    message: str
    last: Any = None
    stack: str = ""


def in_processes(
    work: Work[Task],
    tasks: Iterable[Task],
    *,
    workers: int,
    timeout: float | None = None,
    listen: Callable[[Task, Any], None] = lambda task, told: None,
) -> Generator[tuple[Task, Crash | None], None, None]:
    """Does tasks side by side; yields each as it ends, with the crash that ended it.

    Closing the generator ends all processes at once, and what they started too.

    Args:
        work: what to do.
        tasks: in the order in which they are begun; the next one is asked for when a process is
            free for it, in a thread of this process.
        workers: processes, at most.
        timeout: seconds after which a task is ended; None for any time.
        listen: is called with what tasks tell, in a thread of this process.

    Raises:
        OSError: if a task raised it: the disk is full, or nothing can be written, for all of them.
    """
    pool = _Pool(work, iter(tasks), workers, timeout, listen)
    thread = threading.Thread(target=pool.supervise, daemon=True)
    thread.start()
    try:
        while (ended := pool.ended.get()) is not None:
            if isinstance(ended, BaseException):
                raise ended
            yield ended
    finally:
        pool.stop.set()
        thread.join()


@dataclass(eq=False)
class _Worker(Generic[Task]):
    """A process, and the task that it is doing."""

    process: BaseProcess
    connection: Connection[Any, Any]
    stack: Path
    task: Task | None = None
    began: float = 0.0
    last: Any = None

    def kill(self) -> None:
        """Ends the process and those that it started, which are in its group."""
        pid = self.process.pid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid is not None:
                os.killpg(pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.connection.close()

    def crash(self) -> Crash:
        """The reason why the process is gone."""
        self.process.join()
        code = self.process.exitcode or 0
        text = ""
        with contextlib.suppress(OSError):
            text = self.stack.read_text(encoding="utf-8", errors="replace")[:_MOST_TEXT]
        return Crash(DIED, f"the process of this run {_how_it_ended(code)}", self.last, text)


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code} before the run did"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = "; if the system was out of memory, try fewer --workers" if -code == 9 else ""
    return f"was ended by signal {-code} ({name}){hint}"


@dataclass(eq=False)
class _Pool(Generic[Task]):
    work: Work[Task]
    waiting: Iterator[Task]
    workers: int
    timeout: float | None
    listen: Callable[[Task, Any], None]
    ended: queue.SimpleQueue[tuple[Task, Crash | None] | BaseException | None] = field(
        default_factory=queue.SimpleQueue
    )
    stop: threading.Event = field(default_factory=threading.Event)
    living: list[_Worker[Task]] = field(default_factory=list)
    started: int = 0

    def supervise(self) -> None:
        """Hands tasks out and watches who does them, until all are done or it shall stop."""
        with scratch_folder() as folder:
            try:
                while not self.stop.is_set():
                    self._hand_out(Path(folder))
                    if not (busy := self._busy()):
                        break
                    wait([part for worker in busy for part in
                          (worker.connection, worker.process.sentinel)], _LOOK_SECONDS)  # fmt: skip
                    for worker in busy:
                        self._look_at(worker)
            except BaseException as error:
                self.ended.put(error)
            finally:
                self._end_all()
                self.ended.put(None)

    def _busy(self) -> list[_Worker[Task]]:
        return [worker for worker in self.living if worker.task is not None]

    def _hand_out(self, folder: Path) -> None:
        while len(self._busy()) < self.workers and (found := [*islice(self.waiting, 1)]):
            idle = [worker for worker in self.living if worker.task is None]
            worker = idle[0] if idle else self._start(folder)
            worker.task, worker.last = found[0], None
            worker.began = time.monotonic()
            # One that died meanwhile is found when it is looked at.
            with contextlib.suppress(OSError):
                worker.connection.send(worker.task)

    def _start(self, folder: Path) -> _Worker[Task]:
        here, there = multiprocessing.Pipe()
        stack = folder / f"{self.started}.txt"
        name = f"uedp-bench-{self.started}"
        process = start_fresh(_serve, self.work, there, stack, name=name)
        there.close()  # so that its end is seen when the process is gone
        self.started += 1
        worker: _Worker[Task] = _Worker(process, here, stack)
        self.living.append(worker)
        return worker

    def _look_at(self, worker: _Worker[Task]) -> None:
        # Asked before the last words are read, or those between the two would be lost.
        gone = not worker.process.is_alive()
        self._hear(worker)
        if worker.task is None:
            return
        if gone:
            self._give_up(worker, worker.crash())
        elif self.timeout is not None and time.monotonic() - worker.began > self.timeout:
            said = f"the run took longer than the {self.timeout:g} s that --run-timeout allows"
            self._give_up(worker, Crash(TIMEOUT, said, worker.last))

    def _hear(self, worker: _Worker[Task]) -> None:
        try:
            while worker.task is not None and worker.connection.poll():
                kind, value = worker.connection.recv()
                if kind == "told":
                    if worker.last is None:  # what the start of a process took is not the task's
                        worker.began = time.monotonic()
                    worker.last = value
                    self.listen(worker.task, value)
                elif kind == "done":
                    self.ended.put((worker.task, None))
                    worker.task = None
                    if not value:
                        self._dismiss(worker)
                elif isinstance(value, OSError):
                    raise _Raised(value)
                else:
                    name, message, stack = value
                    self._give_up(worker, Crash(name, message, worker.last, stack))
        except _Raised as raised:
            raise raised.error from None
        except (EOFError, OSError):
            return  # gone, or about to be: its process says how

    def _give_up(self, worker: _Worker[Task], crash: Crash) -> None:
        if worker.task is not None:
            self.ended.put((worker.task, crash))
        worker.task = None
        self._dismiss(worker)

    def _dismiss(self, worker: _Worker[Task]) -> None:
        self.living.remove(worker)
        worker.kill()

    def _end_all(self) -> None:
        if not self.stop.is_set():
            for worker in self.living:
                with contextlib.suppress(OSError):
                    worker.connection.send(None)
            for worker in self.living:
                worker.process.join(_GOODBYE_SECONDS)
        for worker in self.living:
            worker.kill()


class _Raised(Exception):  # noqa: N818
    """Carries an error of a task past the errors of its pipe."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error


# ------------------------------------------------------------------------------ in the process


def _serve(work: Work[Any], connection: Connection[Any, Any], stack: Path) -> None:
    # Ctrl-C reaches the whole group of the terminal; the parent decides what ends.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Standard output belongs to the parent, whose tables and JSON nothing may come between.
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(kind: str, value: Any) -> None:
        with lock:
            connection.send((kind, value))

    with stack.open("w", encoding="utf-8") as file:
        faulthandler.enable(file)
        try:
            work.start()
            while (task := _next(connection)) is not None:
                send("done", work(task, lambda told: send("told", told)))
        except BaseException as error:
            send("raised", _as_sent(error))
        finally:
            sys.stdout.flush()
            faulthandler.disable()


def _next(connection: Connection[Any, Any]) -> Any:
    try:
        return connection.recv()
    except EOFError:
        return None


def _as_sent(error: BaseException) -> OSError | tuple[str, str, str]:
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    said = " ".join(str(error).split())[:_MOST_TEXT]
    name = type(error).__name__
    return name, f"{name}: {said}" if said else name, traceback.format_exc()[-_MOST_TEXT:]


def _end_with_parent() -> None:
    """Ends this process when the parent is gone, killed perhaps, for nobody reads its results."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if os.getpgrp() == os.getpid():  # those that this process started end too
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
