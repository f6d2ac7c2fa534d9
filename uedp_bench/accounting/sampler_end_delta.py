"""Delta that a sampler adds because its noise is bounded (docs/proofs.md, section 9).

No sampler reaches every real number: that of the package ends at `GAUSSIAN_END` deviations. An
outcome beyond what one data set can give identifies the other, so the divergence of the real
mechanism exceeds that of the ideal one by a mass that this module bounds. It comes off delta before
epsilon is computed; where it leaves too little of delta, epsilon is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from uedp_bench.accounting.event_contract import Adjacency, Protected
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    GroupRound,
    PoissonSampled,
    SentenceSampledGaussian,
)
from uedp_bench.errors import PrivacyError

BITS = 53
"""Random bits of a uniform number of `Generator.random`: a multiple of 2^-53 below 1."""

_TAIL_STARTS = 3.6541528853610088
"""End of the ziggurat's layers and begin of its tail (`ziggurat_nor_r` of NumPy)."""

GAUSSIAN_END = _TAIL_STARTS + math.sqrt(2.0 * BITS * math.log(2.0))
"""Standard deviations that `standard_normal` cannot exceed, 12.23.

Beyond 3.654 NumPy takes x = -ln(1 - U) / 3.654 where -2 ln(1 - U') > x^2 (Marsaglia's tail), and
-ln(1 - U') is at most 53 ln 2. `torch.randn` ends at 5.77 in float32 and at 8.57 in float64.
"""

Round = Gaussian | PoissonSampled | FixedSizeSampled | GroupRound

COORDINATES = 2**30
"""Most coordinates of one round's noise; the bound grows with their square root."""


def check_coordinates(coordinates: int) -> None:
    """Refuse a vector with more coordinates than theorem D speaks of.

    Raises:
        PrivacyError: for more than `COORDINATES`.
    """
    if coordinates > COORDINATES:
        raise PrivacyError(
            f"a vector of {coordinates:,} numbers is to be released with noise; guarantees hold "
            f"for at most {COORDINATES:,} (docs/proofs.md, section 9): train fewer weights"
        )


_TERMS = 512
"""Most numbers of coins told apart; more share the largest of a run, which is the safe side."""

SHARE = 1e-9
"""Share of delta that is set aside for what lies beyond the end."""

REASON = (
    "outcomes that the end of the sampler of noise makes impossible on one data set only may be "
    "more likely than delta"
)


@dataclass(frozen=True)
class Moved:
    """Move of a round's noisy sum by one unit, in standard deviations of its noise.

    Attributes:
        above: contributions that one data set has and the other lacks, or has otherwise; each takes
            part by a coin of its own.
        below: those that stand in the other data set in their place.
        rate: probability of each coin.
        unit: largest length of a contribution.
        widest: largest distance of two outcomes without noise.
    """

    above: int
    below: int
    rate: float
    unit: float
    widest: float

    @property
    def length(self) -> float:
        """Length of all contributions that neighbours differ in (R of theorem D)."""
        return (self.above + self.below) * self.unit


def moved(event: Round, adjacency: Adjacency, point: Protected) -> Moved:
    """Difference of neighbours in one round.

    Args:
        event: event of the round.
        adjacency: difference in the unit; replacing one moves the sum twice.
        point: point of the curve, for rounds of a user together with an entity.
    """
    if isinstance(event, GroupRound):
        above, below = contributions(event, point)
        unit = 1.0 / event.noise_multiplier
        return Moved(above, below, event.rate, unit, (above + below) * unit)
    gaussian = event if isinstance(event, Gaussian) else event.event
    unit, below = 1.0 / gaussian.noise_multiplier, int(adjacency == "replace-one")
    if isinstance(event, FixedSizeSampled):
        # Another unit's vector is taken out beside each; outcomes still differ by two at most.
        return Moved(1, below, event.sample / event.population, 2.0 * unit, 2.0 * unit)
    rate = event.rate if isinstance(event, PoissonSampled) else 1.0
    return Moved(1, below, rate, unit, (1 + below) * unit)


def contributions(event: GroupRound, point: Protected) -> tuple[int, int]:
    """Contributions above and below that neighbours (one with the group removed) may have."""
    if isinstance(event, SentenceSampledGaussian):
        n, others = event.sentences_per_user, event.users - 1
        spread = point.spread * min(point.sentences_per_user, n)
        return n + min(spread, n * others), 0
    spread = min(point.spread, event.users - 1)
    return spread + 1, spread


def mass(
    rounds: Iterable[tuple[Moved, int]],
    epsilon: float,
    end: float = GAUSSIAN_END,
    coordinates: int = COORDINATES,
) -> float:
    """Bound on the delta that the end of the sampler adds (theorem D).

    Args:
        rounds: differences of neighbours in a round, each with its number of rounds.
        epsilon: epsilon of the guarantee for noise without an end.
        end: end of the sampler, in standard deviations.
        coordinates: most coordinates of a round's noise.
    """
    rounds = list(rounds)
    times = math.fsum(count for _, count in rounds)
    added = math.fsum(
        count * _of_round(move, _exp(epsilon), end, coordinates) for move, count in rounds
    )
    # The ended noise is the ideal one given that it stays inside: probabilities grow by as much.
    return added + times * _beyond_end(end, coordinates)


def _beyond_end(end: float = GAUSSIAN_END, coordinates: int = COORDINATES) -> float:
    """Probability that noise without an end leaves the reach of the sampler in one round."""
    from scipy.special import log_ndtr

    return math.exp(float(log_ndtr(-end)) + math.log(2.0 * coordinates))


def _of_round(move: Moved, ratio: float, end: float, coordinates: int) -> float:
    """The bound of theorem D for one round, in the direction that is the worse.

    Args:
        move: difference of neighbours.
        ratio: e^epsilon.
        end: end of the sampler, in standard deviations.
        coordinates: coordinates of the noise.
    """
    import numpy as np

    from uedp_bench.accounting.accountants.dominating_pairs import binomial_mixture

    dense = math.sqrt(coordinates) * move.length
    once = ratio * min(_beyond_end(end, coordinates), dense * _density(end))
    above, below = (
        binomial_mixture(coins, move.rate, 1, unit=move.unit, terms=_TERMS)
        for coins in (move.above, move.below)
    )
    worst = 0.0
    for present, absent in ((above, below), (below, above)):
        apart = np.minimum(np.add.outer(present.centres, absent.centres), move.widest)
        gap = np.maximum(end - apart, 0.0)
        shown = np.minimum(1.0, dense * np.exp(-(gap**2) / 2.0) / math.sqrt(2.0 * math.pi))
        shown = np.where(apart >= end, 1.0, np.where(apart == 0.0, 0.0, shown))
        likely = np.exp(present.log_weights) @ shown + present.lost
        rare = once * np.exp(absent.log_weights)
        worst = max(worst, float(np.minimum(likely, rare).sum()) + once * absent.lost)
    return worst


def _density(x: float) -> float:
    return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))


def whole(rounds: float, epsilon: float, end: float = GAUSSIAN_END) -> float:
    """Bound on the added delta for any use of the noise: e^epsilon times all beyond the end.

    Args:
        rounds: expected number of rounds that draw noise.
        epsilon: epsilon of the guarantee for noise without an end.
        end: end of the sampler, in standard deviations.
    """
    return (1.0 + _exp(epsilon)) * rounds * _beyond_end(end)


def identified(move: Moved, rounds: int, end: float = GAUSSIAN_END) -> float:
    """Delta that an update of one coordinate loses for certain: probability of a telling outcome.

    No smaller delta holds at any epsilon, whatever the accountant says: with a single coordinate,
    an outcome beyond the end of the noise alone can only come with the unit in the data.

    Args:
        move: difference of neighbours; all contributions agree.
        rounds: number of rounds.
        end: end of the sampler, in standard deviations.
    """
    import numpy as np
    from scipy.special import ndtr

    from uedp_bench.accounting.accountants.dominating_pairs import binomial_mixture

    coins = binomial_mixture(move.above, move.rate, 1, unit=move.unit)
    telling = ndtr(coins.centres - end) - ndtr(-end)
    once = min(float(np.exp(coins.log_weights) @ telling), 1.0 - 1e-16)
    return -math.expm1(rounds * math.log1p(-once))


def ideal_delta(delta: float) -> float:
    """The delta that noise without an end must meet, so that the real noise meets `delta`."""
    return delta * (1.0 - SHARE)


def within(
    delta: float, epsilon_of: Callable[[float], float], mass_of: Callable[[float], float]
) -> float:
    """Epsilon of the real mechanism: the ideal one's, with the mass beyond the end in delta.

    Args:
        delta: delta of the guarantee.
        epsilon_of: function from delta to the epsilon of noise without an end.
        mass_of: function from epsilon to the mass beyond the end.

    Returns:
        Infinity where that mass leaves too little of delta.
    """
    ideal = cache(epsilon_of)
    epsilon = ideal(ideal_delta(delta))
    if math.isinf(epsilon):
        return epsilon
    beyond = mass_of(epsilon)
    if beyond <= SHARE * delta:
        return epsilon
    # Epsilon grows with what comes off delta, and the mass with epsilon: twice as much covers it.
    if 2.0 * beyond >= 0.5 * delta:
        return math.inf
    epsilon = ideal(delta - 2.0 * beyond)
    return epsilon if mass_of(epsilon) <= 2.0 * beyond else math.inf
