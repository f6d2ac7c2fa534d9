"""A compiled network as one party runs it, what it asks of the dealer, and what it costs.

Rounds and bytes follow from formulas. n comparisons at w bits, n a multiple of 8, take log2(w) + 1
rounds, n (w - 1) / 2 bytes a party and 3 n (w - 1) / 8 bytes of the dealer: the formulas add them
up, and tests hold them against what is counted on the channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.dealer import (
    SERVER,
    Correlation,
    Recorder,
    Shape,
    Spec,
    Supply,
    mask_of_weights,
)
from uedp_bench.mechanisms.secure_inference.engine.layers import (
    TERMS,
    TRUNCATIONS,
    Affine,
    Layer,
    Parallel,
    Pointwise,
    Pool,
    Sequence,
)
from uedp_bench.mechanisms.secure_inference.engine.protocol import (
    Party,
    Steps,
    Truncation,
    receive,
    send,
)

Reveals = Literal["label", "logits"]


@dataclass(frozen=True)
class Program:
    """Public part of the protocol: no weight and no input.

    Attributes:
        layers: layers from inputs to logits.
        inputs: shape of one row.
        weights: names of layers with the shapes of the server's weights.
        reveals: answer that the client sees.
        truncation, width: of `Party`.
    """

    layers: Layer
    inputs: Shape
    weights: tuple[tuple[str, Shape], ...]
    reveals: Reveals
    truncation: Truncation
    width: Literal[32, 64]

    def party(self, supply: Supply, *, keep: bool = False) -> Party:
        """A party that has seen nothing yet."""
        if keep:
            supply.kept = []
        return Party(supply, self.truncation, self.width, opened=[] if keep else None)

    def show_weights(self, party: Party) -> Steps[None]:
        """The server shows its weights under a mask, once for all batches; one round."""
        if party.leads:
            seed = party.supply.seed
            yield from send(*(
                party.weights[name] - mask_of_weights(seed, name, shape)
                for name, shape in self.weights
            ))  # fmt: skip
        else:
            shown = yield from receive(*(Spec(shape) for _, shape in self.weights))
            party.weights = {name: x for (name, _), x in zip(self.weights, shown, strict=True)}
            party.note(*shown)

    def answer(self, party: Party, share: Tensor) -> Steps[Tensor | None]:
        """The answer for one batch; None on the server's side.

        Args:
            party: after `show_weights`.
            share: share of the inputs (rows, *inputs): the client's is the inputs, the server's 0.
        """
        answer_share = yield from self.layers.run(party, share)
        if self.reveals == "label":
            answer_share = yield from party.arg_max(answer_share)
        if party.leads:
            yield from send(answer_share)
            return None
        (other,) = yield from receive(Spec(tuple(answer_share.shape)))
        return answer_share + other

    def share_of(self, party: int, rows: int, inputs: Tensor | None = None) -> Tensor:
        """A party's share of the inputs: nothing that the client has leaves it."""
        if inputs is None or party == SERVER:
            return torch.zeros((rows, *self.inputs), dtype=torch.int64)
        return inputs


@lru_cache(maxsize=16)
def plan_of(program: Program, rows: int) -> tuple[Correlation, ...]:
    """Correlations that a batch needs; shapes decide them, so one side is run on zeros."""
    recorder = Recorder()
    party = program.party(recorder)
    party.weights = {name: _blank(shape) for name, shape in program.weights}
    dry_run(program.answer(party, _blank((rows, *program.inputs))))
    return tuple(recorder.correlations)


def dry_run(steps: Steps[Any]) -> None:
    """Runs one side of a protocol against nobody: it receives zeros."""
    try:
        exchange = next(steps)
        while True:
            exchange = steps.send([_blank(spec.shape, spec.dtype) for spec in exchange.receive])
    except StopIteration:
        return


def _blank(shape: Shape, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.zeros(shape, dtype=dtype)


WORD = 8
"""Bytes of a number."""


@dataclass(frozen=True)
class Cost:
    """Traffic and steps of one or several executions.

    Attributes:
        rounds: one after the other.
        bytes_server, bytes_client: bytes that each of them sends.
        bytes_dealer: corrections that the dealer sends to the server.
        comparisons, truncations: numbers compared, and truncated.
    """

    rounds: int = 0
    bytes_server: int = 0
    bytes_client: int = 0
    bytes_dealer: int = 0
    comparisons: int = 0
    truncations: int = 0

    @property
    def bytes_party(self) -> int:
        """Bytes of the party that sends more."""
        return max(self.bytes_server, self.bytes_client)

    def __add__(self, other: Cost) -> Cost:
        return self.beside(other, self.rounds + other.rounds)

    def beside(self, other: Cost, rounds: int | None = None) -> Cost:
        """Both in the same rounds."""
        return Cost(
            max(self.rounds, other.rounds) if rounds is None else rounds,
            self.bytes_server + other.bytes_server,
            self.bytes_client + other.bytes_client,
            self.bytes_dealer + other.bytes_dealer,
            self.comparisons + other.comparisons,
            self.truncations + other.truncations,
        )

    def times(self, count: int) -> Cost:
        """So many executions, one after the other."""
        return Cost(*(count * value for value in vars(self).values()))


def setup_cost(program: Program) -> Cost:
    """Cost of the round in which the server shows its weights under a mask."""
    return Cost(rounds=1, bytes_server=WORD * sum(math.prod(shape) for _, shape in program.weights))


def batch_cost(program: Program, rows: int) -> Cost:
    """Cost of one batch."""
    shape = program.layers.outputs(program.inputs)
    total = _layer(program, program.layers, program.inputs, rows)
    if program.reveals == "logits":
        return total + Cost(rounds=1, bytes_server=WORD * rows * math.prod(shape))
    (entries,) = shape
    while entries > 1:
        total = total + _choice(program, rows * (entries // 2), copies=2)
        entries -= entries // 2
    return total + Cost(rounds=1, bytes_server=WORD * rows)


def _layer(program: Program, layer: Layer, shape: Shape, rows: int) -> Cost:
    if isinstance(layer, Sequence):
        total = Cost()
        for each in layer.layers:
            total, shape = total + _layer(program, each, shape, rows), each.outputs(shape)
        return total
    if isinstance(layer, Parallel):
        total = Cost()
        for each in layer.branches:
            total = total.beside(_layer(program, each, shape, rows))
        return total
    inputs, outputs = (rows * math.prod(each) for each in (shape, layer.outputs(shape)))
    if isinstance(layer, Affine):
        product = Cost(rounds=1, bytes_client=WORD * inputs, bytes_dealer=WORD * outputs)
        return product + _truncation(program, outputs)
    if isinstance(layer, Pool):
        return _tournament(program, layer.size + layer.floor, outputs)
    if isinstance(layer, Pointwise) and layer.kind == "ReLU":
        return _tournament(program, 2, inputs)
    if isinstance(layer, Pointwise) and layer.kind == "Sigmoid":
        product = Cost(rounds=1, bytes_server=2 * WORD * inputs, bytes_client=2 * WORD * inputs,
                       bytes_dealer=WORD * inputs)  # fmt: skip
        clip = _tournament(program, 2, 2 * inputs)
        return clip + product.times(TERMS) + _truncation(program, inputs).times(TRUNCATIONS)
    return Cost()


def _tournament(program: Program, entries: int, count: int) -> Cost:
    total = Cost()
    while entries > 1:
        total = total + _choice(program, count * (entries // 2), copies=1)
        entries -= entries // 2
    return total


def _choice(program: Program, count: int, *, copies: int) -> Cost:
    """A comparison, and a choice between `copies` pairs of numbers by its outcome."""
    padded, width = -(-count // 8) * 8, program.width
    compared = padded * (width - 1) // 2
    sent = compared + WORD * copies * count + padded // 8
    return Cost(
        rounds=width.bit_length() + 1,
        bytes_server=sent,
        bytes_client=sent,
        bytes_dealer=3 * padded * (width - 1) // 8 + WORD * (copies + 1) * count,
        comparisons=count,
    )


def _truncation(program: Program, count: int) -> Cost:
    if program.truncation == "local":
        return Cost(truncations=count)
    return Cost(1, WORD * count, WORD * count, 2 * WORD * count, truncations=count)
