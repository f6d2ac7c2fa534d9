"""Layers as both parties see them, with the arithmetic in Z_2^64 that they do.

Layers are shapes and an order of protocols, and have no weight. Numbers are int64 tensors that
wrap: a real value x is round(x 2^16) (Adams et al. 2021, section 3; Catrina and Saxena 2010).
PyTorch multiplies integer matrices one number at a time; here they are split into limbs of 22
bits, whose products float64 adds without rounding.

The logistic function on shares comes from polynomials of Chebyshev. Knott et al. 2021 (CrypTen)
compute tanh so. Between -8 and 8 odd polynomials up to degree 21 are within 2e-4 of the logistic
function; beyond, its ends are within 4e-4 of 0 and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.polynomial import Chebyshev
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine import FRACTION, SIGMOID_END
from uedp_bench.mechanisms.secure_inference.engine.dealer import Shape, Spec, linear
from uedp_bench.mechanisms.secure_inference.engine.protocol import (
    Party,
    Steps,
    receive,
    send,
    side_by_side,
)

_ONE = 1 << FRACTION
_END_BITS = SIGMOID_END.bit_length() - 1

TERMS = 11
TRUNCATIONS = TERMS + 1
"""Truncations of each value."""


def coefficients() -> list[int]:
    """Factors of T_1, T_3, ..., T_21 of x / `SIGMOID_END`, `FRACTION` bits behind the point."""
    interpolant = Chebyshev.interpolate(
        lambda x: 1 / (1 + np.exp(-x)), 2 * TERMS - 1, (-SIGMOID_END, SIGMOID_END)
    )
    return [round(float(c) * _ONE) for c in interpolant.coef[1::2]]


def sigmoid(party: Party, x: Tensor) -> Steps[Tensor]:
    """Shares of 1 / (1 + exp(-x)), to 1e-3."""
    end = party.public(SIGMOID_END * _ONE, x)
    above, below = yield from party.relu(torch.stack([x + end, x - end]))
    term = above - below - end  # x / SIGMOID_END, with `_END_BITS` more bits behind the point
    square = yield from party.mul(term, term)
    square = yield from party.truncate(square, FRACTION + 2 * _END_BITS)
    twice = 4 * square - party.public(2 * _ONE, x)  # 2 T_2: T_(n+2) = 2 T_2 T_n - T_(n-2)
    first, *others = coefficients()
    before, total = term, first * term
    for factor in others:
        following = yield from party.truncate((yield from party.mul(twice, term)), FRACTION)
        before, term = term, following - before
        total = total + factor * term
    total = yield from party.truncate(total, FRACTION + _END_BITS)
    return total + party.public(_ONE // 2, x)


_LIMB = 22
_LONGEST = 512
"""Terms that are added at once: 3 * 512 products of two numbers up to 2^21 are below 2^53."""

_FEWEST_TAPS = 1024
"""Weights of a convolution above which it becomes a matrix product."""


def encode(values: Tensor, fraction: int = FRACTION) -> Tensor:
    """Real values as elements of the ring, int64; the caller has checked their range."""
    return (values.double() * 2.0**fraction).round().to(torch.int64)


def decode(elements: Tensor, fraction: int = FRACTION) -> Tensor:
    """Elements of the ring as real values, float64."""
    return elements.double() / 2.0**fraction


def product(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product of `left` (..., m, k) and `right` (k, n), exact modulo 2^64."""
    total = left.new_zeros(*left.shape[:-1], right.shape[-1])
    for start in range(0, left.shape[-1], _LONGEST):
        stop = start + _LONGEST
        first, second = _limbs(left[..., start:stop]), _limbs(right[start:stop])
        for place in range(3):  # what is at 2^66 and above is 0 modulo 2^64
            digit = torch.zeros(total.shape, dtype=torch.float64)
            for i in range(max(0, place + 1 - len(second)), min(place + 1, len(first))):
                digit += first[i] @ second[place - i]
            total += digit.to(torch.int64) << (_LIMB * place)
    return total


def _limbs(numbers: Tensor) -> list[Tensor]:
    """Limbs between -2^21 and 2^21 as float64, lowest first: as many as the numbers need."""
    half, mask = 1 << (_LIMB - 1), (1 << _LIMB) - 1
    limbs, rest = [], numbers
    for _ in range(2):
        low = ((rest + half) & mask) - half
        limbs.append(low.double())
        rest = (rest - low) >> _LIMB
        if not bool(rest.any()):
            return limbs
    return [*limbs, rest.double()]


def convolve(inputs: Tensor, weights: Tensor) -> Tensor:
    """The one-dimensional convolution (cross-correlation) of networks, exact modulo 2^64.

    Args:
        inputs: (rows, channels, positions).
        weights: (filters, channels, width).

    Returns:
        (rows, filters, positions - width + 1).
    """
    (rows, _, positions), (filters, channels, width) = inputs.shape, weights.shape
    size = positions - width + 1
    if weights.numel() <= _FEWEST_TAPS:
        sums = inputs.new_zeros(rows, filters, size)
        for at, tap in enumerate(weights.flatten().tolist()):
            (pair, shift), filter_at = divmod(at, width), at // (channels * width)
            sums[:, filter_at].add_(inputs[:, pair % channels, shift : shift + size], alpha=tap)
        return sums
    windows = inputs.unfold(2, width, 1).transpose(1, 2).flatten(2)
    return product(windows, weights.flatten(1).T).transpose(1, 2)


class Layer(Protocol):
    """One layer of the network; `name` is where it stands in the module."""

    @property
    def name(self) -> str:
        """Name of the layer's place in the network."""
        ...

    def outputs(self, inputs: Shape) -> Shape:
        """The shape of one row's outputs."""
        ...

    def run(self, party: Party, x: Tensor) -> Steps[Tensor]:
        """Shares of the outputs from shares of the inputs (rows, ...)."""
        ...


@dataclass(frozen=True)
class Affine:
    """A linear map of the server's weights, and a bias: `Linear` or `Conv1d`.

    The client shows its share minus a mask; the server multiplies what it then has with its weights
    in the clear, and the client its mask with weights that the server showed under a mask, once.

    Attributes:
        kind: kind of the map.
        weights: shape of the weights: (outputs, inputs) or (filters, channels, width).
    """

    name: str
    kind: Literal["Linear", "Conv1d"]
    weights: Shape

    def outputs(self, inputs: Shape) -> Shape:
        """The last dimension is mapped, or channels and positions."""
        if self.kind == "Linear":
            return (*inputs[:-1], self.weights[0])
        return (self.weights[0], inputs[1] - self.weights[2] + 1)

    def apply(self, x: Tensor, weights: Tensor) -> Tensor:
        """The linear map in the ring."""
        return product(x, weights.T) if self.kind == "Linear" else convolve(x, weights)

    def run(self, party: Party, x: Tensor) -> Steps[Tensor]:
        """One round, and that of truncation."""
        shape = (len(x), *self.outputs(tuple(x.shape[1:])))
        taken = party.supply.take(linear(self.name, tuple(x.shape), shape, self.apply))
        weights = party.weights[self.name]
        if party.leads:
            (shown,) = yield from receive(Spec(tuple(x.shape)))
            party.note(shown)
            share = self.apply(x + shown, weights) + taken[0] + party.biases[self.name]
        else:
            mask, c = taken
            yield from send(x - mask)
            share = self.apply(mask, weights) + c
        return (yield from party.truncate(share))


@dataclass(frozen=True)
class Pool:
    """The largest of each window of the last dimension, and of 0 where `floor` (a ReLU after it).

    The ReLU of a maximum is the maximum of ReLUs; as one more entry of a window it costs as
    many comparisons, and fewer rounds than by itself.
    """

    name: str
    size: int
    stride: int
    floor: bool

    def outputs(self, inputs: Shape) -> Shape:
        """One value a window; positions that fill no window are left out."""
        return (*inputs[:-1], (inputs[-1] - self.size) // self.stride + 1)

    def run(self, party: Party, x: Tensor) -> Steps[Tensor]:
        """A tournament of all windows at once."""
        entries = x.unfold(-1, self.size, self.stride).movedim(-1, 0)
        if self.floor:
            entries = torch.cat([entries, torch.zeros_like(entries[:1])])
        return (yield from party.maximum(entries))


@dataclass(frozen=True)
class Pointwise:
    """`ReLU` or `Sigmoid`, number by number; `Flatten` of all but rows."""

    name: str
    kind: Literal["ReLU", "Sigmoid", "Flatten"]

    def outputs(self, inputs: Shape) -> Shape:
        """The shape of the inputs; for `Flatten` one dimension."""
        return (math.prod(inputs),) if self.kind == "Flatten" else inputs

    def run(self, party: Party, x: Tensor) -> Steps[Tensor]:
        """As `Party.relu` and `sigmoid` say; no round for `Flatten`."""
        if self.kind == "Flatten":
            return x.flatten(1)
        return (yield from (party.relu(x) if self.kind == "ReLU" else sigmoid(party, x)))


@dataclass(frozen=True)
class Sequence:
    """Layers one after the other."""

    name: str
    layers: tuple[Layer, ...]

    def outputs(self, inputs: Shape) -> Shape:
        """The shape that the last layer returns."""
        for layer in self.layers:
            inputs = layer.outputs(inputs)
        return inputs

    def run(self, party: Party, x: Tensor) -> Steps[Tensor]:
        """In order."""
        for layer in self.layers:
            x = yield from layer.run(party, x)
        return x


@dataclass(frozen=True)
class Parallel:
    """Layers on the same inputs in the same rounds; outputs are joined along dimension 1."""

    name: str
    branches: tuple[Layer, ...]

    def outputs(self, inputs: Shape) -> Shape:
        """Shapes agree but in their first dimension, along which they are joined."""
        shapes = [branch.outputs(inputs) for branch in self.branches]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def run(self, party: Party, x: Tensor) -> Steps[Tensor]:
        """As many rounds as the longest branch."""
        outputs = yield from side_by_side([branch.run(party, x) for branch in self.branches])
        return torch.cat(outputs, 1)
