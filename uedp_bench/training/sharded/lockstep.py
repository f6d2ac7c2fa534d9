"""Collectives that all ranks enter in the same order, or leave together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from uedp_bench.rank_group import (
    OthersFailedError,
    OutOfStepError,
    RankGoneError,
    all_there,
    count,
    number,
)

_END, _FAILED = -1, -2

# The names of torch 2.13, and those of before.
_ALL_GATHER: Any = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_REDUCE_SCATTER: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Lockstep:
    """Says before each collective what it is about.

    A network may use its weights in an order that depends on its rows. Then one rank would receive
    the numbers of one weight for those of another, without an error. So all compare what they are
    about to do. A rank that fails says so in place of it, and nobody waits for it.
    """

    def __init__(self) -> None:
        self.ranks, self.rank = count(), number()
        self._told = False

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block whose collectives all ranks enter, or none does from some point on.

        Raises:
            OthersFailedError: if another rank failed in it. What this rank raises is raised.
        """
        self._told = False
        try:
            yield
            self.agree(_END)
        except (RankGoneError, OthersFailedError):
            raise
        except Exception:
            if not self._told:
                self._tell(_FAILED)
            raise

    def agree(self, what: int) -> None:
        """Waits for all ranks to be about to do the same.

        Args:
            what: a number from 0.

        Raises:
            OthersFailedError: if a rank failed.
            OutOfStepError: if ranks are about to do different things.
        """
        found = self._tell(what)
        if _FAILED in found:
            self._told = True
            raise OthersFailedError
        if len(set(found)) > 1:
            self._told = True  # all ranks see the same, and all raise
            raise OutOfStepError(
                "the order in which the network uses its weights depends on the rows, so that "
                "ranks cannot give each other their parts; train without --shard-weights"
            )

    def gathered(self, what: int, part: Tensor) -> Tensor:
        """(ranks x n,) the parts (n,) of all ranks."""
        whole = part.new_empty(self.ranks * len(part))
        self.agree(what)
        with all_there():
            _ALL_GATHER(whole, part)
        return whole

    def scattered_sum(self, what: int, whole: Tensor) -> Tensor:
        """(n,) this rank's part of the sum over ranks of vectors (ranks x n,)."""
        part = whole.new_empty(len(whole) // self.ranks)
        self.agree(what)
        with all_there():
            _REDUCE_SCATTER(part, whole)
        return part

    def summed(self, what: int, values: Tensor) -> Tensor:
        """The sum over ranks, on all of them."""
        values = values.clone()
        self.agree(what)
        with all_there():
            dist.all_reduce(values)
        return values

    def _tell(self, what: int) -> list[int]:
        mine = torch.tensor([what])
        every = [torch.empty_like(mine) for _ in range(self.ranks)]
        with all_there():
            dist.all_gather(every, mine)
        return [int(one) for one in every]
