"""The logistic function on shares, by polynomials of Chebyshev.

Knott et al. 2021 (CrypTen) compute tanh so. Between -8 and 8 odd polynomials up to degree 21 are
within 2e-4 of the logistic function; beyond, its ends are within 4e-4 of 0 and 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.polynomial import Chebyshev
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.fixed_point import FRACTION, SIGMOID_END

if TYPE_CHECKING:
    from uedp_bench.mechanisms.secure_inference.engine.exchange import Steps
    from uedp_bench.mechanisms.secure_inference.engine.protocol import Party

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
