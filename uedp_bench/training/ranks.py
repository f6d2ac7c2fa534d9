"""One training over several devices, on one machine or many: ranks of `torch.distributed`.

`torchrun --nproc-per-node N -m uedp_bench run SPEC` starts N processes. Rank 0 is the run: it
draws, adds noise, steps, scores, and writes. All other ranks compute shares of its rounds, and know
of a training what processes of `--processes` know: the learner, the weights of a round, and the
rows and seeds of their shares, with streams of their own for clients that draw for themselves.

Sums are added in float64, on each rank and over all of them, so that a training ends where that of
one process does, to rounding.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from uedp_bench.rank_group import (
    Call,
    Failed,
    Fetch,
    RankGoneError,
    all_there,
    answer,
    by_itself,
    connected,
    count,
    gathered,
    number,
    told,
)
from uedp_bench.training.bounds import Limits
from uedp_bench.training.device import keep_freed_memory
from uedp_bench.training.process_messages import Begin
from uedp_bench.training.unit_sums import (
    RoundWork,
    Share,
    ShareWorker,
    UnitSum,
    WorkerSetup,
    joined,
)


class _Round(NamedTuple):
    """What a round asks of all ranks; the weights follow.

    Attributes:
        size, dtype, kind: of the weights, and the kind of device that all ranks compute on.
        limits, keep_updates: see `RoundWork`.
        shares: of each rank, with their numbers in the round.
    """

    size: int
    dtype: torch.dtype
    kind: str
    limits: Limits
    keep_updates: bool
    shares: list[list[tuple[int, Share]]]


class _Buffers:
    """Asks for the names of changed buffers."""


class _Rest:
    """Ends a training."""


class _End:
    """Ends the program."""


def as_rank(command: Callable[[], int]) -> int:
    """Runs a command on rank 0, and computes for it on all others.

    Returns:
        The exit code of the command; 0 on all others.
    """
    with connected():
        if number():
            serve()
            return 0
        code = command()
        if code != 128 + signal.SIGINT:  # who was interrupted may not be listened to any more
            told(_End())
        return code


def serve() -> None:
    """Computes for rank 0 until it says that the program ends, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 decides what ends
    keep_freed_memory()
    try:
        while not isinstance(message := told(), _End):
            if isinstance(message, Call | Fetch):
                answer(message)
            elif isinstance(message, Begin):
                _train(message)
            else:
                from uedp_bench.training.sharded.worker import follow

                follow(message)
    except RankGoneError:
        return


class AcrossRanks:
    """An executor over all ranks, this one among them. For rank 0 alone.

    Args:
        setup: of the training.

    Raises:
        InputError: if the learner or the local work cannot be sent to another process.
    """

    def __init__(self, setup: WorkerSetup) -> None:
        self._worker = ShareWorker(setup)
        self.flat = self._worker.trainer.flat
        self._begin = Begin.of(setup, "run it in one process")

    def __enter__(self) -> AcrossRanks:
        told(self._begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):  # ranks are where they were
            told(_Rest())

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """See `Executor.unit_sum`.

        Raises:
            RankGoneError: if a rank ended. What a rank raises is raised.
        """
        theta, dealt = work.theta, deal(shares, count())
        kind = theta.device.type
        told(_Round(len(theta), theta.dtype, kind, work.limits, work.keep_updates, dealt))
        with all_there():
            dist.broadcast(theta, 0)
        of_ranks, total = _computed(self._worker, work, dealt[0])
        for one in of_ranks:
            if isinstance(one, Failed):
                raise one.again()
        numbered = sorted((part for one in of_ranks for part in one), key=lambda part: part[0])
        found = joined((part for _, part in numbered), theta)
        return replace(found, total=total.to(theta))

    def answer(self, what: Any) -> Any:
        """See `Executor.answer`: who is asked one by one is asked here."""
        return self._worker.answer(what)

    def changed_buffers(self) -> list[str]:
        """See `Executor.changed_buffers`."""
        told(_Buffers())
        return [name for names in gathered(self.flat.changed_buffers()) for name in names]


def deal(shares: Sequence[Share], ranks: int) -> list[list[tuple[int, Share]]]:
    """The shares of each rank with their numbers; large ones are cut, so that all have some.

    A share has units of similar size. Units of a share depend on nobody beside them, and those that
    were cut apart keep their order.
    """
    whole = sum(len(share.weights) for share in shares)
    most = max(1, -(-whole // ranks))
    cut = []
    for share in shares:
        parts = np.array_split(np.arange(len(share.weights)), -(-len(share.weights) // most))
        if len(parts) == 1:
            cut.append(share)
            continue
        cut += [Share(share.cohort.take(part), share.weights[part]) for part in parts]
    found: list[list[tuple[int, Share]]] = [[] for _ in range(ranks)]
    for at, share in enumerate(cut):  # shares grow from first to last
        found[at % ranks].append((at, share))
    return found


# ----------------------------------------------------------------------------- on every rank


def _train(begin: Begin) -> None:
    """Computes for one training, on a rank other than 0."""
    worker: ShareWorker | Failed
    try:
        setup = begin.read()
        here = torch.device(setup.device).type  # of this rank, whatever number rank 0 has
        worker = ShareWorker(replace(setup, device=here))
    except Exception as error:
        worker = Failed.of(error)
    while not isinstance(message := told(), _Rest):
        if isinstance(message, _Round):
            theta = torch.empty(message.size, dtype=message.dtype, device=message.kind)
            with all_there():
                dist.broadcast(theta, 0)
            work = RoundWork(theta, message.limits, message.keep_updates)
            _computed(worker, work, message.shares[number()])
        elif isinstance(message, Begin):  # a training within a training
            _train(message)
        elif isinstance(message, Call | Fetch):
            answer(message)
        else:
            gathered([] if isinstance(worker, Failed) else worker.trainer.flat.changed_buffers())


def _computed(
    worker: ShareWorker | Failed, work: RoundWork, mine: Sequence[tuple[int, Share]]
) -> tuple[list[Any], Tensor]:
    """What each rank found, share by share without their sums, and the sum of all in float64.

    Both are there for rank 0 alone. Whatever goes wrong on a rank, it meets all others here.
    """
    total = torch.zeros_like(work.theta, dtype=torch.float64)
    found: list[tuple[int, UnitSum]] = []
    failed = None
    try:
        if isinstance(worker, Failed):
            raise worker.again()
        for at, share in mine:
            with by_itself():
                part = worker.unit_sum(work, share)
            total += part.total
            sent = None if part.updates is None else part.updates.cpu()
            found.append((at, replace(part, total=part.total.new_empty(0), updates=sent)))
            del part
    except Exception as error:
        failed = Failed.of(error)
    of_ranks = gathered(failed or found)
    with all_there():
        dist.reduce(total, 0)
    return of_ranks, total
