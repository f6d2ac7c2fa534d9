"""Execution of a run: its settings, never what is run, and its costs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from uedp_bench.contracts.checkpoints import Pace
from uedp_bench.contracts.run_context import Points, Progress, Speed, no_points, no_progress


@dataclass(frozen=True)
class Execution:
    """Settings of an execution; none of them enters a run's identity.

    Attributes:
        out: folder of results; a run writes into `out/<id>/`.
        device: "auto", "cpu", "cuda" or any torch device.
        failures: number of earlier failures of the run, other than on bad input.
        keep_release: True to keep the release beside the result, and checkpoints of a run that
            failed.
        state: folder of checkpoints and of models that runs share, where they are kept whatever
            `keep_release` says; None: `out`.
        pace: interval between checkpoints of a training.
        points: receiver of the series of a run while it trains.
    """

    out: Path
    device: str = "auto"
    speed: Speed = field(default_factory=Speed)
    progress: Progress = no_progress
    failures: int = 0
    keep_release: bool = True
    state: Path | None = None
    pace: Pace = field(default_factory=Pace)
    points: Points = no_points

    @property
    def state_folder(self) -> Path:
        """Folder of checkpoints, by run, and of models that runs share."""
        return self.out if self.state is None else self.state

    @property
    def keeps_checkpoints(self) -> bool:
        """True if checkpoints of a run that failed are kept."""
        return self.keep_release or self.state is not None


class Meter:
    """Measures a run, and knows which phase it is in.

    Attributes:
        phase: phase that began last.
        seconds: seconds by phase.
        started: time of its creation, UTC.
    """

    def __init__(self, progress: Progress) -> None:
        self.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.phase, self._progress = "load", progress
        self.seconds: dict[str, float] = {}
        self._processor = time.process_time()
        self._memory, self._device = _PeakMemory(), "cpu"
        progress("load", 0, 1)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time a block, and report that it begins."""
        self.phase, start = phase, time.perf_counter()
        self._progress(phase, 0, 1)
        yield
        self.add(phase, time.perf_counter() - start)

    def add(self, phase: str, seconds: float) -> None:
        """Add to the seconds of a phase."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def begin(self, device: str) -> None:
        """Measure memory from here on, of this device."""
        self._device = device
        self._memory.reset(device)

    def cost(self) -> dict[str, Any]:
        """Seconds by phase and of the processor, peak memory, device: fields of a result's cost."""
        seconds = {f"{phase}_seconds": round(s, 3) for phase, s in self.seconds.items()}
        peak = self._memory.peak_mb(self._device)
        spent = round(time.process_time() - self._processor, 3)
        return {**seconds, "cpu_seconds": spent, "peak_memory_mb": peak, "device": self._device}


class _PeakMemory:
    """Peak memory of a run: of the GPU where it trains on one, else of this process (Linux)."""

    def reset(self, device: str) -> None:
        """Start measuring. Where the kernel does not allow it, the process' peak counts."""
        if device.startswith("cuda"):
            import torch

            # A device by its number is unknown before.
            torch.cuda.init()  # type: ignore[no-untyped-call]
            torch.cuda.reset_peak_memory_stats(device)
            return
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return

    def peak_mb(self, device: str) -> float:
        """Peak since `reset`, in MB (10^6 bytes)."""
        if device.startswith("cuda"):
            import torch

            return round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
        return round(_high_water_mark() / 1e6, 1)


def _high_water_mark() -> int:
    """Bytes of memory that this process held at most, since the last reset where there is one."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        status = []
    for line in status:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
