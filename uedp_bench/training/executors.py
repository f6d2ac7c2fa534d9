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

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import timedelta
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
from uedp_bench.training.unit_sums import (
    RoundWork,
    Share,
    ShareWorker,
    UnitSum,
    WorkerSetup,
    joined,
)
from uedp_bench.training.vector import FlatModule

# ----------------------------------------------------------------------- ranks of torch.distributed

_PATIENCE = timedelta(days=30)
"""Ranks wait while rank 0 attacks. A rank that is gone is seen by its connection."""

_alone: ContextVar[bool] = ContextVar("alone", default=False)


class RankGoneError(KeyboardInterrupt):
    """A rank ended before its work did: nothing can be computed any more, by no run of a grid.

    It ends the program as Ctrl-C does, for no run is to blame: checkpoints stay, and the same
    command goes on from them.
    """


@dataclass(frozen=True)
class Failure:
    """An error on a rank, as it can be sent.

    Attributes:
        error: the error; None where it cannot be sent.
        trace: its traceback.
    """

    error: BaseException | None
    trace: str

    @staticmethod
    def of_handled(error: BaseException) -> Failure:
        """Failure of the error that is being handled."""
        trace = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - what this process made itself
        except Exception:
            return Failure(None, trace)
        return Failure(error, trace)

    def to_raise(self) -> BaseException:
        """The error to raise where the failure was received."""
        if self.error is None:
            return RuntimeError(f"computing on another rank failed: {self.trace}")
        self.error.add_note(self.trace)
        return self.error


@contextmanager
def connected(**settings: Any) -> Iterator[None]:
    """Make this process one of several ranks within the block.

    Args:
        settings: arguments of `torch.distributed.init_process_group`; none under torchrun.
    """
    gpu = torch.cuda.is_available()
    if gpu:  # "cuda" is the device of this rank from now on
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    # Messages go from CPU to CPU; weights and sums from device to device.
    dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=_PATIENCE, **settings)
    try:
        yield
    finally:
        dist.destroy_process_group()


def world_size() -> int:
    """Number of ranks that compute for this one; 1 where a process is alone."""
    if _alone.get():
        return 1
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


@contextmanager
def alone() -> Iterator[None]:
    """Keep a rank from calling others within the block: `world_size` is 1."""
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def rank() -> int:
    """Number of this process among the ranks."""
    return dist.get_rank()


@contextmanager
def all_present() -> Iterator[None]:
    """Raise `RankGoneError` if a rank is gone."""
    try:
        yield
    except RuntimeError as error:
        message = "another rank ended; what was written down is kept"
        if rank() == 0:
            sys.stderr.write(f"error: {message}\n")
        raise RankGoneError(message) from error


def broadcast(message: object = None) -> Any:
    """The message of rank 0, on every rank."""
    box = [message]
    with all_present():
        dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]


def gather(value: object) -> list[Any]:
    """The values of all ranks, on rank 0; nothing on the others."""
    box: list[Any] = [None] * dist.get_world_size() if rank() == 0 else []
    with all_present():
        dist.gather_object(value, box if rank() == 0 else None, 0)
    return box


# ---------------------------------------------------------------------------------------- executors


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
