"""Layers as both parties see them: shapes and an order of protocols, no weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine import sigmoid
from uedp_bench.mechanisms.secure_inference.engine.correlations import Shape, Spec, linear
from uedp_bench.mechanisms.secure_inference.engine.exchange import (
    Steps,
    receive,
    send,
    side_by_side,
)
from uedp_bench.mechanisms.secure_inference.engine.protocol import Party
from uedp_bench.mechanisms.secure_inference.engine.ring import convolve, product


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
        """As `Party.relu` and `sigmoid.sigmoid` say; no round for `Flatten`."""
        if self.kind == "Flatten":
            return x.flatten(1)
        return (yield from (party.relu(x) if self.kind == "ReLU" else sigmoid.sigmoid(party, x)))


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
