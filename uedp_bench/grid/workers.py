"""Tasks in processes of their own: one that dies, hangs or exits harms no other.

A process is kept for the next task as long as all goes well; one that died is replaced. Pools of
libraries do less: `concurrent.futures` and loky give all tasks up when one process dies,
`pebble.ProcessPool` waits for ever for one that calls `os._exit(0)`, breaks when one is killed
between two tasks, and leaves behind what a process started.
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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, Protocol, TypeVar

from uedp_bench.io.fresh_processes import OF_RUNS, start_fresh

Task = TypeVar("Task")
Done = TypeVar("Done", contravariant=True)
Tell = Callable[[Any], None]
"""Sends something small about a task to the parent process."""

DIED, TIMEOUT = "ProcessDied", "RunTimeout"
"""Kinds of `Crash` beside names of exceptions."""

_LOOK_SECONDS = 0.2
_START_SECONDS = 120.0
"""Time for a process to begin with its first task, beside that of the task."""
_GOODBYE_SECONDS = 10.0
_MOST_TEXT = 8000

_PROCESS_TABLE = threading.Lock()
"""Whoever starts a process asks after all others: in two threads, an exit code would be lost."""


class Work(Protocol[Done]):
    """Work of processes. It is pickled and goes to each of them."""

    def start(self) -> None:
        """Prepare a new process."""
        ...

    def __call__(self, task: Done, tell: Tell, /) -> bool:
        """Do one task and keep its outcome in files.

        Returns:
            Whether the process is fit for another task.
        """
        ...


@dataclass(frozen=True)
class Crash:
    """End of a task that did not return.

    Attributes:
        kind: `DIED`, `TIMEOUT` or the name of the exception.
        message: signal, exit code or text of the exception.
        last: last message of the task; None for none.
        stack: position of Python, as far as that is known.
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
    listen: Callable[[Task, Any], None] = lambda task, message: None,
) -> Generator[tuple[Task, Crash | None], None, None]:
    """Do tasks side by side; yield each as it ends, with the crash that ended it.

    Closing the generator ends all processes at once, and what they started too.

    Args:
        work: work of the processes.
        tasks: tasks, in the order in which they begin.
        workers: largest number of processes.
        timeout: seconds after which a task is ended; None for any time.
        listen: function called with messages of tasks, in threads of this process.

    Raises:
        OSError: if a task raised it: the disk is full, or nothing can be written, for all of them.
    """
    ended: queue.SimpleQueue[tuple[Task, Crash | None] | BaseException | None]
    ended, waiting, stop = queue.SimpleQueue(), iter([*tasks]), threading.Event()

    def look_after_one() -> None:
        process = KeptProcess(work, timeout, stop=stop)
        try:
            for task in waiting:  # of a list, which threads may share
                ended.put((task, process.do(task, partial(listen, task))))
            process.end(0.0 if stop.is_set() else _GOODBYE_SECONDS)
        except BaseException as error:
            ended.put(error)
        finally:
            process.end()
            ended.put(None)

    threads: list[threading.Thread] = []
    try:
        for _ in range(workers):  # the system may refuse any of them
            thread = threading.Thread(target=look_after_one)
            thread.start()
            threads.append(thread)
        for _ in threads:
            while (outcome := ended.get()) is not None:
                if isinstance(outcome, BaseException):
                    raise outcome
                yield outcome
    finally:
        stop.set()
        for thread in threads:
            thread.join()


class KeptProcess(Generic[Task]):
    """A process that does tasks one after the other; another takes its place when it dies.

    Args:
        work: work of the process.
        timeout: seconds after which a task is ended; None for any time.
        stop: ends the task in hand when it is set.
        imports: modules that it begins with.
    """

    def __init__(
        self,
        work: Work[Task],
        timeout: float | None = None,
        *,
        stop: threading.Event | None = None,
        imports: Sequence[str] = OF_RUNS,
    ) -> None:
        self._work, self._timeout, self._imports = work, timeout, imports
        self._stop = stop or threading.Event()
        self._process: BaseProcess | None = None
        self._begun = False

    def do(self, task: Task, tell: Tell = lambda message: None) -> Crash | None:
        """Do a task, and return the crash that ended it, if one did.

        Args:
            task: task to do.
            tell: function called with messages of the task.

        Raises:
            OSError: if the task raised it.
        """
        kept = self._process is not None
        crash = self._attempt(task, tell)
        if kept and crash is not None and crash.kind == DIED and not self._begun:
            return self._attempt(task, tell)  # it was killed since its last task
        return crash

    def _attempt(self, task: Task, tell: Tell) -> Crash | None:
        self._begun = False
        if self._is_stopped():
            return Crash(DIED, "the run was stopped")
        process = self._process = self._process or self._started()
        began, last, fit = time.monotonic() + _START_SECONDS, None, False
        try:
            with contextlib.suppress(OSError):  # one that died meanwhile is found below
                self._connection.send(task)
            while not self._is_stopped():
                wait([self._connection, process.sentinel], _LOOK_SECONDS)
                gone = _is_gone(process)  # before the last words are read, or some would be lost
                for message in self._messages():
                    match message:
                        case "begins", _:  # what the start of a process took is not the task's
                            began, self._begun = time.monotonic(), True
                        case "told", last:
                            with contextlib.suppress(OSError):  # a closed terminal ends no task
                                tell(last)
                        case "done", fit:
                            return None
                        case "raised", OSError() as error:
                            raise error
                        case "raised", Crash() as crash:
                            return replace(crash, last=last)
                if gone:
                    return Crash(DIED, _how_it_ended(process), last, self._stack())
                if self._timeout is not None and time.monotonic() - began > self._timeout:
                    allowed = f"the {self._timeout:g} s that --run-timeout allows"
                    return Crash(TIMEOUT, f"the run took longer than {allowed}", last)
            return Crash(DIED, "the run was stopped", last)
        finally:
            if not fit:
                self.end()

    def end(self, seconds: float = 0.0) -> None:
        """End the process, and those that it started: they are in its group.

        Args:
            seconds: seconds that it has to end by itself.
        """
        process, self._process = self._process, None
        if process is None or process.pid is None:
            return
        self._connection.close()
        self._faults.close()
        wait([process.sentinel], seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with _PROCESS_TABLE:
            process.kill()
            process.join()

    def _is_stopped(self) -> bool:
        # A second Ctrl-C may end the main thread before it sets the event.
        return self._stop.is_set() or not threading.main_thread().is_alive()

    def _started(self) -> BaseProcess:
        self._connection, child_connection = multiprocessing.Pipe()
        self._faults, write = multiprocessing.Pipe(duplex=False)
        with (
            _PROCESS_TABLE,
            child_connection,
            write,
        ):  # closed here, their ends are seen when it is gone
            return start_fresh(_serve, self._work, child_connection, write, imports=self._imports)

    def _messages(self) -> Iterator[Any]:
        with contextlib.suppress(EOFError, OSError):  # it is gone, or about to be
            while self._connection.poll():
                yield self._connection.recv()

    def _stack(self) -> str:
        """Position of Python when native code ended the process; "" if none did."""
        with contextlib.suppress(OSError):
            if self._faults.poll():
                return os.read(self._faults.fileno(), _MOST_TEXT).decode("utf-8", "replace")
        return ""


def _is_gone(process: BaseProcess) -> bool:
    with _PROCESS_TABLE:
        return not process.is_alive()


def _how_it_ended(process: BaseProcess) -> str:
    code = process.exitcode or 0
    if code >= 0:
        return f"the process of this run ended with exit code {code} before the run did"
    names = {each.value: each.name for each in signal.Signals}
    hint = "; if the system was out of memory, try fewer --workers" if code == -9 else ""
    name = names.get(-code, "unknown")
    return f"the process of this run was ended by signal {-code} ({name}){hint}"


# ------------------------------------------------------------------------------ in the process


def _serve(work: Work[Any], connection: Connection[Any, Any], faults: Connection[Any, Any]) -> None:
    # Ctrl-C reaches the whole group of the terminal; the parent decides what ends.
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Standard output belongs to the parent, whose tables and JSON nothing may come between.
    os.dup2(2, 1)
    os.set_blocking(faults.fileno(), False)  # what does not fit is cut off
    faulthandler.enable(faults.fileno())
    lock = threading.Lock()

    def send(kind: str, value: Any = None) -> None:
        with lock:
            connection.send((kind, value))

    try:
        work.start()
        for task in _tasks(connection):
            send("begins")
            fit = work(task, partial(send, "told"))
            sys.stdout.flush()  # whoever ends the process does not wait for that
            send("done", fit)
    except BaseException as error:
        send("raised", _as_sent(error))
    finally:
        sys.stdout.flush()
        faulthandler.disable()


def _tasks(connection: Connection[Any, Any]) -> Iterator[Any]:
    with contextlib.suppress(EOFError, ConnectionError):  # the parent needs no more
        while True:
            yield connection.recv()


def _as_sent(error: BaseException) -> OSError | Crash:
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    text = " ".join(str(error).split())[:_MOST_TEXT]
    name = type(error).__name__
    message = f"{name}: {text}" if text else name
    return Crash(name, message, stack=traceback.format_exc()[-_MOST_TEXT:])


def _end_with_parent() -> None:
    """End this process when the parent is gone, killed perhaps, for nobody reads its results."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if os.getpgrp() == os.getpid():  # those that this process started end too
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
