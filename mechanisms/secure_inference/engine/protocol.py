"""Computation of two parties on shares: each holds one summand of every number.

A `Party` sees its own shares, its own supply and what it receives. Every opened value but the
answer is a secret plus a mask that hides nothing else, hence uniform: masks are used once, and the
server's weights are shown under one mask that serves all batches (`docs/proofs.md`, section 19).

Protocols are generators: they yield what is sent and are sent what was received. So the same code
of a party runs in one process or two, and protocols on several tensors run side by side in the
same rounds.

The carry is the top bit of the sum of two shares, computed on shared bits. A carry is generated (g)
or passed on (p) by every bit, and two neighbouring stretches of bits make one:
g = g_high ^ (p_high & g_low), p = p_high & p_low (Kogge and Stone 1973). Their network finds the
carry into every place; only the one into the top place is needed, and what it depends on is a
tree of as many levels. A level joins stretches in pairs, so that words halve from level to
level: 31.5 bytes a comparison at 64 bits, where the whole network would send 144. Words are
permuted first, so that the bits of a pair are in the two halves of a word: place b5...b0 goes to
b0...b5. Below a byte, halves of two comparisons share one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine import FRACTION, RING_BITS, dealer
from uedp_bench.mechanisms.secure_inference.engine.dealer import SERVER, Spec, Supply, unpack

_HALF = {torch.int64: torch.int32, torch.int32: torch.int16, torch.int16: torch.uint8}
_LOW = {8: 0x0F, 4: 0x33, 2: 0x55}
"""Lower halves of all fields of a byte, by their width."""


def carry_bits(party: Party, words: Tensor) -> Steps[Tensor]:
    """Shares of the top bits of sums modulo 2^width.

    Args:
        party: party whose share of the numbers `words` is.
        words: int64 or int32 (count,), count a multiple of 8.

    Returns:
        uint8 (count / 8,), packed as `correlations.unpack` reads it.
    """
    width, top = words.dtype.itemsize * 8, _pack(words < 0)
    words = _reversed(words, width)
    limits = torch.iinfo(words.dtype)
    g = (yield from party.conjoin_owned(words)) & limits.max
    p = words & limits.max
    if party.leads:  # the top place passes on what reaches it
        p |= limits.min
    while width > 1:
        (g_low, g_high), (p_low, p_high) = _halves(g, width), _halves(p, width)
        width //= 2
        low = torch.stack([g_low, p_low] if width > 1 else [g_low])
        joined = yield from party.conjoin(p_high[None], low)
        g, p = g_high ^ joined[0], joined[-1]
    return g ^ top


def _pack(bits: Tensor) -> Tensor:
    """The inverse of `correlations.unpack`."""
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)[:, None]
    return (bits.reshape(8, -1).to(torch.uint8) << places).sum(0, dtype=torch.uint8)


def _halves(words: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Lower and upper halves of stretches of `width` bits, as contiguous words."""
    if width > 8:
        pairs = words.view(_HALF[words.dtype]).reshape(-1, 2)  # little-endian
        return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    low = words & _LOW[width]
    high = (words >> (width // 2)) & _LOW[width]
    return _fold(low, width // 2), _fold(high, width // 2)


def _fold(fields: Tensor, shift: int) -> Tensor:
    half = len(fields) // 2
    return fields[:half] | (fields[half:] << shift)


def _reversed(words: Tensor, width: int) -> Tensor:
    """Bits at the places whose numbers are written backwards."""
    for low, high, mask in _SWAPS[width]:
        shift = 2**high - 2**low
        changed = ((words >> shift) ^ words) & mask
        words = words ^ changed ^ (changed << shift)
    return words


def _swaps(width: int) -> tuple[tuple[int, int, int], ...]:
    """Places that have the lower and not the higher of two digits, for each pair of digits."""
    digits = width.bit_length() - 1
    swaps = []
    for low in range(digits // 2):
        high = digits - 1 - low
        moved = [at for at in range(width) if at >> low & 1 and not at >> high & 1]
        swaps.append((low, high, sum(1 << at for at in moved)))
    return tuple(swaps)


_SWAPS = {width: _swaps(width) for width in (32, 64)}


T = TypeVar("T")


class Exchange(NamedTuple):
    """One round of a party: what it sends, and shapes of what it receives meanwhile."""

    send: list[Tensor]
    receive: list[Spec]


Steps = Generator[Exchange, list[Tensor], T]
"""A party's side of a protocol that ends with a T."""


def swap(*mine: Tensor) -> Steps[list[Tensor]]:
    """Sends tensors and receives as many of the same shapes: one round."""
    return (yield Exchange(list(mine), [Spec(tuple(x.shape), x.dtype) for x in mine]))


def send(*mine: Tensor) -> Steps[None]:
    """Sends tensors and receives nothing: one round."""
    yield Exchange(list(mine), [])


def receive(*specs: Spec) -> Steps[list[Tensor]]:
    """Receives tensors and sends nothing: one round."""
    return (yield Exchange([], list(specs)))


def side_by_side(protocols: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Runs protocols in the same rounds: as many as the longest one takes.

    Both parties must list them in the same order.
    """
    done: dict[int, T] = {}
    waiting: dict[int, Exchange] = {}

    def advance(at: int, reply: list[Tensor] | None) -> None:
        waiting.pop(at, None)
        try:
            waiting[at] = next(protocols[at]) if reply is None else protocols[at].send(reply)
        except StopIteration as end:
            done[at] = end.value

    for at in range(len(protocols)):
        advance(at, None)
    while waiting:
        pending = sorted(waiting.items())
        received = iter((
            yield Exchange([x for _, one in pending for x in one.send],
                           [spec for _, one in pending for spec in one.receive])
        ))  # fmt: skip
        for at, one in pending:
            advance(at, [next(received) for _ in one.receive])
    return [done[at] for at in range(len(protocols))]


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
        a, b, c = self.supply.take(dealer.multiplication(tuple(x.shape)))
        d, e = yield from self.open(x - a, y - b)
        self.note_rest(torch.add, (d, a), (e, b))
        share: Tensor = d * b + e * a + c
        return share + d * e if self.leads else share

    def truncate(self, x: Tensor, places: int = FRACTION) -> Steps[Tensor]:
        """X without its last `places` bits, to one unit; |x| < 2^62."""
        if self.truncation == "local":
            return x >> places if self.leads else -((-x) >> places)
        r, upper, top = self.supply.take(dealer.truncation(tuple(x.shape), places))
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
        a, b, c = self.supply.take(dealer.conjunction(_spec(x), _spec(y)))
        d, e = yield from self.open(x ^ a, y ^ b, bits=True)
        self.note_rest(torch.bitwise_xor, (d, a), (e, b))
        share = (d & b) ^ (e & a) ^ c
        return share ^ (d & e) if self.leads else share

    def conjoin_owned(self, mine: Tensor) -> Steps[Tensor]:
        """The server's word & the client's, each its own; one round."""
        mask, c = self.supply.take(dealer.owned_conjunction(_spec(mine)))
        (theirs,) = yield from swap(mine ^ mask)
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
        a, mask, r, ar = self.supply.take(dealer.choice(len(flat), bits.size))
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
