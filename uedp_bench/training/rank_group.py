"""Several processes that compute one run together: ranks of `torch.distributed`.

Rank 0 is the run. All others wait for its messages, and compute shares of its rounds
(`training.executors`).
"""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

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
    import torch
    import torch.distributed as dist

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
    if "torch" not in sys.modules or _alone.get():
        return 1
    import torch.distributed as dist

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
    import torch.distributed as dist

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
    import torch
    import torch.distributed as dist

    box = [message]
    with all_present():
        dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]


def gather(value: object) -> list[Any]:
    """The values of all ranks, on rank 0; nothing on the others."""
    import torch.distributed as dist

    box: list[Any] = [None] * dist.get_world_size() if rank() == 0 else []
    with all_present():
        dist.gather_object(value, box if rank() == 0 else None, 0)
    return box
