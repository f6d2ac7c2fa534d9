"""Checks of noise that was added, against the scale that an event says it has.

An event is made of the scale that a sampler drew with. These checks look at the numbers themselves,
so that noise which a broken generator, a lost addition or another scale took away stops the run.
Every check is a tail bound of a gamma distribution: noise that is as stated fails one with
probability 3e-18 at most, whatever the private data are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uedp_bench.errors import PrivacyError

_NATS = 41.0
"""Noise as stated lies outside either tail with probability e^-41 at most (Chernoff)."""

Numbers = NDArray[np.floating[Any]]


def check_gamma(total: float, shape: float, name: str) -> None:
    """Refuse a number that cannot come from the gamma distribution of this shape and scale 1.

    Args:
        total: the number.
        shape: shape of the distribution, above 0; at 0, where nothing was drawn, nothing is
            checked.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if it lies in either tail of probability e^-41.
    """
    if shape == 0:
        return
    ratio = total / shape
    # P(mean <= r) for r < 1, and P(mean >= r) for r > 1, are at most (r e^(1-r))^shape.
    if not (ratio > 0.0 and shape * (ratio - 1.0 - math.log(ratio)) <= _NATS):
        raise PrivacyError(
            f"{name} is not what its event says: the numbers that were added have {ratio:.3g} "
            "times the mean that they should have, which chance does not explain"
        )


def check_laplace(before: Numbers, after: Numbers, scale: float | Numbers, name: str) -> None:
    """Refuse a difference that is no Laplace noise of a scale: |x| / scale is exponential.

    Args:
        before: numbers without noise.
        after: numbers with noise, of any shape that `before` and `scale` fit to.
        scale: scale of the noise; where it is 0, nothing is checked.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if chance does not explain the mean of the difference.
    """
    added = _standard(before, after, scale)
    check_gamma(float(np.abs(added).sum()), added.size, name)


def check_normal(before: Numbers, after: Numbers, deviation: float, name: str) -> None:
    """Refuse a difference that is no normal noise of a deviation: x^2 / 2 is gamma of shape 1/2.

    Args:
        before: numbers without noise.
        after: numbers with noise.
        deviation: standard deviation of the noise; where it is 0, nothing is checked.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if chance does not explain the mean square of the difference.
    """
    added = _standard(before, after, deviation)
    check_gamma(float(np.dot(added, added)) / 2.0, added.size / 2.0, name)


def check_gumbel(noise: Numbers, name: str) -> None:
    """Refuse numbers that are no standard Gumbel noise: e^-x is exponential.

    So is -log(1 - u) for the uniform u = exp(-e^-x), in which the other tail counts.

    Args:
        noise: any number of numbers.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if chance does not explain one of both means.
    """
    left = np.exp(-np.asarray(noise, dtype=np.float64))
    right = -np.log(-np.expm1(-left))
    for tail in (left, right):
        check_gamma(float(tail.sum()), tail.size, name)


def _standard(before: Numbers, after: Numbers, scale: float | Numbers) -> Numbers:
    """(n,) differences over their scale, where rounding does not swallow them.

    Which these are depends on the numbers without noise, and not on the noise.
    """
    values = np.broadcast_to(np.asarray(before, dtype=np.float64), after.shape)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), after.shape)
    numbers = np.finfo(after.dtype)
    fine = scales > 8.0 * numbers.eps * np.maximum(np.abs(values), numbers.tiny)
    standard: Numbers = (after[fine].astype(np.float64) - values[fine]) / scales[fine]
    return standard


def check_bits(content: NDArray[np.uint8], name: str) -> None:
    """Refuse bytes that are no uniform random bytes: half of their bits are set (Hoeffding).

    Args:
        content: any number of bytes.
        name: name of the random numbers, for the message.

    Raises:
        PrivacyError: if chance does not explain how many bits are set.
    """
    bits = 8 * content.size
    share = float(np.bitwise_count(content).sum()) / bits if bits else 0.5
    if 2.0 * bits * (share - 0.5) ** 2 > _NATS:
        raise PrivacyError(
            f"{name} are not random: {share:.1%} of {bits:,} bits are set, which chance does not "
            "explain"
        )
