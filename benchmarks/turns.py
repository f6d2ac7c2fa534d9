"""Sides of a benchmark that take turns, each in a fresh process, and their peak memory.

A side is a way of doing the same work. The script that compares sides starts itself once for each
side and turn (`--side NAME`); the process prints one line of JSON, made by `Stopwatch.figures`.
Ratios are taken between sides of the same turn, and the median over the turns is reported, so that
whatever else the machine does falls on all sides.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Figures = dict[str, Any]
"""Figures of one process: `work` done in a lap, seconds of a lap by clock, peak memory in MB."""

_TICKS = os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """Times repeated work of this process and of those that it started.

    Args:
        warm_up: first laps that do not count.
    """

    def __init__(self, warm_up: int = 1) -> None:
        self._warm_up = warm_up
        self.start()

    def start(self) -> None:
        """Begin the first lap: network and rows are there, and no step was taken."""
        self._marks = [_clocks()]
        self._before = peak_mb(os.getpid(), "VmRSS")

    def lap(self) -> None:
        """End a lap and begin the next."""
        self._marks.append(_clocks())

    def figures(self, work: float, **more: Any) -> Figures:
        """The median lap and the peak memory, for `print`.

        Args:
            work: work of a lap (users, rows).
            more: further values for the answer.
        """
        laps = list(
            zip(self._marks[self._warm_up :], self._marks[self._warm_up + 1 :], strict=False)
        )
        if not laps:
            raise ValueError(f"{len(self._marks) - 1} laps, {self._warm_up} of them to warm up")
        mine = os.getpid()
        others = sum(peak_mb(pid) for pid in descendants(mine))
        peak = peak_mb(mine)
        return {
            "work": work,
            "wall": statistics.median(end[0] - start[0] for start, end in laps),
            "cpu": statistics.median(end[1] - start[1] for start, end in laps),
            "peak_mb": round(peak + others, 1),
            "own_peak_mb": round(peak, 1),
            "step_mb": round(peak - self._before, 1),
            **more,
        }


def _clocks() -> tuple[float, float]:
    """Seconds of the clock on the wall, and of the CPU by this process and all below it."""
    below = sum(_cpu_seconds(pid) for pid in descendants(os.getpid()))
    return time.perf_counter(), time.process_time() + below


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they started."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    processes, new = [], [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        processes.extend(new)
    return processes


def peak_mb(pid: int, field: str = "VmHWM") -> float:
    """Most memory that a process has held so far, in MB; 0 if it is gone.

    `VmRSS` is what it holds now. `resource.getrusage` would count what the parent held when it
    forked.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def in_turns(
    script: str, sides: Iterable[str], arguments: Sequence[str], turns: int
) -> dict[str, list[Figures]]:
    """Figures of each side in each turn; a side that cannot run says why in `missing`.

    Args:
        script: path of the script that does the work of one side, called with `--side NAME`.
        sides: names of the sides.
        arguments: arguments of all sides.
        turns: number of processes of each side.
    """
    figures: dict[str, list[Figures]] = {side: [] for side in sides}
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    for _ in range(turns):
        for side, results in figures.items():
            if results and "missing" in results[0]:
                continue
            command = [sys.executable, script, "--side", side, *arguments]
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, check=False
            )
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
                results.append({"missing": f"failed: {reason}"})
                continue
            results.append(json.loads(done.stdout.strip().splitlines()[-1]))
    return figures


def per_second(figures: Figures, clock: str) -> float:
    """Work per second of a clock."""
    return float(figures["work"] / figures[clock])


def ratios(figures: dict[str, list[Figures]], base: str, clock: str) -> dict[str, Figures]:
    """By side: `speed` (that of `base` is 1) and memory, medians over the turns.

    `memory` compares the peaks of whole processes (with all that they started), `step_memory` what
    they added to what they held before the first step.
    """
    out: dict[str, Figures] = {}
    if "missing" in figures[base][0]:
        raise SystemExit(f"{base}: {figures[base][0]['missing']}")
    for side, results in figures.items():
        if "missing" in results[0]:
            out[side] = {"missing": results[0]["missing"]}
            continue
        pairs = list(zip(results, figures[base], strict=True))

        def median(values: Iterable[float]) -> float:
            return round(statistics.median(values), 3)

        out[side] = {
            "speed": median(per_second(a, clock) / per_second(b, clock) for a, b in pairs),
            "memory": median(a["peak_mb"] / b["peak_mb"] for a, b in pairs),
            "step_memory": median(a["step_mb"] / max(b["step_mb"], 1.0) for a, b in pairs),
            "peak_mb": median(a["peak_mb"] for a, _ in pairs),
        }
    return out


def print_ratios(title: str, by_side: dict[str, Figures]) -> None:
    """A table for people."""
    print(title)
    print(f"  {'':34}{'speed':>9}{'memory':>9}{'of steps':>10}{'peak MB':>9}")
    for side, row in by_side.items():
        if "missing" in row:
            print(f"  {side:34}  {row['missing']}")
            continue
        values = f"{row['speed']:>9.2f}{row['memory']:>9.2f}{row['step_memory']:>10.2f}"
        print(f"  {side:34}{values}{row['peak_mb']:>9.0f}")


def missing(package: str, install: str) -> Figures | None:
    """Message of a side in place of figures if a package that it needs is not installed."""
    if find_spec(package) is not None:
        return None
    return {"missing": f"not installed: {install}"}


def arguments(parser: argparse.ArgumentParser, models: Sequence[str]) -> None:
    """Add the options that all of these benchmarks have."""
    parser.add_argument("--turns", type=int, default=3, help="processes of each side")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall",
                        help="seconds on the wall, or of the CPU if other work runs")  # fmt: skip
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--models", default=",".join(models), help="by commas")
    parser.add_argument("--threads", type=int, default=1, help="threads of a process on the CPU")
    parser.add_argument("--quick", action="store_true", help="sizes that only show that it runs")
    parser.add_argument("--sides", default="", help="some of the sides, by commas; default: all")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--side", default="", help=argparse.SUPPRESS)


def chosen(options: argparse.Namespace, sides: Sequence[str]) -> list[str]:
    """The sides that `--sides` names, the first one always: it is what others are compared with."""
    named = [name for name in options.sides.split(",") if name]
    if unknown := sorted(set(named) - set(sides)):
        raise SystemExit(f"--sides {unknown[0]!r} is not one of {', '.join(sides)}")
    return [side for side in sides if not named or side in named or side == sides[0]]
