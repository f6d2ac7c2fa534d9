"""The top bit of the sum of two shares: the carry of an adder, computed on shared bits.

A carry is generated (g) or passed on (p) by every bit, and two neighbouring stretches of bits make
one: g = g_high ^ (p_high & g_low), p = p_high & p_low (Kogge and Stone 1973). Their network finds
the carry into every place; only the one into the top place is needed, and what it depends on is a
tree of as many levels. A level joins stretches in pairs, so that words halve from level to
level: 31.5 bytes a comparison at 64 bits, where the whole network would send 144.

Words are permuted first, so that the bits of a pair are in the two halves of a word: place b5...b0
goes to b0...b5. Below a byte, halves of two comparisons share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from uedp_bench.mechanisms.secure_inference.engine.exchange import Steps
    from uedp_bench.mechanisms.secure_inference.engine.protocol import Party

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
