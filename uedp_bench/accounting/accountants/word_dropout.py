"""Epsilon where the element that neighbours differ in is dropped at a public rate first."""

from __future__ import annotations

import math


def dropout_epsilon(epsilon: float, dropout: float) -> float:
    """ln((1 - mu) e^epsilon + mu): the element that neighbours differ in is dropped with rate mu.

    Let a, b and c be the densities at one output of the element dropped, and of the two
    neighbours. Each is within e^epsilon of the others, for dropping is a change too. Then
    (mu a + (1 - mu) b) / (mu a + (1 - mu) c) is largest at b = e^epsilon c and the smallest a
    that these allow, a = c, where it is (1 - mu) e^epsilon + mu.

    Args:
        epsilon: without dropout.
        dropout: mu, in [0, 1].
    """
    if dropout == 0.0:
        return epsilon
    if dropout == 1.0:
        return 0.0
    if epsilon < 1.0:
        return math.log1p((1.0 - dropout) * math.expm1(epsilon))
    return epsilon + math.log((1.0 - dropout) + dropout * math.exp(-epsilon))


def before_dropout(epsilon: float, dropout: float) -> float:
    """The inverse of `dropout_epsilon`: what may be spent without dropout to have this with it.

    Args:
        epsilon: with dropout, at least 0.
        dropout: mu, in [0, 1).
    """
    if dropout == 0.0:
        return epsilon
    if epsilon < 1.0:
        return math.log1p(math.expm1(epsilon) / (1.0 - dropout))
    return epsilon + math.log1p(-dropout * math.exp(-epsilon)) - math.log1p(-dropout)
