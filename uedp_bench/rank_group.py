"""Several processes that compute one run together: ranks of `torch.distributed`.

Rank 0 is the run. All others wait for what it tells them, and answer (`training.ranks`). Work whose
parts do not depend on each other is shared out here.
"""

from __future__ import annotations

import copy
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from uedp_bench.errors import InputError
from uedp_bench.registry import load_plugins, loaded_plugins
from uedp_bench.sent_networks import SPREAD, Holder, Sender, Sent

Common = TypeVar("Common")
Part = TypeVar("Part")
Found = TypeVar("Found")

_PATIENCE = timedelta(days=30)
"""Ranks wait while rank 0 attacks. A rank that is gone is seen by its connection."""


_FEW = 2
"""Fewer parts are computed where they are. A network is sent once, and a part fills a cache."""

_by_itself: ContextVar[bool] = ContextVar("by_itself", default=False)
_sender, _holder = Sender(), Holder()


def _silent(done: int) -> None:
    """Shows nothing."""


class RankGoneError(KeyboardInterrupt):
    """A rank ended before its work did: nothing can be computed any more, by no run of a grid.

    It ends the program as Ctrl-C does, for no run is to blame: checkpoints stay, and the same
    command goes on from them.
    """


@dataclass(frozen=True)
class Failed:
    """An error in another process: itself where it can be sent, and what it said."""

    error: BaseException | None
    said: str

    @staticmethod
    def of(error: BaseException) -> Failed:
        """The error that is being handled, as it can be sent."""
        said = traceback.format_exc()
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - what this process made itself
        except Exception:
            return Failed(None, said)
        return Failed(error, said)

    def again(self) -> BaseException:
        """The error to raise where the message was received."""
        if self.error is None:
            return RuntimeError(f"computing in another process failed: {self.said}")
        self.error.add_note(self.said)
        return self.error


class OthersFailedError(Exception):
    """Another rank raised something, and says what when all meet."""


class OutOfStepError(InputError):
    """Ranks that compute side by side use the weights of a network in different orders."""


class Fetch(NamedTuple):
    """Asks all ranks for their parts of one weight.

    Attributes:
        key: of a network in parts.
        name: of the weight.
    """

    key: str
    name: str


class Call(NamedTuple):
    """What rank 0 asks of all ranks: a function of something common and of each part.

    Attributes:
        sent: function and common.
        threads, plugins: of rank 0.
        parts: of each rank.
    """

    sent: Sent
    threads: int
    plugins: tuple[Path, ...]
    parts: list[list[Any]]


@contextmanager
def connected(**how: Any) -> Iterator[None]:
    """Within it, this process is one of several ranks.

    Args:
        how: of `torch.distributed.init_process_group`; nothing where torchrun started this.
    """
    import torch
    import torch.distributed as dist

    _sender.forget()
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
    """How many ranks work for this one; 1 where a process is alone."""
    if "torch" not in sys.modules:
        return 1
    import torch.distributed as dist

    there = dist.is_available() and dist.is_initialized() and not _by_itself.get()
    return dist.get_world_size() if there else 1


@contextmanager
def by_itself() -> Iterator[None]:
    """Within it, a rank has work of its own, and asks no other: `count` is 1."""
    token = _by_itself.set(True)
    try:
        yield
    finally:
        _by_itself.reset(token)


def number() -> int:
    """Which of them this process is."""
    import torch.distributed as dist

    return dist.get_rank()


@contextmanager
def all_there() -> Iterator[None]:
    """Raises `RankGoneError` if a rank is gone."""
    try:
        yield
    except RuntimeError as error:
        said = "another rank ended; what was written down is kept"
        if number() == 0:
            sys.stderr.write(f"error: {said}\n")
        raise RankGoneError(said) from error


def told(message: object = None) -> Any:
    """The message of rank 0, on every rank."""
    import torch
    import torch.distributed as dist

    box = [message]
    with all_there():
        dist.broadcast_object_list(box, 0, device=torch.device("cpu"))
    return box[0]


def gathered(value: object) -> list[Any]:
    """The values of all ranks, on rank 0; nothing on the others."""
    import torch.distributed as dist

    first = number() == 0
    box: list[Any] = [None] * dist.get_world_size() if first else []
    with all_there():
        dist.gather_object(value, box if first else None, 0)
    return box


def shared_out(
    function: Callable[[Common, Part], Found],
    common: Common,
    parts: Sequence[Part],
    show: Callable[[int], None] = _silent,
) -> list[Found]:
    """`function(common, part)` of each part without gradients, in their order, by all ranks.

    Each part is computed as one process computes it, so that results are the same to the last bit.
    What cannot be sent is computed here. For rank 0 alone.

    A network in parts stays so: ranks gather its weights together, each for a part of its own. Two
    of them, or one whose weights are used in an order that depends on the part, are asked here, and
    the other ranks give their parts of each weight.

    Args:
        function: of a module, without a state: it is sent by its name.
        common: the same for all parts. Networks in it are sent once, as long as they stay as they
            are.
        parts: they depend on nothing but themselves. What they draw, they draw from generators of
            their own.
        show: called with the number of parts that are done, before each of this rank.

    Raises:
        RankGoneError: if a rank ended. What a rank raises is raised.
    """
    import torch

    ranks = count()
    sent = _sender.of((function, common)) if ranks > 1 and len(parts) >= _FEW else None
    if sent is None:
        return _each(function, common, parts, show, 1)
    if len(sent.spread) > 1:
        _sender.forget()  # nothing was told: ranks do not hold what else is in it
        return _each(function, common, parts, show, 1)

    dealt = [list(parts[rank::ranks]) for rank in range(ranks)]
    if sent.spread:  # who has one less computes one that another has as well
        dealt = [[*mine, parts[0]][: len(dealt[0])] for mine in dealt]
    told(Call(sent, torch.get_num_threads(), loaded_plugins(), dealt))
    # Out of step, all parts are computed here: none may have drawn from its generator before.
    mine = copy.deepcopy(dealt[0]) if sent.spread else dealt[0]
    of_ranks = gathered(_answers(lambda: (function, common), mine, sent.spread, show, ranks))
    for one in of_ranks:
        if isinstance(one, Failed):
            _sender.forget()  # who failed may not hold what was sent
            if isinstance(one.error, OutOfStepError):
                return _each(function, common, parts, show, 1)
            raise one.again()
    return [of_ranks[at % ranks][at // ranks] for at in range(len(parts))]


def answer(call: Call | Fetch) -> None:
    """The part of this rank in what is shared out; for all ranks but the first."""
    import torch

    if isinstance(call, Fetch):
        SPREAD[call.key].give(call.name)
        return

    def asked() -> tuple[Callable[..., Any], Any]:
        torch.set_num_threads(call.threads)
        load_plugins(call.plugins)
        return _holder.read(call.sent)  # type: ignore[no-any-return]

    gathered(_answers(asked, call.parts[number()], call.sent.spread))


def _answers(
    asked: Callable[[], tuple[Callable[..., Any], Any]],
    parts: Sequence[Any],
    spread: Sequence[str],
    show: Callable[[int], None] = _silent,
    ranks: int = 1,
) -> Any:
    try:
        with by_itself(), SPREAD[spread[0]].together() if spread else nullcontext():
            # Whoever cannot read the question says so where the others wait for it.
            function, common = asked()
            return _each(function, common, parts, show, ranks)
    except OthersFailedError:
        return None
    except Exception as error:
        return Failed.of(error)


def _each(
    function: Callable[..., Any],
    common: Any,
    parts: Sequence[Any],
    show: Callable[[int], None],
    ranks: int,
) -> list[Any]:
    """What a function finds, where other ranks do as much at the same time."""
    import torch

    found = []
    with torch.no_grad():
        for done, part in enumerate(parts):
            show(done * ranks)
            found.append(function(common, part))
    return found
