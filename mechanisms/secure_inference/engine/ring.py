"""Arithmetic in Z_2^64: fixed point, and exact linear maps.

Numbers are int64 tensors that wrap. A real value x is round(x 2^16) (Adams et al. 2021, section 3;
Catrina and Saxena 2010). PyTorch multiplies integer matrices one number at a time; here they
are split into limbs of 22 bits, whose products float64 adds without rounding.
"""

from __future__ import annotations

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.fixed_point import FRACTION

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
