"""Executors compute the updates of a round, in this process or in others.

A round is cut into the same shares, every share is computed by the same code with the seeds that
were drawn for it, and the parts are added in the order of the shares: to the same bits in several
processes of one machine, and to rounding over ranks, each of which adds its own (`ranks`).

One thing is settled by each process from the first rows that it sees: that gradients may be told
apart by row (`ghost`). Where almost all first gradients are 0 or not finite, last digits may
differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds of it, for a training that goes on to the same bits."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
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

    def state_dict(self) -> dict[str, Any]:
        """See `Executor.state_dict`."""
        return self._worker.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Executor.load_state_dict`."""
        self._worker.load_state_dict(state)

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
    setup = WorkerSetup(learner, local, run.device, run.seed, injected, most)
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
