"""Pairs of distributions that dominate events, and the epsilon of their composition.

The first currency: dominating pairs compose (Zhu, Dong and Wang 2022, arXiv:2106.08567, Theorem
10), adaptively. A pair dominates an event if no threshold tells neighbours apart better than the
pair's two distributions (docs/proofs.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np

from uedp_bench.accounting.accountants.dominating_pairs import (
    DISJOINT,
    IDENTICAL,
    LossPair,
    Pair,
    binomial_mixture,
)
from uedp_bench.accounting.accountants.laplace_losses import laplace_pair
from uedp_bench.accounting.accountants.privacy_loss_grid import STEPS, Round, epsilon_of
from uedp_bench.accounting.accountants.user_entity import dominating_pairs
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import AccountantTable, Event, Neighbours
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
