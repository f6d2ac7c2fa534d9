"""Runs of a program: both parties in one process, or each in one of its own."""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from uedp_bench.api import Stream
from uedp_bench.io.fresh_processes import start_fresh
from uedp_bench.mechanisms.secure_inference.engine.dealer import CLIENT, SERVER, Spec, Supply
from uedp_bench.mechanisms.secure_inference.engine.program import Program
from uedp_bench.mechanisms.secure_inference.engine.protocol import Exchange, Steps

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
        exchanges: list[Exchange] = []
        for side, reply in zip(sides, replies, strict=True):
            try:
                exchanges.append(next(side) if reply is None else side.send(reply))
            except StopIteration as end:
                ends.append(end)
        if len(ends) == len(sides):
            return ends[SERVER].value, ends[CLIENT].value
        if ends:
            raise AssertionError("one party is done and the other is not")
        meter.rounds += 1
        for party, one in enumerate(exchanges):
            expected = exchanges[1 - party].receive
            if [Spec(tuple(x.shape), x.dtype) for x in one.send] != expected:
                raise AssertionError(f"party {party} sends what the other does not wait for")
            meter.count(party, sum(spec.size for spec in expected))
            replies[1 - party] = one.send


class SocketEnd:
    """One party's end of a stream socket: raw numbers, whose shapes both sides know.

    Args:
        party: party whose end it is.
        end: connected; both parties send and receive at once, so it must not block.
    """

    def __init__(self, party: int, end: socket.socket) -> None:
        self.meter, self._party, self._socket = Meter(), party, end
        end.setblocking(False)

    def run(self, steps: Steps[T]) -> T:
        """Runs this party's side of a protocol."""
        try:
            exchange = next(steps)
            while True:
                exchange = steps.send(self._exchange(exchange))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _exchange(self, exchange: Exchange) -> list[Tensor]:
        content = b"".join(x.contiguous().numpy().tobytes() for x in exchange.send)
        received = bytearray(sum(spec.size for spec in exchange.receive))
        self.meter.rounds += 1
        self.meter.count(self._party, len(content))
        self._move(memoryview(content), memoryview(received))
        tensors, start = [], 0
        for spec in exchange.receive:
            part = bytearray(received[start : start + spec.size])
            flat = (
                torch.frombuffer(part, dtype=spec.dtype)
                if part
                else torch.empty(0, dtype=spec.dtype)
            )
            tensors.append(flat.reshape(spec.shape))
            start += spec.size
        return tensors

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


@dataclass
class Session:
    """Record of a run: traffic, CPU seconds of both parties, and the view of one.

    A view is its opened values, and its `own` numbers; its inputs it has.
    """

    meter: Meter = field(default_factory=Meter)
    seconds: float = 0.0
    opened: list[Tensor] = field(default_factory=list)
    own: list[Tensor] = field(default_factory=list)


class Runner(Protocol):
    """Answers batch after batch."""

    def answer(self, batch: int, inputs: Tensor, corrections: Sequence[Tensor]) -> Tensor:
        """Answer that the client sees for one batch."""
        ...


@dataclass(frozen=True)
class Secrets:
    """Secrets of one party: its seed, and weights and biases if it is the server."""

    seed: Stream
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    biases: Mapping[str, Tensor] = field(default_factory=dict)


@contextmanager
def one_process(
    program: Program, secrets: Sequence[Secrets], session: Session, keep: int | None
) -> Iterator[Runner]:
    """Both parties in step; `session` is filled while it runs.

    Args:
        program: public.
        secrets: secrets of the server and of the client.
        session: record to fill.
        keep: the party whose view is kept; None for nobody's.
    """
    parties = [
        program.party(Supply(at, each.seed), keep=keep == at) for at, each in enumerate(secrets)
    ]
    for party, each in zip(parties, secrets, strict=True):
        party.weights, party.biases = dict(each.weights), dict(each.biases)

    class Both:
        def answer(self, batch: int, inputs: Tensor, corrections: Sequence[Tensor]) -> Tensor:
            start = time.process_time()
            parties[SERVER].supply.begin(batch, corrections)
            parties[CLIENT].supply.begin(batch)
            steps = [
                program.answer(party, program.share_of(at, len(inputs), inputs))
                for at, party in enumerate(parties)
            ]
            _, answer = in_step(steps[SERVER], steps[CLIENT], session.meter)
            session.seconds += time.process_time() - start
            if answer is None:
                raise AssertionError("the client has an answer")
            return answer

    start = time.process_time()
    server, client = (program.show_weights(party) for party in parties)
    in_step(server, client, session.meter)
    session.seconds += time.process_time() - start
    yield Both()
    if keep is not None:
        session.opened += parties[keep].opened or []
        session.own += parties[keep].supply.kept or []


@contextmanager
def two_processes(
    program: Program, secrets: Sequence[Secrets], session: Session, keep: int | None
) -> Iterator[Runner]:
    """As `one_process`, each party in a new process; they are connected by a local socket."""
    ends = socket.socketpair()
    pipes, workers = [], []
    try:
        for at, (each, end) in enumerate(zip(secrets, ends, strict=True)):
            parent_pipe, worker_pipe = multiprocessing.Pipe()
            role = (at, keep == at, torch.get_num_threads())
            worker = start_fresh(_party, worker_pipe, end, program, role, _plain(each), daemon=True)
            worker_pipe.close()
            end.close()
            pipes.append(parent_pipe)
            workers.append(worker)

        class Apart:
            def answer(self, batch: int, inputs: Tensor, corrections: Sequence[Tensor]) -> Tensor:
                content = [x.numpy() for x in corrections]
                pipes[SERVER].send((batch, len(inputs), None, content))
                pipes[CLIENT].send((batch, len(inputs), inputs.numpy(), []))
                return torch.from_numpy(_received(pipes[CLIENT]))

        yield Apart()
        for at, pipe in enumerate(pipes):
            pipe.send(None)
            meter, seconds, *view = _received(pipe)
            session.meter.rounds = meter.rounds
            session.meter.server += meter.server
            session.meter.client += meter.client
            session.seconds += seconds
            if keep == at:
                for kept, numbers in zip((session.opened, session.own), view, strict=True):
                    kept += [torch.from_numpy(x) for x in numbers]
    finally:
        for pipe in pipes:
            pipe.close()
        for worker in workers:
            worker.join()


def _plain(secrets: Secrets) -> tuple[Stream, dict[str, Any], dict[str, Any]]:
    weights, biases = (
        {name: x.numpy() for name, x in each.items()} for each in (secrets.weights, secrets.biases)
    )
    return secrets.seed, weights, biases


def _received(pipe: Connection) -> Any:
    """Report of a party's process.

    Raises:
        BaseException: the error that the process had, if it had one.
    """
    report = pipe.recv()
    if isinstance(report, BaseException):
        raise report
    return report


def _party(
    pipe: Connection,
    end: socket.socket,
    program: Program,
    role: tuple[int, bool, int],
    secrets: tuple[Stream, dict[str, Any], dict[str, Any]],
) -> None:
    """The process of one party: it has its own secrets, its pipe and its end of the socket.

    Its role is its number, True if its numbers are kept, and its threads.
    """
    at, keep, threads = role
    torch.set_num_threads(threads)
    link = SocketEnd(at, end)
    try:
        seed, *kept = secrets
        party = program.party(Supply(at, seed), keep=keep)
        party.weights, party.biases = (
            {name: torch.from_numpy(x) for name, x in each.items()} for each in kept
        )
        start = time.process_time()
        link.run(program.show_weights(party))
        while (question := pipe.recv()) is not None:
            batch, rows, inputs, corrections = question
            party.supply.begin(batch, [torch.from_numpy(x) for x in corrections])
            own = None if inputs is None else torch.from_numpy(inputs)
            answer = link.run(program.answer(party, program.share_of(at, rows, own)))
            if answer is not None:
                pipe.send(answer.numpy())
        seconds = time.process_time() - start
        view = ([x.numpy() for x in kept or []] for kept in (party.opened, party.supply.kept))
        pipe.send((link.meter, seconds, *view))
    except (EOFError, BrokenPipeError):
        return  # nobody asks any more
    except Exception as error:
        with suppress(OSError):
            pipe.send(error)
    finally:
        end.close()
