"""Correlations from a dealer, who knows both seeds and no input, and a party's supply of them.

A correlation is random numbers of two parties that fulfil an equation. It has *free* numbers,
random and independent, and *dependent* ones, functions of the free ones. Each number is shared
between the parties (their shares add up, or for bits their exclusive or), or is one party's own.
Parties expand free shares from their seeds. The client expands its share of the dependent numbers
too, and the server is sent its own by the dealer: only corrections travel (Boyle et al. 2019,
section 1).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from uedp_bench.api import Name, PrivacyError, Stream
from uedp_bench.mechanisms.secure_inference.engine import RING_BITS
from uedp_bench.randomness import Keystream, check_bits

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


_CHECKED = 4096
"""Bytes of each draw whose bits are counted."""


class Expansion:
    """The numbers of one seed and one name, in order.

    Args:
        seed: secret.
        name: name of the stream; streams of other names are independent.
    """

    def __init__(self, seed: Stream, *name: Name) -> None:
        self._stream = Keystream(seed.child(*name).key)

    def draw(self, specs: Sequence[Spec]) -> list[Tensor]:
        """The next uniform tensors of these shapes and types.

        Raises:
            PrivacyError: if their bits are not random.
        """
        aligned = [-(-spec.size // 8) * 8 for spec in specs]
        content = self._stream.bytes(sum(aligned))
        check_bits(content[:_CHECKED], "masks of a protocol")
        tensor = torch.from_numpy(content)
        parts, start = [], 0
        for spec, length in zip(specs, aligned, strict=True):
            parts.append(tensor[start : start + spec.size].view(spec.dtype).reshape(spec.shape))
            start += length
        return parts


class Dealer:
    """Sends the server corrections, so that both parties' expanded numbers fulfil equations.

    Args:
        stream: secret, and for one network only; both parties' seeds are below it.
        weights: shapes of the server's weights by name.
    """

    def __init__(self, stream: Stream, weights: Mapping[str, Shape]) -> None:
        self._seeds = seeds_of(stream)
        self._masks = {
            name: mask_of_weights(self._seeds[SERVER], name, shape)
            for name, shape in weights.items()
        }

    def deal(self, batch: int, plan: Sequence[Correlation]) -> list[Tensor]:
        """Corrections for all correlations of a batch, in order."""
        streams = [Expansion(seed, batch) for seed in self._seeds]
        corrections: list[Tensor] = []
        for correlation in plan:
            corrections += self._corrections(streams, correlation)
        return corrections

    def _corrections(self, streams: list[Expansion], correlation: Correlation) -> list[Tensor]:
        held = [stream.draw(correlation.expanded_by(party)) for party, stream in enumerate(streams)]
        server, client = (iter(tensors) for tensors in held)
        free = [
            number.opened(*(next(side) if number.held_by(party) else None
                            for party, side in enumerate((server, client))))
            for number in correlation.free
        ]  # fmt: skip
        if correlation.weights:
            free.append(self._masks[correlation.weights])
        values = correlation.relate(*free)
        return [
            number.rest(value, share)
            for number, value, share in zip(correlation.dependent, values, client, strict=True)
        ]


def seeds_of(stream: Stream) -> tuple[Stream, Stream]:
    """Seeds of the server and of the client."""
    return stream.child("server"), stream.child("client")


def mask_of_weights(seed: Stream, name: str, shape: Shape) -> Tensor:
    """Mask that the server adds to a weight before showing it, once for all batches."""
    (mask,) = Expansion(seed, "weights", name).draw([Spec(shape)])
    return mask


class Supply:
    """A party's side: its numbers of each correlation, in the order of the protocol, each once.

    Args:
        party: `SERVER` or `CLIENT`.
        seed: the party's.

    Attributes:
        taken: correlations that were taken, by batch.
        kept: numbers that were taken, in order, if somebody keeps them; None if not.
    """

    def __init__(self, party: int, seed: Stream) -> None:
        self.party, self.seed = party, seed
        self.taken: Counter[int] = Counter()
        self.kept: list[Tensor] | None = None
        self._batch = -1
        self._stream: Expansion | None = None
        self._corrections: Iterator[Tensor] = iter(())

    def begin(self, batch: int, corrections: Sequence[Tensor] = ()) -> None:
        """Goes to a new batch; the server brings the dealer's corrections for it.

        Raises:
            PrivacyError: the batch was begun before: masks that are used twice hide nothing.
        """
        if batch in self.taken:
            raise PrivacyError(f"the masks of batch {batch} were used before")
        self.taken[batch], self._batch = 0, batch
        self._stream, self._corrections = Expansion(self.seed, batch), iter(corrections)

    def take(self, correlation: Correlation) -> list[Tensor]:
        """The party's free numbers and then its dependent ones.

        Raises:
            PrivacyError: no batch was begun.
        """
        if self._stream is None:
            raise PrivacyError("a batch begins before its masks are taken")
        self.taken[self._batch] += 1
        numbers = self._stream.draw(correlation.expanded_by(self.party))
        if self.party == SERVER:
            numbers += [next(self._corrections) for _ in correlation.dependent]
        if self.kept is not None:
            self.kept += [x.clone() for x in numbers]
        return numbers


class Recorder(Supply):
    """Takes note of what is asked for, and hands out zeros."""

    def __init__(self) -> None:
        super().__init__(CLIENT, Stream(b""))
        self.correlations: list[Correlation] = []

    def take(self, correlation: Correlation) -> list[Tensor]:
        """Zeros in the shapes of the client's numbers."""
        self.correlations.append(correlation)
        return [
            torch.zeros(spec.shape, dtype=spec.dtype) for spec in correlation.expanded_by(CLIENT)
        ]
