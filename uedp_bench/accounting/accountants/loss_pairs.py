"""Pairs of distributions that dominate events, and the epsilon of their composition.

The first currency: dominating pairs compose (Zhu, Dong and Wang 2022, arXiv:2106.08567, Theorem
10), adaptively. A pair dominates an event if no threshold tells neighbours apart better than the
pair's two distributions (docs/proofs.md).

A vector with Laplace noise on every coordinate is a composition of one-dimensional mechanisms: its
privacy loss is a sum over coordinates, which concentrates far below the sum of their epsilons. Of a
mechanism that is known by its promise alone, the worst pair is known (Kairouz, Oh and Viswanath
2015, arXiv:1311.0776, Theorem 3.3 and section 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

import numpy as np

from uedp_bench.accounting.accountants.dominating_pairs import (
    DISJOINT,
    IDENTICAL,
    TAIL,
    Array,
    DiscretePair,
    LossPair,
    Pair,
    Window,
    binomial_mixture,
)
from uedp_bench.accounting.accountants.privacy_loss_grid import (
    STEPS,
    Losses,
    Round,
    compositions,
    connect_the_dots,
    epsilon_of,
)
from uedp_bench.accounting.accountants.user_entity import dominating_pairs
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import AccountantTable, Event, Neighbours, Promise
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    GroupRound,
    LaplaceVector,
    PoissonSampled,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)

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


# ---------------------------------------------------------------------------------- pairs of events


NoisySum = Gaussian | PoissonSampled | FixedSizeSampled | GroupRound
"""Events of one round whose noise is that of one sum over all units."""

S = TypeVar("S", bound=NoisySum)

_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e8
"""Noise multipliers whose squares accountants can invert without overflow."""


def representable(event: S) -> S:
    """Round an event's noise down: next to none is none, and 1e8 is the most."""
    noise = event.noise_multiplier
    if _LEAST_NOISE <= noise <= _MOST_NOISE or noise == 0.0 or math.isinf(noise):
        return event
    change: dict[str, Any] = {"noise_multiplier": 0.0 if noise < _LEAST_NOISE else _MOST_NOISE}
    if isinstance(event, PoissonSampled | FixedSizeSampled):
        change = {"event": event.event.model_copy(update=change)}
    return cast("S", event.model_copy(update=change))


def happens(event: NoisySum, count: int) -> bool:
    """True if anything about any unit is released."""
    rate = event.rate if isinstance(event, PoissonSampled | GroupRound) else 1.0
    return count > 0 and rate > 0.0 and not math.isinf(event.noise_multiplier)


@AccountantTable
def loss_pairs(event: Event, neighbours: Neighbours) -> tuple[LossPair, LossPair] | None:
    """Pairs that dominate an event, where something is removed and where it is added.

    Args:
        event: one event.
        neighbours: difference between the data sets.

    Returns:
        The pairs of both directions; None where none is known.
    """
    return None


@loss_pairs.register(
    Gaussian,
    PoissonSampled,
    UserEntityGaussian,
    TwoLevelUserEntityGaussian,
    SentenceSampledGaussian,
)
def _noisy_sum(
    event: Gaussian | PoissonSampled | GroupRound, neighbours: Neighbours
) -> tuple[LossPair, LossPair] | None:
    """Pairs of one round; those of a fixed size have none: who else is in depends on the unit."""
    event = representable(event)
    if not happens(event, 1):
        return IDENTICAL, IDENTICAL
    if event.noise_multiplier == 0.0:
        return DISJOINT, DISJOINT
    if neighbours.adjacency == "replace-one":
        if isinstance(event, GroupRound):
            return None
        # A unit with a coin of its own changes from one vector to another (docs/proofs.md, 4).
        rate = event.rate if isinstance(event, PoissonSampled) else 1.0
        forward, back = binomial_mixture(1, rate, 1), binomial_mixture(1, rate, -1)
        replaced = Pair(forward, back, event.noise_multiplier)
        return replaced, replaced
    return dominating_pairs(event, neighbours.point)


@loss_pairs.register(LaplaceVector)
def _laplace(event: LaplaceVector, neighbours: Neighbours) -> tuple[LossPair, LossPair] | None:
    """Laws of vectors that differ by as much as they may in every coordinate."""
    shift = event.sensitivity / event.scale / event.coordinates
    pair = laplace_pair(shift, event.coordinates, event.dropout)
    return None if pair is None else (pair, pair)


@loss_pairs.register(BandedFactorization)
def _banded(event: BandedFactorization, neighbours: Neighbours) -> tuple[LossPair, LossPair] | None:
    """The two normal laws that dominate all rounds together."""
    return loss_pairs(event.as_gaussian(neighbours), Neighbours("add-or-remove"))


def pairs_epsilon(pairs: Sequence[tuple[tuple[Any, Any], int]], delta: float) -> float:
    """Epsilon of dominating pairs in sequence, the larger of both directions.

    Args:
        pairs: (removing, adding), each with the number of times it happens, positive.
        delta: in (0, 1).
    """
    if not pairs:
        return 0.0
    worst = 0.0
    for side in range(2):
        rounds = [Round(((1.0, pair[side]),), count) for pair, count in pairs]
        # No grid has a finite loss to start from where an outcome is certain to tell.
        if any(_tells(part.pairs[0][1]) for part in rounds):
            return math.inf
        worst = max(worst, epsilon_of(rounds, delta, steps=_steps(rounds)))
    return worst


_LEAST_STEPS = 5 * STEPS
_FINER = 100.0
"""Factor by which a grid is finer for rounds with little loss than for equal rounds."""


def _steps(rounds: Sequence[Round]) -> int:
    """Steps in a mean deviation, so many that rounds with the least loss have `STEPS` of them.

    Few outcomes lie on no grid, which costs half a step for each round: so `_LEAST_STEPS` at least.
    """
    spreads = [part.pairs[0][1].window().deviation for part in rounds]
    counts = [part.count for part in rounds]
    mean = math.sqrt(sum(n * s**2 for n, s in zip(counts, spreads, strict=True)) / sum(counts))
    least = min((s for s in spreads if s > 0.0), default=mean)
    return max(_LEAST_STEPS, math.ceil(STEPS * min(_FINER, mean / least if least else 1.0)))


def _tells(pair: Any) -> bool:
    return bool(pair.deltas(np.array([pair.window().high]))[0] > 1.0 - 1e-12)
