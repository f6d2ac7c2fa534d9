"""The dealer, who knows both seeds and no input, and a party's supply of what it hands out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from uedp_bench.api import Name, PrivacyError, Stream
from uedp_bench.mechanisms.secure_inference.engine.correlations import (
    CLIENT,
    SERVER,
    Correlation,
    Shape,
    Spec,
)
from uedp_bench.randomness.bit_generator import Keystream
from uedp_bench.randomness.noise_checks import check_bits

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
