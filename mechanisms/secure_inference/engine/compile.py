"""From a network of PyTorch to a protocol between its owner and the owner of its inputs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import NoReturn

import torch
from torch import Tensor, nn

from uedp_bench.accounting.protocol_events import failure_of_truncations
from uedp_bench.api import InputError, Stream
from uedp_bench.api.training import ArgMax, Branches
from uedp_bench.mechanisms.secure_inference.engine import FRACTION, RING_BITS, largest_truncated
from uedp_bench.mechanisms.secure_inference.engine.dealer import Dealer, Shape, seeds_of
from uedp_bench.mechanisms.secure_inference.engine.layers import decode, encode
from uedp_bench.mechanisms.secure_inference.engine.program import (
    Cost,
    Program,
    Reveals,
    batch_cost,
    plan_of,
    setup_cost,
)
from uedp_bench.mechanisms.secure_inference.engine.protocol import Truncation
from uedp_bench.mechanisms.secure_inference.engine.reading import Reader, Values, read_network
from uedp_bench.mechanisms.secure_inference.engine.sessions import (
    Secrets,
    Session,
    one_process,
    two_processes,
)

__all__ = ["ArgMax", "Branches", "Cost", "SecureAnswer", "SecureConfig", "SecureNetwork",
           "Traffic", "compile_network"]  # fmt: skip

LARGEST_RANGE = 2.0**29
"""Products of values have 32 bits behind the point, and stay below 2^62."""

NARROW = 2.0**14 - 2
"""Differences of values up to it fit into 32 bits."""


@dataclass(frozen=True, kw_only=True)
class SecureConfig:
    """Configuration of the protocol; all of it is public but `stream`.

    Attributes:
        input_range: inputs are between -input_range and input_range; others are refused.
        value_range: bound on the absolute value of every value of any layer, for any such input: a
            network that could exceed it is refused. Up to 16,382 numbers are compared at 32 bits,
            above at 64; both are exact.
        truncation: `dealer` costs a round a layer and never fails; `local` costs none and fails
            as `SecureNetwork.failure` says.
        reveals: answer that the client sees: the label alone, or all logits.
        keep_sigmoid: computes a Sigmoid before the end for a label too, which it cannot change.
        batch_rows: rows that are answered in the same rounds; 1 for one by one.
        processes: False runs both parties in this process, True each in one of its own.
        stream: source of all seeds, secret, and for one network only: a stream that
            serves twice masks different secrets with the same numbers. None for 32 bytes of the
            operating system.
    """

    input_range: float = 8.0
    value_range: float = 8192.0
    truncation: Truncation = "dealer"
    reveals: Reveals = "label"
    keep_sigmoid: bool = False
    batch_rows: int = 200
    processes: bool = False
    stream: Stream | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.input_range <= self.value_range <= LARGEST_RANGE:
            raise InputError(
                f"input_range {self.input_range:,} and value_range {self.value_range:,}: allowed "
                f"is 0 < input_range <= value_range <= {LARGEST_RANGE:,.0f}"
            )
        if self.batch_rows < 1:
            raise InputError(f"batch_rows is {self.batch_rows}; at least 1 row is answered at once")
        for name, value, allowed in (
            ("truncation", self.truncation, ("local", "dealer")),
            ("reveals", self.reveals, ("label", "logits")),
        ):
            if value not in allowed:
                raise InputError(f"{name} is {value!r}; known: {', '.join(allowed)}")


@dataclass(frozen=True)
class Traffic:
    """Cost of an inference.

    Attributes:
        rounds: messages one after the other.
        bytes_server, bytes_client: sent by each party.
        bytes_dealer: corrections that the dealer sent to the server.
        offline_seconds: CPU seconds of the dealer, before inputs are known.
        online_seconds: CPU seconds of both parties together.
    """

    rounds: int
    bytes_server: int
    bytes_client: int
    bytes_dealer: int
    offline_seconds: float
    online_seconds: float

    @property
    def bytes_party(self) -> int:
        """Sent by the party that sends more."""
        return max(self.bytes_server, self.bytes_client)

    def seconds(self, latency: float, bandwidth: float) -> float:
        """Modelled seconds on a network: CPU seconds, rounds and bytes one after the other.

        Args:
            latency: seconds of a round.
            bandwidth: bits a second, of each link.
        """
        sent = 8 * (self.bytes_party + self.bytes_dealer)
        return self.offline_seconds + self.online_seconds + self.rounds * latency + sent / bandwidth


@dataclass(frozen=True)
class SecureAnswer:
    """Answer that the client sees.

    Attributes:
        labels: int64 (rows,).
        logits: float64 (rows, classes) if they were revealed, else None.
        traffic: cost of the inference.
        opened: values that were opened to the party whose transcript was asked for, in order.
        own: its random numbers and what the dealer sent to it, in order, and what it can take off
            opened values by its own share of their masks.
    """

    labels: Tensor
    logits: Tensor | None
    traffic: Traffic
    opened: list[Tensor]
    own: list[Tensor]


class SecureNetwork:
    """A compiled network: the server's weights, and the protocol that both parties know.

    Attributes:
        program: public.
        config: configuration of the protocol.
        batches: batches that were answered; every batch has correlations of its own.
    """

    def __init__(self, program: Program, reader: Reader, config: SecureConfig) -> None:
        self.program, self.config, self.batches = program, config, 0
        stream = config.stream or Stream(os.urandom(32), "os")
        server, client = seeds_of(stream)
        self._secrets = (Secrets(server, reader.weights, reader.biases), Secrets(client))
        self._dealer = Dealer(stream, dict(program.weights))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InputError("a copy of a secure network would use its masks a second time")

    def infer(self, inputs: Tensor, *, transcript_of: int | None = None) -> SecureAnswer:
        """Runs the protocol.

        Args:
            inputs: the client's, real (rows, *input_shape).
            transcript_of: party whose view is kept: `SERVER`, `CLIENT`, or nobody's.

        Raises:
            InputError: inputs of another shape, or out of the declared range.
        """
        encoded = encode(self._checked(inputs))
        session, answers, dealt, offline = Session(), [], 0, 0.0
        runner = two_processes if self.config.processes else one_process
        with runner(self.program, self._secrets, session, transcript_of) as parties:
            for rows in torch.split(encoded, self.config.batch_rows):
                batch, start = self.batches, time.process_time()
                self.batches += 1  # whatever happens next, these masks are used up
                corrections = self._dealer.deal(batch, plan_of(self.program, len(rows)))
                offline += time.process_time() - start
                dealt += sum(x.nbytes for x in corrections)
                answers.append(parties.answer(batch, rows, corrections))
        meter = session.meter
        traffic = Traffic(meter.rounds, meter.server, meter.client, dealt, offline, session.seconds)
        return self._answer(torch.cat(answers), traffic, session)

    def cost(self, rows: int) -> Cost:
        """Rounds and bytes of an inference of so many rows, by formula."""
        whole, rest = divmod(rows, self.config.batch_rows)
        total = setup_cost(self.program)
        if whole:
            total += batch_cost(self.program, self.config.batch_rows).times(whole)
        return total + batch_cost(self.program, rest) if rest else total

    def failure(self, rows: int) -> float:
        """Probability that a truncation in an inference of so many rows fails, at most.

        0 with the dealer's help; else as `failure_of_truncations` says of values of the declared
        range.
        """
        if self.config.truncation == "dealer":
            return 0.0
        return failure_of_truncations(
            self.cost(rows).truncations,
            largest_truncated(self.config.value_range),
            ring_bits=RING_BITS,
            fraction_bits=FRACTION,
        )

    def _checked(self, inputs: Tensor) -> Tensor:
        if inputs.dim() == 0 or tuple(inputs.shape[1:]) != self.program.inputs or not len(inputs):
            raise InputError(
                f"inputs of shape {tuple(inputs.shape)}: expected are (rows, "
                f"{', '.join(map(str, self.program.inputs))}), at least one row"
            )
        values = inputs.detach().cpu().double()
        inside = (values.abs() <= self.config.input_range).flatten(1).all(1)
        if not inside.all():
            row = int((~inside).nonzero()[0])
            raise InputError(
                f"row {row} of the inputs has a value that is not between "
                f"-{self.config.input_range:,} and {self.config.input_range:,}, the declared "
                "`input_range`"
            )
        return values

    def _answer(self, revealed: Tensor, traffic: Traffic, session: Session) -> SecureAnswer:
        view = session.opened, session.own
        if self.config.reveals == "label":
            return SecureAnswer(revealed, None, traffic, *view)
        return SecureAnswer(revealed.argmax(-1), decode(revealed), traffic, *view)


def compile_network(
    network: nn.Module, input_shape: Shape, config: SecureConfig | None = None
) -> SecureNetwork:
    """The protocol of a network, whose weights stay with the server.

    Args:
        network: of `nn.Sequential`, `Branches`, `Linear`, `Conv1d`, `ReLU`, `MaxPool1d`, `Flatten`,
            `Sigmoid`, and `ArgMax` at its end. `Dropout` does nothing.
        input_shape: input shape of one row.
        config: configuration of the protocol.

    Raises:
        InputError: a layer that no protocol computes, or that may exceed the declared range.
    """
    config = config or SecureConfig()
    modules = read_network(network, keep_sigmoid=config.keep_sigmoid or config.reveals == "logits")
    reader = Reader(config.value_range)
    largest = config.input_range + 2.0 ** -(FRACTION + 1)  # inputs are rounded to the ring
    layers, end = reader.sequence("", modules, Values(tuple(input_shape), largest))
    if len(end.shape) != 1:
        raise InputError(f"the network returns {end.shape} a row; ArgMax takes one dimension")
    program = Program(
        layers=layers,
        inputs=tuple(input_shape),
        weights=tuple((name, tuple(x.shape)) for name, x in reader.weights.items()),
        reveals=config.reveals,
        truncation=config.truncation,
        width=32 if config.value_range <= NARROW else 64,
    )
    return SecureNetwork(program, reader, config)
