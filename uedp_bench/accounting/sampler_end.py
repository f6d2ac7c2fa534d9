"""Where the samplers of noise end: no generator of bits gives numbers without a largest one.

A sampler with 53 random bits behind its last step cannot give what is rarer than these bits tell
apart. Proofs speak of noise without an end, so that what lies beyond is added to delta: replacing
the noise of real numbers by that of a sampler changes the probability of any release by at most
`rounds * coordinates * mass`, and an (epsilon, delta) guarantee for the former gives delta plus
(1 + e^epsilon) times as much for the latter.

All noise that protects is drawn in float64 by `numpy.random.Generator`, whatever the device. The
ends below follow from NumPy's algorithms; `tests/accounting/test_sampler_end.py` drives them with
chosen bits to see that they are those of the NumPy that is installed. Arrays of normal numbers
whose bits are the operating system's are quantiles (`randomness.normal_numbers`), which end later,
at 13.1: what is said for the earlier end bounds theirs.
"""

from __future__ import annotations

import math

BITS = 53
"""Random bits of a uniform number of `Generator.random`: a multiple of 2^-53 below 1."""

_TAIL_STARTS = 3.6541528853610088
"""Where the ziggurat's layers end and its tail begins (`ziggurat_nor_r` of NumPy)."""

GAUSSIAN_END = _TAIL_STARTS + math.sqrt(2.0 * BITS * math.log(2.0))
"""Standard deviations that `standard_normal` cannot exceed, 12.23.

Beyond 3.654 NumPy takes x = -ln(1 - U) / 3.654 where -2 ln(1 - U') > x^2 (Marsaglia's tail), and
-ln(1 - U') is at most 53 ln 2. `torch.randn` ends at 5.77 in float32 and at 8.57 in float64.
"""

LAPLACE_END = BITS * math.log(2.0)
"""Scales that `laplace` cannot exceed, 36.74; below 0 it ends at 36.04 already."""

GUMBEL_END = BITS * math.log(2.0)
"""Scales that `gumbel` cannot exceed, 36.74: it is -ln(-ln(1 - U))."""

EXPONENTIAL_END = 7.69711747013104972 + BITS * math.log(2.0)
"""Scales that `standard_exponential` cannot exceed, 44.43: its ziggurat's tail begins at 7.697."""


def gamma_end(shape: int) -> float:
    """Scales that `standard_gamma` of this shape, at least 1, cannot exceed.

    NumPy cubes a normal number x (Marsaglia and Tsang 2000): (shape - 1/3) (1 + c x)^3 with
    c = 1 / sqrt(9 shape - 3). Of shape 1 it is `standard_exponential`.
    """
    if shape == 1:
        return EXPONENTIAL_END
    reduced = shape - 1.0 / 3.0
    return reduced * (1.0 + GAUSSIAN_END / math.sqrt(9.0 * reduced)) ** 3
