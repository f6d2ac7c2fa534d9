"""What noise that ends adds to delta (docs/proofs.md, section 9).

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

from uedp_bench.accounting.events import (
    Adjacency,
    FixedSizeSampled,
    Gaussian,
    GroupRound,
    PoissonSampled,
    Protected,
    SentenceSampledGaussian,
)
from uedp_bench.accounting.sampler_end import GAUSSIAN_END

Round = Gaussian | PoissonSampled | FixedSizeSampled | GroupRound

COORDINATES = 2**30
"""Coordinates of the noise of one round, at most; the bound grows with their square root."""

SHARE = 1e-9
"""Of delta, set aside for what lies beyond the end."""

REASON = (
    "outcomes that the end of the sampler of noise makes impossible on one data set only may be "
    "more likely than delta"
)


@dataclass(frozen=True)
class Moved:
    """How far a unit moves the noisy sum of a round, in standard deviations of its noise.

    Attributes:
        most: length of all contributions that neighbours differ in, those of either data set
            counted (R of theorem D).
        coins: contributions that take part by a coin of their own.
        rate: of each coin.
        step: what one coin moves one coordinate by, at most.
    """

    most: float
    coins: int
    rate: float
    step: float


def moved(event: Round, adjacency: Adjacency, point: Protected) -> Moved:
    """What neighbours differ in, in one round.

    Args:
        event: of the round.
        adjacency: replacing a unit moves the sum twice.
        point: who else mentions the entity, for rounds of a user together with an entity.
    """
    if isinstance(event, GroupRound):
        above, below = contributions(event, point)
        step = (2.0 if below else 1.0) / event.noise_multiplier
        most = (above + below) / event.noise_multiplier
        return Moved(most, max(above, below), event.rate, step)
    gaussian = event if isinstance(event, Gaussian) else event.event
    if isinstance(event, FixedSizeSampled):
        # Another unit's vector is taken out beside each; outcomes still differ by two at most.
        scale = gaussian.noise_multiplier
        length = (4.0 if adjacency == "replace-one" else 2.0) / scale
        return Moved(length, 1, event.sample / event.population, 2.0 / scale)
    most = (2.0 if adjacency == "replace-one" else 1.0) / gaussian.noise_multiplier
    return Moved(most, 1, event.rate if isinstance(event, PoissonSampled) else 1.0, most)


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
    delta: float,
    end: float = GAUSSIAN_END,
    coordinates: int = COORDINATES,
) -> float:
    """What the end of the sampler adds to delta (theorem D), at most.

    Args:
        rounds: what neighbours differ in, and how often it happens.
        epsilon: of the guarantee for noise without an end.
        delta: says which numbers of coins are rare enough to be left out.
        end: of the sampler, in standard deviations.
        coordinates: of the noise of a round, at most.
    """
    rounds = list(rounds)
    times = math.fsum(count for _, count in rounds)
    outside = beyond_end(end, coordinates)
    lengths = math.fsum(count * move.most for move, count in rounds)
    added = _exp(epsilon) * math.sqrt(coordinates) * lengths * _density(end)
    if added > SHARE * delta:
        rare = SHARE * delta / (10.0 * max(times, 1.0))
        ratio = _exp(epsilon) * outside
        added = min(added, math.fsum(
            count * _by_shift(move, ratio, rare, (end, coordinates)) for move, count in rounds
        ))  # fmt: skip
    # The ended noise is the ideal one given that it stays inside: probabilities grow by as much.
    return added + times * outside


def beyond_end(end: float = GAUSSIAN_END, coordinates: int = COORDINATES) -> float:
    """Probability that noise without an end leaves the reach of the sampler in one round."""
    from scipy.special import log_ndtr

    return math.exp(float(log_ndtr(-end)) + math.log(2.0 * coordinates))


def _by_shift(move: Moved, ratio: float, rare: float, sampler: tuple[float, int]) -> float:
    """The second bound of theorem D for one round.

    Args:
        move: what neighbours differ in.
        ratio: e^epsilon times the mass beyond the end.
        rare: mass of the numbers of coins that may be left out.
        sampler: its end, and the number of coordinates.
    """
    end, coordinates = sampler
    at_once = _at_once(move, rare / (1.0 + ratio))
    left = _more_coins(move, at_once)
    shift = min(move.most, at_once * move.step)
    if shift >= end:
        return math.inf
    return left * (1.0 + ratio) + math.sqrt(coordinates) * move.most * _density(end - shift)


def _at_once(move: Moved, rare: float) -> int:
    """The smallest number of coins that is exceeded with probability `rare` at most."""
    low, high = -1, move.coins
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _more_coins(move, middle) <= rare else (middle, high)
    return high


def _more_coins(move: Moved, number: int) -> float:
    """Probability that more than `number` of the coins come up."""
    from scipy.special import bdtrc

    return 0.0 if number >= move.coins else float(bdtrc(number, move.coins, move.rate))


def _density(x: float) -> float:
    return math.exp(-x * x / 2.0) / math.sqrt(2.0 * math.pi)


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))


def whole(rounds: float, epsilon: float, end: float = GAUSSIAN_END) -> float:
    """What the end adds to delta whatever is done with the noise: e^epsilon times all beyond it.

    Args:
        rounds: how many draw noise, in expectation.
        epsilon: of the guarantee for noise without an end.
        end: of the sampler, in standard deviations.
    """
    return (1.0 + _exp(epsilon)) * rounds * beyond_end(end)


def identified(move: Moved, rounds: int, end: float = GAUSSIAN_END) -> float:
    """What an update of one coordinate loses for certain: how likely an outcome tells on it.

    No smaller delta holds at any epsilon, whatever the accountant says: with a single coordinate,
    an outcome beyond the end of the noise alone can only come with the unit in the data.

    Args:
        move: what neighbours differ in; all contributions agree.
        rounds: how many.
        end: of the sampler, in standard deviations.
    """
    from scipy.special import log_ndtr

    once = 0.0
    for number in range(1, move.coins + 1):
        share = _more_coins(move, number - 1) - _more_coins(move, number)
        shift = number * move.most / move.coins
        once += share * (_exp(float(log_ndtr(shift - end))) - _exp(float(log_ndtr(-end))))
    return -math.expm1(rounds * math.log1p(-min(once, 1.0 - 1e-16)))


def ideal_delta(delta: float) -> float:
    """The delta that noise without an end must meet, so that the real noise meets `delta`."""
    return delta * (1.0 - SHARE)


def within(
    delta: float, epsilon_of: Callable[[float], float], mass_of: Callable[[float], float]
) -> float:
    """Epsilon of the real mechanism: the ideal one's, with the mass beyond the end in delta.

    Args:
        delta: of the guarantee.
        epsilon_of: epsilon of noise without an end, at a delta.
        mass_of: the mass beyond the end, at an epsilon.

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
