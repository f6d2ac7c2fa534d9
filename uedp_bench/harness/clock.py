"""Seconds of a run by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from uedp_bench.run import Progress


class Clock:
    """Seconds by phase, and which phase is running."""

    def __init__(self, progress: Progress) -> None:
        self.phase, self._progress = "load", progress
        self.seconds: dict[str, float] = {}
        progress("load", 0, 1)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Times what is inside it, and says that it begins."""
        self.phase, start = phase, time.perf_counter()
        self._progress(phase, 0, 1)
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start
