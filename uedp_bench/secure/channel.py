"""What carries messages: two parties in one process in step, or each its end of a socket."""

from __future__ import annotations

import selectors
import socket
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from uedp_bench.secure.correlations import CLIENT, SERVER, Spec
from uedp_bench.secure.exchange import Exchange, Steps

T = TypeVar("T")
U = TypeVar("U")


@dataclass
class Meter:
    """Rounds, and bytes that each party sent."""

    rounds: int = 0
    server: int = 0
    client: int = 0

    def count(self, party: int, sent: int) -> None:
        """Adds a message of a party."""
        if party == SERVER:
            self.server += sent
        else:
            self.client += sent


def in_step(server: Steps[T], client: Steps[U], meter: Meter) -> tuple[T, U]:
    """Runs both parties of a protocol in this process, message by message.

    Raises:
        AssertionError: one waits for what the other does not send: a mistake in a protocol.
    """
    sides: tuple[Steps[T], Steps[U]] = (server, client)
    ends: list[StopIteration] = []
    replies: list[list[Tensor] | None] = [None, None]
    while True:
        asked: list[Exchange] = []
        for side, reply in zip(sides, replies, strict=True):
            try:
                asked.append(next(side) if reply is None else side.send(reply))
            except StopIteration as end:
                ends.append(end)
        if len(ends) == len(sides):
            return ends[SERVER].value, ends[CLIENT].value
        if ends:
            raise AssertionError("one party is done and the other is not")
        meter.rounds += 1
        for party, one in enumerate(asked):
            expected = asked[1 - party].receive
            if [Spec(tuple(x.shape), x.dtype) for x in one.send] != expected:
                raise AssertionError(f"party {party} sends what the other does not wait for")
            meter.count(party, sum(spec.size for spec in expected))
            replies[1 - party] = one.send


class SocketEnd:
    """One party's end of a stream socket: raw numbers, whose shapes both sides know.

    Args:
        party: whose end it is.
        end: connected; both parties send and receive at once, so it must not block.
    """

    def __init__(self, party: int, end: socket.socket) -> None:
        self.meter, self._party, self._socket = Meter(), party, end
        end.setblocking(False)

    def run(self, steps: Steps[T]) -> T:
        """Runs this party's side of a protocol."""
        try:
            asked = next(steps)
            while True:
                asked = steps.send(self._exchange(asked))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _exchange(self, asked: Exchange) -> list[Tensor]:
        content = b"".join(x.contiguous().numpy().tobytes() for x in asked.send)
        received = bytearray(sum(spec.size for spec in asked.receive))
        self.meter.rounds += 1
        self.meter.count(self._party, len(content))
        self._move(memoryview(content), memoryview(received))
        found, start = [], 0
        for spec in asked.receive:
            part = bytearray(received[start : start + spec.size])
            flat = (
                torch.frombuffer(part, dtype=spec.dtype)
                if part
                else torch.empty(0, dtype=spec.dtype)
            )
            found.append(flat.reshape(spec.shape))
            start += spec.size
        return found

    def _move(self, content: memoryview, received: memoryview) -> None:
        """Sends and receives until both are through."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while content or received:
                wanted = (selectors.EVENT_READ if received else 0) | (
                    selectors.EVENT_WRITE if content else 0
                )
                selector.modify(self._socket, wanted)
                for _, ready in selector.select():
                    if ready & selectors.EVENT_WRITE:
                        content = content[self._socket.send(content) :]
                    if ready & selectors.EVENT_READ:
                        count = self._socket.recv_into(received)
                        if count == 0:
                            raise ConnectionError("the other party is gone")
                        received = received[count:]
