"""One training over several devices, on one machine or many: ranks of `torch.distributed`.

`torchrun --nproc-per-node N -m uedp_bench run SPEC` starts N processes. Rank 0 is the run: it
draws, adds noise, steps, scores, and writes; it is the only one that holds secret streams. All
other ranks compute shares of its rounds, and know of a training what processes of `--processes`
know: the learner, the weights of a round, and the rows and seeds of their shares.

A rank adds its shares in float32 in their order, and the sums of the ranks are added in float64,
so that a training ends where that of one process does, to rounding.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from uedp_bench.training.bounds import Limits
from uedp_bench.training.device import keep_freed_memory
from uedp_bench.training.process_messages import Begin, Failed
from uedp_bench.training.unit_sums import (
    RoundWork,
    Share,
    ShareWorker,
    UnitSum,
    WorkerSetup,
    joined,
)

_PATIENCE = timedelta(days=30)
"""Ranks wait while rank 0 scores and attacks. A rank that is gone is seen by its connection."""


class RankGoneError(KeyboardInterrupt):
    """A rank ended before its work did: nothing can be computed any more, by no run of a grid.

    It ends the program as Ctrl-C does, for no run is to blame: checkpoints stay, and the same
    command goes on from them.
    """


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


@contextmanager
def connected(**how: Any) -> Iterator[None]:
    """Within it, this process is one of several ranks.

    Args:
        how: of `torch.distributed.init_process_group`; nothing where torchrun started this.
    """
    here = torch.cuda.is_available()
    if here:  # "cuda" is the device of this rank from now on
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    # Messages go from CPU to CPU; weights and sums from device to device.
    dist.init_process_group("cpu:gloo,cuda:nccl" if here else "gloo", timeout=_PATIENCE, **how)
    try:
        yield
    finally:
        dist.destroy_process_group()


def count() -> int:
    """How many ranks there are; 1 where a process is alone."""
    there = dist.is_available() and dist.is_initialized()
    return dist.get_world_size() if there else 1


def as_rank(command: Callable[[], int]) -> int:
    """Runs a command on rank 0, and computes for it on all others.

    Returns:
        The exit code of the command; 0 on all others.
    """
    with connected():
        if dist.get_rank():
            serve()
            return 0
        code = command()
        if code != 128 + signal.SIGINT:  # who was interrupted may not be listened to any more
            _told(_End())
        return code


def serve() -> None:
    """Computes for rank 0 until it says that the program ends, or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; rank 0 decides what ends
    keep_freed_memory()
    try:
        while isinstance(begin := _told(), Begin):
            _train(begin)
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
        _told(self._begin)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):  # ranks are where they were
            _told(_Rest())

    def unit_sum(self, work: RoundWork, shares: Sequence[Share]) -> UnitSum:
        """See `Executor.unit_sum`.

        Raises:
            RankGoneError: if a rank ended. What a rank raises is raised.
        """
        theta, dealt = work.theta, deal(shares, count())
        kind = theta.device.type
        _told(_Round(len(theta), theta.dtype, kind, work.limits, work.keep_updates, dealt))
        with _all_there():
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

    def state_dict(self) -> dict[str, Any]:
        """See `Executor.state_dict`; other ranks look for themselves."""
        return self._worker.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Executor.load_state_dict`."""
        self._worker.load_state_dict(state)

    def changed_buffers(self) -> list[str]:
        """See `Executor.changed_buffers`."""
        _told(_Buffers())
        return [name for names in _gathered(self.flat.changed_buffers()) for name in names]


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
    for number, share in enumerate(cut):  # shares grow from first to last
        found[number % ranks].append((number, share))
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
    while not isinstance(message := _told(), _Rest):
        if isinstance(message, _Round):
            theta = torch.empty(message.size, dtype=message.dtype, device=message.kind)
            with _all_there():
                dist.broadcast(theta, 0)
            work = RoundWork(theta, message.limits, message.keep_updates)
            _computed(worker, work, message.shares[dist.get_rank()])
        elif isinstance(message, Begin):  # a training within a training
            _train(message)
        else:
            _gathered([] if isinstance(worker, Failed) else worker.trainer.flat.changed_buffers())


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
        for number, share in mine:
            part = worker.unit_sum(work, share)
            total += part.total
            sent = None if part.updates is None else part.updates.cpu()
            found.append((number, replace(part, total=part.total.new_empty(0), updates=sent)))
            del part
    except Exception as error:
        failed = Failed.of(error)
    of_ranks = _gathered(failed or found)
    with _all_there():
        dist.reduce(total, 0)
    return of_ranks, total


@contextmanager
def _all_there() -> Iterator[None]:
    """Raises `RankGoneError` if a rank is gone."""
    try:
        yield
    except RuntimeError as error:
        said = "another rank ended; what was written down is kept"
        if dist.get_rank() == 0:
            sys.stderr.write(f"error: {said}\n")
        raise RankGoneError(said) from error


def _told(message: object = None) -> Any:
    """The message of rank 0, on every rank."""
    box = [message]
    with _all_there():
        dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]


def _gathered(value: object) -> list[Any]:
    """The values of all ranks, on rank 0; nothing on the others."""
    first = dist.get_rank() == 0
    box: list[Any] = [None] * dist.get_world_size() if first else []
    with _all_there():
        dist.gather_object(value, box if first else None, 0)
    return box
