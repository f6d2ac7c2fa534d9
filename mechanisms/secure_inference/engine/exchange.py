"""Protocols as generators: they yield what is sent and are sent what was received.

So the same code of a party runs in one process or two, and protocols on several tensors run side by
side in the same rounds.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.correlations import Spec

T = TypeVar("T")


class Exchange(NamedTuple):
    """One round of a party: what it sends, and shapes of what it receives meanwhile."""

    send: list[Tensor]
    receive: list[Spec]


Steps = Generator[Exchange, list[Tensor], T]
"""A party's side of a protocol that ends with a T."""


def swap(*mine: Tensor) -> Steps[list[Tensor]]:
    """Sends tensors and receives as many of the same shapes: one round."""
    return (yield Exchange(list(mine), [Spec(tuple(x.shape), x.dtype) for x in mine]))


def send(*mine: Tensor) -> Steps[None]:
    """Sends tensors and receives nothing: one round."""
    yield Exchange(list(mine), [])


def receive(*specs: Spec) -> Steps[list[Tensor]]:
    """Receives tensors and sends nothing: one round."""
    return (yield Exchange([], list(specs)))


def side_by_side(protocols: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Runs protocols in the same rounds: as many as the longest one takes.

    Both parties must list them in the same order.
    """
    done: dict[int, T] = {}
    waiting: dict[int, Exchange] = {}

    def advance(at: int, reply: list[Tensor] | None) -> None:
        waiting.pop(at, None)
        try:
            waiting[at] = next(protocols[at]) if reply is None else protocols[at].send(reply)
        except StopIteration as end:
            done[at] = end.value

    for at in range(len(protocols)):
        advance(at, None)
    while waiting:
        pending = sorted(waiting.items())
        received = iter((
            yield Exchange([x for _, one in pending for x in one.send],
                           [spec for _, one in pending for spec in one.receive])
        ))  # fmt: skip
        for at, one in pending:
            advance(at, [next(received) for _ in one.receive])
    return [done[at] for at in range(len(protocols))]
