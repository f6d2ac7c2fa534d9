"""Executors of a training's rounds: in this process, or over ranks of `torch.distributed`.

A round is cut into the same shares, and every share is computed by the same code with the seeds
that were drawn for it. Which rule clips a unit is settled before, for all ranks alike
(`clipping_rule`).

`torchrun --nproc-per-node N -m uedp_bench run SPEC` starts N processes. Rank 0 is the run: it
draws, adds noise, steps, scores, attacks, and writes. All other ranks compute shares of its rounds.
They hold the learner, the weights of a round, and the rows and seeds of their shares, with streams
of their own for clients that draw for themselves, each of one client and one round.

Sums are added in float64, on each rank and over all of them, so that a training ends where that of
one process does, to rounding.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from uedp_bench.components.registry import load_plugins, loaded_plugins
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.errors import InputError
from uedp_bench.training.bounds import Limits
from uedp_bench.training.device import keep_freed_memory
from uedp_bench.training.local import LocalWork
from uedp_bench.training.rank_group import (
    Failure,
    RankGoneError,
    all_present,
    alone,
    broadcast,
    connected,
    gather,
    rank,
    world_size,
)
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

    run.computed("ranks", f"{ranks} ranks, sums in float64")
    with AcrossRanks(setup) as executor:
        yield executor


class _Begin(NamedTuple):
    """Begins a training.

    Attributes:
        threads: number of torch threads of rank 0.
        plugins: files, imported before what they define can be read.
        setup: a pickled `WorkerSetup`.
    """

    threads: int
    plugins: tuple[Path, ...]
    setup: bytes


class _Round(NamedTuple):
    """Asks all ranks for their sums of a round; the weights follow.

    Attributes:
        size, dtype, kind: size and type of the weights, and the kind of device that all ranks
            compute on.
        limits, keep_updates: see `RoundWork`.
        shares: shares of each rank, with their numbers in the round.
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
    """Run a command on rank 0, and compute for it on all others.

    Returns:
        The exit code of the command; 0 on all others.
    """
    with connected():
        if rank():
            serve()
            return 0
        code = command()
        if code != 128 + signal.SIGINT:  # who was interrupted may not be listened to any more
            with suppress(RankGoneError):  # the work is done, and a rank may have died since
                broadcast(_End())
        return code


def serve() -> None:
    """Compute for rank 0 until the program ends, or rank 0 is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 decides what ends
    keep_freed_memory()
    try:
        while isinstance(message := broadcast(), _Begin):
            _train(message)
    except RankGoneError:
        return


class AcrossRanks:
    """An executor over all ranks, this one among them. For rank 0 alone.

    Args:
        setup: setup of the training.

    Raises:
        InputError: if the learner or the local work cannot be sent to another process.
    """

    def __init__(self, setup: WorkerSetup) -> None:
        self._worker = ShareWorker(setup)
        self.flat = self._worker.trainer.flat
        try:
            pickled = pickle.dumps(setup, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InputError(
                f"what is trained cannot be sent to another rank ({error}); run it in one process"
            ) from error
        self._begin = _Begin(torch.get_num_threads(), loaded_plugins(), pickled)

    def __enter__(self) -> AcrossRanks:
        broadcast(self._begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):  # ranks are where they were
            broadcast(_Rest())

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """See `Executor.unit_sum`.

        Raises:
            RankGoneError: if a rank ended. What a rank raises is raised.
        """
        theta, dealt = work.theta, deal(shares, world_size())
        kind = theta.device.type
        broadcast(_Round(len(theta), theta.dtype, kind, work.limits, work.keep_updates, dealt))
        with all_present():
            dist.broadcast(theta, 0)
        of_ranks, total = _computed(self._worker, work, dealt[0])
        for one in of_ranks:
            if isinstance(one, Failure):
                raise one.to_raise()
        numbered = sorted((part for one in of_ranks for part in one), key=lambda part: part[0])
        counted = joined((part for _, part in numbered), theta)
        return replace(counted, total=total.to(theta))

    def changed_buffers(self) -> list[str]:
        """See `Executor.changed_buffers`."""
        broadcast(_Buffers())
        return [name for names in gather(self.flat.changed_buffers()) for name in names]


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
    dealt: list[list[tuple[int, Share]]] = [[] for _ in range(ranks)]
    for at, share in enumerate(cut):  # shares grow from first to last
        dealt[at % ranks].append((at, share))
    return dealt


# ----------------------------------------------------------------------------- on every rank


def _train(begin: _Begin) -> None:
    """Compute for one training, on a rank other than 0."""
    worker: ShareWorker | Failure
    try:
        torch.set_num_threads(begin.threads)
        load_plugins(begin.plugins)
        setup: WorkerSetup = pickle.loads(begin.setup)  # noqa: S301 - of the rank that leads
        kind = torch.device(setup.device).type  # of this rank, whatever number rank 0 has
        worker = ShareWorker(replace(setup, device=kind))
    except Exception as error:
        worker = Failure.of_handled(error)
    while not isinstance(message := broadcast(), _Rest):
        if isinstance(message, _Round):
            theta = torch.empty(message.size, dtype=message.dtype, device=message.kind)
            with all_present():
                dist.broadcast(theta, 0)
            work = RoundWork(theta, message.limits, message.keep_updates)
            _computed(worker, work, message.shares[rank()])
        elif isinstance(message, _Begin):  # a training within a training
            _train(message)
        else:
            gather([] if isinstance(worker, Failure) else worker.trainer.flat.changed_buffers())


def _computed(
    worker: ShareWorker | Failure, work: RoundWork, own: Sequence[tuple[int, Share]]
) -> tuple[list[Any], Tensor]:
    """Gather the shares of each rank without their sums, and the sum of all in float64.

    Rank 0 alone gets both. Whatever goes wrong on a rank, it meets all others here.
    """
    total = torch.zeros_like(work.theta, dtype=torch.float64)
    computed: list[tuple[int, UnitSum]] = []
    failure = None
    try:
        if isinstance(worker, Failure):
            raise worker.to_raise()
        for at, share in own:
            with alone():
                part = worker.unit_sum(work, share)
            total += part.total
            updates = None if part.updates is None else part.updates.cpu()
            computed.append((at, replace(part, total=part.total.new_empty(0), updates=updates)))
            del part
    except Exception as error:
        failure = Failure.of_handled(error)
    of_ranks = gather(failure or computed)
    with all_present():
        dist.reduce(total, 0)
    return of_ranks, total
