"""Executors compute the updates of a round, in this process or over ranks (`ranks`).

A round is cut into the same shares, and every share is computed by the same code with the seeds
that were drawn for it. Each rank adds its own, so that sums agree to rounding.

Which rule clips a unit is settled before, for all ranks alike (`clipping_rule`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.training.local import LocalWork
from uedp_bench.training.rank_group import world_size
from uedp_bench.training.unit_sums import (
    RoundWork,
    Share,
    ShareWorker,
    UnitSum,
    WorkerSetup,
    joined,
)
from uedp_bench.training.vector import FlatModule


class Executor(Protocol):
    """Policy: computes the shares of rounds.

    Attributes:
        flat: the network of this process, its weights laid out flat.
    """

    flat: FlatModule

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """The sum of all shares of a round, parts added in their order."""
        ...

    def changed_buffers(self) -> list[str]:
        """Names of buffers that hold statistics of private inputs (`FlatModule`), anywhere."""
        ...


class InProcess:
    """Computes one share after the other, here."""

    def __init__(self, setup: WorkerSetup) -> None:
        self._worker = ShareWorker(setup)
        self.flat = self._worker.trainer.flat

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """See `Executor.unit_sum`."""
        return joined((self._worker.unit_sum(work, share) for share in shares), work.theta)

    def changed_buffers(self) -> list[str]:
        """See `Executor.changed_buffers`."""
        return self.flat.changed_buffers()


@contextmanager
def executor_of(
    local: LocalWork, learner: Learner, run: Run, injected: tuple[int, ...] = ()
) -> Iterator[Executor]:
    """The executor over all ranks of the run, or in this process where it is alone.

    Args:
        local: settings of a unit's training.
        learner: learner that is trained.
        run: around it.
        injected: users whose updates an audit replaces.
    """
    most = run.speed.chunk
    setup = WorkerSetup(learner, local, run.device, run.seed, injected, most).decided()
    if (ranks := world_size()) == 1:
        yield InProcess(setup)
        return
    from uedp_bench.training.ranks import AcrossRanks

    run.computed("ranks", f"{ranks} ranks, sums in float64")
    with AcrossRanks(setup) as executor:
        yield executor
