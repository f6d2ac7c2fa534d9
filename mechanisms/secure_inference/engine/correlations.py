"""Correlations from a dealer: random numbers of two parties that fulfil an equation.

A correlation has *free* numbers, random and independent, and *dependent* ones, functions of the
free ones. Each number is shared between the parties (their shares add up, or for bits their
exclusive or), or is one party's own. Parties expand free shares from their seeds. The client
expands its share of the dependent numbers too, and the server is sent its own by the dealer:
only corrections travel (Boyle et al. 2019, section 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.fixed_point import RING_BITS

SERVER, CLIENT = 0, 1
"""The parties: who has the network, and who has the inputs."""

Shape = tuple[int, ...]


class Spec(NamedTuple):
    """A tensor's shape and type."""

    shape: Shape
    dtype: torch.dtype = torch.int64

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Number:
    """Random numbers of a correlation.

    Attributes:
        spec: their shape and type.
        bits: True where shares are combined by exclusive or, False where by addition.
        owner: the party that knows them; None where they are shared.
    """

    spec: Spec
    bits: bool = False
    owner: int | None = None

    def held_by(self, party: int) -> bool:
        """True if this party has the number or a share of it."""
        return self.owner is None or self.owner == party

    def opened(self, server: Tensor | None, client: Tensor | None) -> Tensor:
        """The number from what the parties hold."""
        if server is None or client is None:
            alone = client if server is None else server
            if alone is None:
                raise AssertionError("somebody holds every number")
            return alone
        return server ^ client if self.bits else server + client

    def rest(self, value: Tensor, client: Tensor) -> Tensor:
        """The server's share, given the client's."""
        return value ^ client if self.bits else value - client


@dataclass(frozen=True)
class Correlation:
    """Free numbers, dependent numbers, and the equation between them.

    Attributes:
        free, dependent: the numbers, in order.
        relate: dependent numbers from free ones.
        weights: name of the server's weights that it is for; "" for none. Their mask is the last
            argument of `relate`.
    """

    free: tuple[Number, ...]
    dependent: tuple[Number, ...]
    relate: Callable[..., tuple[Tensor, ...]]
    weights: str = ""

    def expanded_by(self, party: int) -> tuple[Spec, ...]:
        """Specs that a party expands from its seed, in order."""
        own = [number.spec for number in self.free if number.held_by(party)]
        return (*own, *(number.spec for number in self.dependent if party == CLIENT))

    @property
    def corrections(self) -> tuple[Spec, ...]:
        """Specs that the dealer sends to the server."""
        return tuple(number.spec for number in self.dependent)


def linear(
    name: str, inputs: Shape, outputs: Shape, apply: Callable[[Tensor, Tensor], Tensor]
) -> Correlation:
    """C = f(a, b): a is the client's, b masks the server's weights `name`, c is shared."""
    return Correlation(
        (Number(Spec(inputs), owner=CLIENT),),
        (Number(Spec(outputs)),),
        lambda a, b: (apply(a, b),),
        weights=name,
    )


def multiplication(shape: Shape) -> Correlation:
    """C = a b, all shared (Beaver 1991)."""
    one = Number(Spec(shape))
    return Correlation((one, one), (one,), lambda a, b: (a * b,))


def conjunction(left: Spec, right: Spec) -> Correlation:
    """C = a & b on bits, all shared; `left` is broadcast to `right`."""
    first, second = Number(left, bits=True), Number(right, bits=True)
    return Correlation((first, second), (second,), lambda a, b: (a & b,))


def owned_conjunction(spec: Spec) -> Correlation:
    """C = a & b on bits: a is the server's, b the client's, c is shared."""
    first, second = (Number(spec, bits=True, owner=party) for party in (SERVER, CLIENT))
    shared = Number(spec, bits=True)
    return Correlation((first, second), (shared,), lambda a, b: (a & b,))


def choice(copies: int, count: int) -> Correlation:
    """R = bits as numbers, and c = a r, all shared: a is (copies, count), bits are packed."""
    one, bits = Number(Spec((copies, count))), Number(packed(count), bits=True)

    def relate(a: Tensor, bits: Tensor) -> tuple[Tensor, ...]:
        r = unpack(bits, count)
        return r, a * r

    return Correlation((one, bits), (Number(Spec((count,))), one), relate)


def truncation(shape: Shape, places: int) -> Correlation:
    """For a random r: its lower 63 bits without the last `places`, and its top bit; all shared."""
    one = Number(Spec(shape))

    def relate(r: Tensor) -> tuple[Tensor, ...]:
        return (r & (2 ** (RING_BITS - 1) - 1)) >> places, (r < 0).to(torch.int64)

    return Correlation((one,), (one, one), relate)


def packed(count: int) -> Spec:
    """Bytes that hold so many bits."""
    return Spec((-(-count // 8),), torch.uint8)


def unpack(bits: Tensor, count: int) -> Tensor:
    """Bits of packed bytes as numbers 0 and 1, int64 (count,).

    Bit k of byte j is number k n + j of the 8 n: comparisons leave them in this order.
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)[:, None]
    return ((bits >> places) & 1).flatten()[:count].to(torch.int64)
