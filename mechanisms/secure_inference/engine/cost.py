"""Rounds and bytes of a compiled network, by formula.

n comparisons at w bits, n a multiple of 8, take log2(w) + 1 rounds, n (w - 1) / 2 bytes a party and
3 n (w - 1) / 8 bytes of the dealer: the formulas add them up, and tests hold them against what is
counted on the channel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from uedp_bench.mechanisms.secure_inference.engine import sigmoid
from uedp_bench.mechanisms.secure_inference.engine.correlations import Shape
from uedp_bench.mechanisms.secure_inference.engine.layers import (
    Affine,
    Layer,
    Parallel,
    Pointwise,
    Pool,
    Sequence,
)
from uedp_bench.mechanisms.secure_inference.engine.program import Program

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


def setup(program: Program) -> Cost:
    """The server shows its weights under a mask."""
    return Cost(rounds=1, bytes_server=WORD * sum(math.prod(shape) for _, shape in program.weights))


def batch(program: Program, rows: int) -> Cost:
    """One batch."""
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
        return (
            clip
            + product.times(sigmoid.TERMS)
            + _truncation(program, inputs).times(sigmoid.TRUNCATIONS)
        )
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
