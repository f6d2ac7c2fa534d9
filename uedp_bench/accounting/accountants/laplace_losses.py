"""Dominating pairs of mechanisms that promise pure or approximate privacy.

A vector with Laplace noise on every coordinate is a composition of one-dimensional mechanisms: its
privacy loss is a sum over coordinates, which concentrates far below the sum of their epsilons. Of a
mechanism that is known by its promise alone, the worst pair is known (Kairouz, Oh and Viswanath
2015, arXiv:1311.0776, Theorem 3.3 and section 3.2).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from uedp_bench.accounting.accountants.dominating_pairs import (
    IDENTICAL,
    TAIL,
    Array,
    DiscretePair,
    LossPair,
    Window,
)
from uedp_bench.accounting.accountants.privacy_loss_grid import (
    Losses,
    compositions,
    connect_the_dots,
)
from uedp_bench.accounting.event_contract import Promise

_LARGEST_LOSS = 50.0
"""Nats of one coordinate, or of a promise; with more, epsilons only add up."""

_STEPS = 128
"""Grid steps in the largest loss of one coordinate, at most; atoms lie on the grid."""

_COMPOSED = 1 << 20
"""Grid points of the composition of all coordinates, about."""

_DELTAS = (1e-9, 1e-14)
"""Deltas for which compositions are made: where rounding shows, two bounds are better than one."""


def promised_pair(promise: Promise) -> LossPair | None:
    """The pair that dominates every mechanism with this promise, in both directions.

    Returns:
        None where epsilon is so large that nothing is gained.
    """
    epsilon, delta = promise
    if not epsilon <= _LARGEST_LOSS or delta >= 1.0:
        return None
    likely = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    rare = (1.0 - delta) / (1.0 + math.exp(epsilon))
    return DiscretePair([delta, likely, rare, 0.0], [0.0, rare, likely, delta])


def laplace_pair(shift: float, coordinates: int, dropout: float) -> LossPair | None:
    """The pair that dominates Laplace noise on a vector, whichever of two neighbours comes first.

    Args:
        shift: how far a coordinate moves, at most, over the scale of the noise.
        coordinates: number of coordinates, each with noise of its own.
        dropout: probability that the element that neighbours differ in is dropped first.

    Returns:
        None where no grid is fine and wide enough; then epsilons only add up.
    """
    if shift == 0.0 or dropout == 1.0:
        return IDENTICAL
    steps = min(_STEPS, int(_COMPOSED / (20.0 * math.sqrt(coordinates))))
    if shift > _LARGEST_LOSS or steps < 1:
        return None
    return LaplacePair(shift, coordinates, dropout, steps)


class LaplacePair:
    """The laws of a noisy vector at two neighbours that differ by `shift` in every coordinate.

    Coordinates that move by less are dominated by those that move by all of it, because the
    divergence of two Laplace laws grows with their distance.

    Args:
        shift: see `laplace_pair`.
        coordinates: likewise.
        dropout: likewise.
        steps: of the grid, in `shift`.
    """

    def __init__(self, shift: float, coordinates: int, dropout: float, steps: int) -> None:
        self._dropout = dropout
        self._bounds = _composed(shift, coordinates, steps)

    @property
    def size(self) -> int:
        """A few numbers: divergences are looked up."""
        return 4

    def window(self) -> Window:
        """See `LossPair.window`."""
        first = self._bounds[0]
        losses = first.step * (first.first + np.arange(first.masses.size))
        weights = first.masses / first.masses.sum()
        deviation = math.sqrt(float(weights @ (losses - weights @ losses) ** 2))
        high = max(abs(float(losses[0])), abs(float(losses[-1])))
        return Window(-high, high, math.sqrt(1.0 - self._dropout) * deviation)

    def deltas(self, epsilons: Array) -> Array:
        """Hockey-stick divergences, rounded up.

        Where the element is dropped with probability mu, delta at ln(1 + (1 - mu)(e^epsilon - 1))
        is (1 - mu) times that at epsilon (Balle, Barthe and Gaboardi 2018, arXiv:1807.01647,
        Theorem 2): the law with the element dropped is a neighbour of both. Below 0 the pair is
        its own mirror image.
        """
        sizes, kept = np.abs(epsilons), 1.0 - self._dropout
        small = np.log1p(np.expm1(np.minimum(sizes, 1.0)) / kept)
        large = sizes + np.log1p(-self._dropout * np.exp(-sizes)) - math.log(kept)
        before = np.where(sizes < 1.0, small, large)
        above = kept * np.min([bound.deltas(before) for bound in self._bounds], axis=0)
        mirrored = np.exp(-sizes) * above - np.expm1(-sizes)
        return np.asarray(np.clip(np.where(epsilons < 0.0, mirrored, above) + TAIL, 0.0, 1.0))


@lru_cache(maxsize=16)
def _composed(shift: float, coordinates: int, steps: int) -> tuple[Losses, ...]:
    """Bounds on the privacy loss of all coordinates, each valid by itself."""
    step = shift / steps
    epsilons = step * np.arange(-steps, steps + 1)
    # Two Laplace laws of scale 1 that are `shift` apart.
    deltas = -np.expm1((epsilons - shift) / 2.0)
    one = Losses(step, -steps, connect_the_dots(deltas, step), float(deltas[-1]))
    bounds = [bound for at in _DELTAS for bound in compositions([one], [coordinates], at)]
    return tuple(bounds)
