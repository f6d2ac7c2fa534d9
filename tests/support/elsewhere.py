"""Learners that go wrong in another process, and trainings that do not end by themselves."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from toy import ToyLearner, toy_run

from uedp_bench.corpus import Index
from uedp_bench.errors import InputError
from uedp_bench.learner import Batch, Learner
from uedp_bench.run_context import Run
from uedp_bench.training import federated
from uedp_bench.training.adaptive_bound import AdaptiveBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining, LocalWork
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.process_executor import InProcesses
from uedp_bench.training.sampling import PoissonSampler
from uedp_bench.training.server import SgdServer
from uedp_bench.training.unit_sums import WorkerSetup


def adaptive_plan(rounds: int = 4, **changes: Any) -> Federation:
    """Six users of two rows each, a bound that moves, several local steps."""
    units = Index.build(np.arange(12) // 2, np.arange(12), 6)
    plan = Federation(
        rounds=rounds, units=units, sampler=PoissonSampler(6, 0.8),
        local=LocalTraining(epochs=2, batch_size=1, learning_rate=0.3),
        bound=AdaptiveBound(0.5, 0.5, 5.0, 0.5, 2.0), noise=IndependentGaussian(1.0),
        denominator=5.0, server=SgdServer(),
    )  # fmt: skip
    return replace(plan, **changes)


class InAnotherProcess(ToyLearner):
    """Does something wrong where it is not at home."""

    def __init__(self, wrong: Callable[[], None]) -> None:
        super().__init__(np.ones((12, 3)), [row // 2 for row in range(12)])
        self.wrong = wrong

    def batch(self, rows: Any, seeds: Any) -> Batch:
        if multiprocessing.parent_process() is not None:
            self.wrong()
        return super().batch(rows, seeds)


def die() -> None:
    """Ends the process as the system does that is out of memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def complain() -> None:
    """Refuses the input."""
    raise InputError("row 7 has no points")


def compute_for_ever() -> None:
    """Says where it is, and neither answers nor looks for an end of what it is connected to."""
    sys.stderr.write(f"{os.getpid()}\n")
    sys.stderr.flush()
    while True:
        time.sleep(1.0)


def _one_process(
    local: LocalWork, learner: Learner, run: Run, injected: tuple[int, ...]
) -> InProcesses:
    """An executor of one process: each imports torch, and that is what these trainings cost."""
    return InProcesses(WorkerSetup(learner, local, run.device, run.seed, injected, 1), 1)


def train_again_after_ctrl_c() -> None:
    """Ctrl-C ends the first of two trainings; nothing but a kill ends the second."""
    # A shell that starts this in the background has Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    federated.executor_of = _one_process  # type: ignore[assignment]
    learner = InAnotherProcess(compute_for_ever)
    with contextlib.suppress(KeyboardInterrupt):
        train_federated(adaptive_plan(), learner, toy_run())
    train_federated(adaptive_plan(), learner, toy_run())


if __name__ == "__main__":
    train_again_after_ctrl_c()
