"""Executors compute the updates of a round, in this process or in others.

A round is cut into the same shares, every share is computed by the same code with the seeds that
were drawn for it, and the parts are added in the order of the shares: to the same bits in several
processes of one machine, and to rounding over ranks, each of which adds its own (`ranks`).

Which rule clips a unit is settled before, for all processes alike (`clipping_rule`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from uedp_bench.learner import Learner
from uedp_bench.rank_group import count
from uedp_bench.run_context import Run
from uedp_bench.training.local import LocalWork
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

    What it is given and what comes back can be pickled: weights, limits and shares there, sums and
    counts here. A cluster needs no more.

    Attributes:
        flat: the network of this process, its weights laid out flat.
    """

    flat: FlatModule

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """The sum of all shares of a round, parts added in their order."""
        ...

    def answer(self, what: Any) -> Any:
        """What a trainer answers that takes messages of a kind of its own (`training.visits`)."""
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

    def answer(self, what: Any) -> Any:
        """See `Executor.answer`."""
        return self._worker.answer(what)

    def changed_buffers(self) -> list[str]:
        """See `Executor.changed_buffers`."""
        return self.flat.changed_buffers()


@contextmanager
def executor_of(
    local: LocalWork, learner: Learner, run: Run, injected: tuple[int, ...] = ()
) -> Iterator[Executor]:
    """The executor that `Run.speed` asks for; whatever it started ends with the block.

    Args:
        local: what units do.
        learner: what is trained.
        run: around it.
        injected: users whose updates an audit replaces.
    """
    most = run.speed.chunk
    setup = WorkerSetup(learner, local, run.device, run.seed, injected, most).decided()
    if (several := count()) > 1:
        from uedp_bench.training.ranks import AcrossRanks

        run.computed("ranks", f"{several} ranks, sums in float64")
        with AcrossRanks(setup) as executor:
            yield executor
        return
    if run.speed.processes == 1:
        yield InProcess(setup)
        return
    from uedp_bench.training.process_executor import InProcesses

    with InProcesses(setup, run.speed.processes) as processes:
        yield processes
