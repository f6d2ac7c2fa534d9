"""Computation of two parties on shares: each holds one summand of every number.

A `Party` sees its own shares, its own supply and what it receives. Every opened value but the
answer is a secret plus a mask that hides nothing else, hence uniform: masks are used once, and the
server's weights are shown under one mask that serves all batches (`docs/proofs.md`, section 19).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine import correlations
from uedp_bench.mechanisms.secure_inference.engine.carry import carry_bits
from uedp_bench.mechanisms.secure_inference.engine.correlations import SERVER, Spec, unpack
from uedp_bench.mechanisms.secure_inference.engine.dealer import Supply
from uedp_bench.mechanisms.secure_inference.engine.exchange import Steps, swap
from uedp_bench.mechanisms.secure_inference.engine.fixed_point import FRACTION, RING_BITS

Truncation = Literal["local", "dealer"]

Operation = Callable[[Tensor, Tensor], Tensor]

_LOWER = 2 ** (RING_BITS - 1) - 1


class Bits(NamedTuple):
    """Shares of bits under exclusive or, eight in a byte (`correlations.unpack`)."""

    packed: Tensor
    size: int


@dataclass
class Party:
    """One party's side of every protocol.

    Attributes:
        supply: its own numbers of the dealer's correlations.
        truncation: how products lose their last bits: `dealer` opens a masked product (one round,
            never wrong); `local` drops the bits of each share (no round, rarely wrong by 2^48
            in the ring).
        width: bits in which numbers are compared: 64, or 32 where all are below 2^30 in absolute
            value.
        opened: opened values, in order, if somebody keeps them; None if not.
        weights: by name, the server's own; on the client's side they are masked.
        biases: by name, the server's own.
    """

    supply: Supply
    truncation: Truncation = "dealer"
    width: Literal[32, 64] = 64
    opened: list[Tensor] | None = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    biases: dict[str, Tensor] = field(default_factory=dict)

    @property
    def leads(self) -> bool:
        """True for the party that adds public constants: the server."""
        return self.supply.party == SERVER

    def note(self, *opened: Tensor) -> None:
        """Keeps opened values, where they are kept."""
        if self.opened is not None:
            self.opened += [x.clone() for x in opened]

    def note_rest(self, take_off: Operation, *pairs: tuple[Tensor, Tensor]) -> None:
        """Keeps opened values without this party's share of their masks, where anything is kept.

        Args:
            take_off: the rest from value and share.
            pairs: a value and a share each.
        """
        if self.supply.kept is not None:
            self.supply.kept += [take_off(value, share) for value, share in pairs]

    def public(self, value: int, like: Tensor) -> Tensor:
        """This party's share of a public constant."""
        return torch.full_like(like, value if self.leads else 0)

    # ------------------------------------------------------------------------------- numbers

    def open(self, *shares: Tensor, bits: bool = False) -> Steps[list[Tensor]]:
        """Values from their shares; one round."""
        theirs = yield from swap(*shares)
        values = [a ^ b if bits else a + b for a, b in zip(shares, theirs, strict=True)]
        self.note(*values)
        return values

    def mul(self, x: Tensor, y: Tensor) -> Steps[Tensor]:
        """Products, number by number, with twice the bits behind the point (Beaver 1991)."""
        a, b, c = self.supply.take(correlations.multiplication(tuple(x.shape)))
        d, e = yield from self.open(x - a, y - b)
        self.note_rest(torch.add, (d, a), (e, b))
        share: Tensor = d * b + e * a + c
        return share + d * e if self.leads else share

    def truncate(self, x: Tensor, places: int = FRACTION) -> Steps[Tensor]:
        """X without its last `places` bits, to one unit; |x| < 2^62."""
        if self.truncation == "local":
            return x >> places if self.leads else -((-x) >> places)
        r, upper, top = self.supply.take(correlations.truncation(tuple(x.shape), places))
        raised = x + self.public(2 ** (RING_BITS - 2), x)  # not negative, and below 2^63
        (c,) = yield from self.open(raised + r)
        self.note_rest(torch.sub, (c, r))
        # Without their top bits, c is raised + r, less 2^63 where that reaches 2^63: there the
        # top bits of c and r differ.
        sign = (c < 0).to(torch.int64)
        reached = 2 ** (RING_BITS - 1 - places)
        share: Tensor = top * ((1 - 2 * sign) * reached) - upper
        if self.leads:
            share += ((c & _LOWER) >> places) + sign * reached - 2 ** (RING_BITS - 2 - places)
        return share

    # ------------------------------------------------------------------------------- bits

    def conjoin(self, x: Tensor, y: Tensor) -> Steps[Tensor]:
        """X & y, bit by bit; x is broadcast to y. One round."""
        triple = correlations.conjunction(_spec(x), _spec(y))
        a, b, c = self.supply.take(triple)
        d, e = yield from self.open(x ^ a, y ^ b, bits=True)
        self.note_rest(torch.bitwise_xor, (d, a), (e, b))
        share = (d & b) ^ (e & a) ^ c
        return share ^ (d & e) if self.leads else share

    def conjoin_owned(self, mine: Tensor) -> Steps[Tensor]:
        """The server's word & the client's, each its own; one round."""
        mask, c = self.supply.take(correlations.owned_conjunction(_spec(mine)))
        shown = mine ^ mask
        (theirs,) = yield from swap(shown)
        self.note(theirs)
        # (d ^ a)(e ^ b) with d the server's, e the client's.
        return (mask & theirs) ^ c if self.leads else (mine & theirs) ^ c

    def negative(self, x: Tensor) -> Steps[Bits]:
        """1 where x < 0: the top bit of the sum of both shares; log2(width) + 1 rounds."""
        count = x.numel()
        words = x.reshape(-1).to(torch.int32 if self.width == 32 else torch.int64)
        if count % 8:
            words = torch.cat([words, words.new_zeros(-count % 8)])
        return Bits((yield from carry_bits(self, words)), count)

    def choose(self, bits: Bits, x: Tensor) -> Steps[Tensor]:
        """X where the bit is 1, and 0 elsewhere: one round for what is bit to number and product.

        Args:
            bits: their number divides that of x; they are repeated along its first dimension.
            x: shares.
        """
        flat = x.reshape(-1, bits.size)
        triple = correlations.choice(len(flat), bits.size)
        a, mask, r, ar = self.supply.take(triple)
        mine = flat - a, bits.packed ^ mask
        theirs = yield from swap(*mine)
        d, shown = mine[0] + theirs[0], mine[1] ^ theirs[1]
        self.note(d, shown)
        self.note_rest(torch.add, (d, a))
        self.note_rest(torch.bitwise_xor, (shown, mask))
        v = unpack(shown, bits.size)
        # The bit is v + r (1 - 2 v), and x is d + a.
        share = (1 - 2 * v) * (d * r + ar) + v * a
        return (share + v * d if self.leads else share).reshape(x.shape)

    # ------------------------------------------------------------------------- comparisons

    def relu(self, x: Tensor) -> Steps[Tensor]:
        """max(x, 0)."""
        return (yield from self.maximum(torch.stack([x, torch.zeros_like(x)])))

    def maximum(self, entries: Tensor) -> Steps[Tensor]:
        """The largest along the first dimension: a tournament, all windows at once."""
        while len(entries) > 1:
            even = len(entries) // 2 * 2
            first, second = entries[0:even:2], entries[1:even:2]
            difference = first - second
            smaller = yield from self.negative(difference)
            better = first - (yield from self.choose(smaller, difference))
            entries = torch.cat([better, entries[even:]])
        return entries[0]

    def arg_max(self, x: Tensor) -> Steps[Tensor]:
        """The place of the largest of each row, the first of equal ones: (rows, n) to (rows,)."""
        places = torch.arange(x.shape[1], device=x.device)[:, None].expand(x.shape[1], len(x))
        both = torch.stack([x.T, places * int(self.leads)])
        while both.shape[1] > 1:
            even = both.shape[1] // 2 * 2
            first, second = both[:, 0:even:2], both[:, 1:even:2]
            difference = first - second
            smaller = yield from self.negative(difference[0])
            better = first - (yield from self.choose(smaller, difference))
            both = torch.cat([better, both[:, even:]], 1)
        return both[1, 0]


def _spec(x: Tensor) -> Spec:
    return Spec(tuple(x.shape), x.dtype)
