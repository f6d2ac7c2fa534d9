"""Curves that move: MLflow gets the points of series, and how busy the machine is, as runs train.

`result.json` is the truth, and its points are logged when a run ends, as far as they are not there.
So nothing here has to succeed, and nothing here may hold up a training: points wait in a queue that
forgets the oldest, and a thread sends them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from uedp_bench.errors import TrackingError
from uedp_bench.harness.scheduler import JobProgress
from uedp_bench.harness.system_metrics import SystemMetrics
from uedp_bench.harness.tracking import LiveRun
from uedp_bench.harness.tracking_client import RETRY_SECONDS
from uedp_bench.harness.tracking_grid import GridRun
from uedp_bench.results import RunSpec

SECONDS = 5.0
"""Points are sent no more often."""

_MOST_WAITING = 100_000


class LiveMetrics:
    """Sends points of the runs of a command to MLflow, within the block that it is used in.

    A server that fails is told of once, and left alone for a minute each time. Points that it did
    not take are logged with the result.

    Args:
        specs: of the runs, by id.
        where: any MLflow tracking URI, and the name of the experiment.
        warn: is called with why points are not sent any more, in another thread.
        seconds: between two sendings.
        grid: that the runs belong to.
        machine: send how busy this machine is, too, for it does the runs.

    Attributes:
        sending: is held while something is sent: hold it to log the result of a run.
    """

    def __init__(
        self,
        specs: Mapping[str, RunSpec],
        where: tuple[str, str],
        warn: Callable[[str], None],
        seconds: float = SECONDS,
        grid: GridRun | None = None,
        *,
        machine: bool = True,
    ) -> None:
        self.sending = threading.Lock()
        self._specs, self._where, self._grid = dict(specs), where, grid
        self._warn, self._seconds = warn, seconds
        self._waiting: deque[tuple[str, str, int, float, int]] = deque(maxlen=_MOST_WAITING)
        self._runs: dict[str, LiveRun] = {}
        self._began: dict[str, int] = {}
        self._machine = SystemMetrics() if machine else None
        self._stop, self._failed, self._again = threading.Event(), False, 0.0
        self._thread = threading.Thread(target=self._send_now_and_then, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        with suppress(TrackingError):  # the next command ends them
            for run in self._runs.values() if not self._again else ():
                run.interrupted()

    def hear(self, message: JobProgress) -> None:
        """Takes the points of a message; it costs next to nothing."""
        if message.id in self._specs:
            now = round(1000 * time.time())
            self._began.setdefault(message.id, now)
            self._waiting.extend((message.id, *point, now) for point in message.points)

    def ended(self, identifier: str) -> None:
        """Sends no more of a run, whose result is logged next."""
        self._specs.pop(identifier, None)
        with self.sending:
            self._began.pop(identifier, None)
            self._runs.pop(identifier, None)

    def _send_now_and_then(self) -> None:
        while not self._stop.wait(self._seconds):
            if time.monotonic() < self._again:
                continue
            points: dict[str, list[tuple[str, int, float, int]]] = {}
            while self._waiting:
                identifier, name, step, value, at = self._waiting.popleft()
                points.setdefault(identifier, []).append((name, step, value, at))
            machine = self._machine.sample() if self._began and self._machine else {}
            for identifier, began in list(self._began.items()):
                self._send(identifier, began, points.get(identifier, []), machine)

    def _send(
        self,
        identifier: str,
        began: int,
        points: list[tuple[str, int, float, int]],
        machine: Mapping[str, float],
    ) -> None:
        with self.sending:
            spec = self._specs.get(identifier)
            gone = time.monotonic() < self._again
            if spec is None or gone or self._stop.is_set():
                return
            try:
                if identifier not in self._runs:
                    run = LiveRun(identifier, spec, self._where, began, self._grid)
                    self._runs[identifier] = run
                if points:
                    self._runs[identifier].log(points)
                if machine:
                    self._runs[identifier].log_machine(machine)
                self._again = 0.0
            except (TrackingError, OSError) as error:
                self._again = time.monotonic() + RETRY_SECONDS
                if not self._failed:
                    self._failed = True
                    self._warn(f"{error}; metrics are logged when the runs have ended")
