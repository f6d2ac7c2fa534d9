"""Measures one `Work` in a process of its own: seconds of a round, memory, and what it asks for.

A measurement is a fork of a process that has imported everything and computed nothing. So it
starts at once, and its memory is its own. Seconds are those of the process' CPU time on one
thread, which other work of the machine moves little; on a GPU they are seconds of the clock.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from cost_counting import Counting, Counts
from cost_workloads import Work, learner_of, parameters_of, train
from turns import peak_mb

from uedp_bench.training.device import choose_device

Found = dict[str, Any]
"""Plain numbers of a measurement."""


def in_a_fork(function: Callable[..., Found], *arguments: Any) -> Found:
    """Calls a function in a process of its own, and returns what it finds.

    Raises:
        RuntimeError: with what it said, if it failed.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def run() -> None:
        try:
            os.environ["TOKENIZERS_PARALLELISM"] = "false"
            torch.set_num_threads(1)
            there.send(function(*arguments))
        except BaseException:
            there.send({"failed": traceback.format_exc()})

    process = context.Process(target=run)
    process.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = {"failed": "the process ended without an answer"}
    process.join()
    if "failed" in found:
        raise RuntimeError(found["failed"])
    return found


class Clock:
    """Seconds of the CPU, or of the clock where a device computes beside it."""

    def __init__(self, device: str) -> None:
        self._gpu = not device.startswith("cpu")

    def __call__(self) -> float:
        """Seconds since some start, after all work that was given so far is done."""
        if self._gpu:
            torch.cuda.synchronize()
            return time.perf_counter()
        return time.process_time()


def _reset_peak() -> float:
    """Starts measuring the peak memory anew; what is held now in MB."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_mb(os.getpid(), "VmRSS")


def one_round(work: Work, device: str, laps: int) -> Found:
    """Seconds of a round (the median of `laps`), peak memory that training adds, parameters."""
    device = choose_device(device, threads=1)
    learner, clock = learner_of(work), Clock(device)
    gpu = not device.startswith("cpu")
    if gpu:
        torch.cuda.reset_peak_memory_stats()
    before = 0.0 if gpu else _reset_peak()
    marks = [clock()]
    train(work, learner, laps + 1, device, lambda: marks.append(clock()))
    peak = torch.cuda.max_memory_allocated() / 1e6 if gpu else peak_mb(os.getpid()) - before
    seconds = [end - start for start, end in pairwise(marks[1:])]
    return {
        "seconds": statistics.median(seconds),
        "memory_mb": round(peak, 1),
        "parameters": parameters_of(learner),
    }


def counted(work: Work) -> Found:
    """Counts calls, FLOPs and bytes of the second round, bytes held, and trained parameters."""
    choose_device("cpu", threads=1)
    learner = learner_of(work)
    seen: list[Counts] = []

    class Marked(Counting):
        def mark(self) -> None:
            seen.append(self.so_far())

    with Marked() as counting:
        train(work, learner, 2, "cpu", counting.mark)
    found = seen[1].plus(seen[0], -1.0)
    parameters = parameters_of(learner)
    return {**asdict(found), "held": counting.peak, "parameters": parameters}
