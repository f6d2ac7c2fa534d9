"""Files of strangers are checked in a process of its own, which may take its time and memory only.

Accountants compute for as long as events ask them to, and a file may ask for more than there is.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import TracebackType

from uedp_bench import registry
from uedp_bench.leaderboard.bundles import Line
from uedp_bench.leaderboard.validation.report import Report, error, place_of

SECONDS = 120.0
"""Time for one file; the slowest reference results take four."""

BYTES = 4 * 2**30
"""Memory beside what the process starts with, where the system can limit it."""

Check = Callable[[Path | Line], Report]


class Guard:
    """Calls a check in another process, which is started again after it had to be stopped.

    Args:
        check: a function of a module.
        plugins: files to import in the process.
        seconds: for one file.
    """

    def __init__(
        self, check: Check, plugins: Sequence[Path] = (), seconds: float = SECONDS
    ) -> None:
        self._check, self._plugins, self._seconds = check, tuple(plugins), seconds
        self._running: tuple[SpawnProcess, Connection] | None = None

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def __call__(self, file: Path | Line) -> Report:
        """The report of the check, or one that says how the check ended too early."""
        try:
            _, connection = self._running = self._running or self._start()
            connection.send(file)
            if connection.poll(self._seconds):
                report: Report = connection.recv()
                return report
            what = f"takes more than {self._seconds:g} seconds"
        except (EOFError, OSError):
            what = "ended the process that checks it, for want of memory perhaps"
        self._stop()
        problem = error("", f"could not be checked: it {what}; no honest result does")
        return Report(path=place_of(file), problems=(problem,))

    def _start(self) -> tuple[SpawnProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(
            target=_serve, args=(there, self._check, self._plugins), daemon=True
        )
        process.start()
        there.close()
        here.recv()  # It is ready: the time of its imports does not count.
        return process, here

    def _stop(self) -> None:
        if self._running is not None:
            process, connection = self._running
            self._running = None
            connection.close()
            process.kill()
            process.join()


def _serve(connection: Connection, check: Check, plugins: Sequence[Path]) -> None:
    """The other process: a report for every path, until the parent closes its end."""
    # Ctrl-C reaches the whole group; the parent decides what ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    registry.load_plugins(plugins)
    _limit_memory()
    connection.send(True)
    with suppress(EOFError):
        while True:
            connection.send(check(connection.recv()))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(ValueError, OSError):  # macOS has no such file, and refuses
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = pages * resource.getpagesize() + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
