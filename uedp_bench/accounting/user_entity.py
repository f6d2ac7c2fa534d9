"""User sampling with one-level clipping, accounted for a user together with an entity.

Neighbouring data sets differ in one user and in every sentence, of any user, that mentions one
entity; k other users mention it. Up to k + 1 clipped updates are in one sum only or change between
two vectors of norm at most 1, and each sampled user has one coin. Both output laws are therefore
mixtures of Gaussians. Collinear, opposed centres are the worst case (the proof idea, by Kahane's
interpolation, is in `docs/accounting.md`), so a round is dominated by

    P = N(0, s^2) + Bin(k + 1, q)   against   Q = N(0, s^2) - Bin(k, q)

and by the same pair with Bin(k, q) above and Bin(k + 1, q) below: removing and adding compose
separately. ln dP/dQ increases, so every hockey-stick divergence is a difference of normal tails;
connecting the dots (Doroshenko et al. 2022, arXiv:2207.04380) makes them a discrete privacy loss
distribution that errs on the safe side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from uedp_bench.accounting.invert import epsilon_at

from uedp_bench.accounting.events import (
    GroupRound,
    Protected,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = npt.NDArray[np.float64]

SPREADS = (0, 1, 3, 10, 30, 100)
"""The points of the curve, beside everybody."""

_TAIL = 1e-24  # binomial mass left out on each side; it goes to infinite loss
_REACH = 10.0  # noise deviations covered beyond the outermost centres; 8e-24 lies outside
_TERMS = 1024  # most centres of a mixture
_STEPS = 200  # grid steps in one standard deviation of the privacy loss
_POINTS = 1 << 17  # most grid points of one round
_FINEST = 1e-9  # narrowest grid step: below it rounding would show
_COARSEST = 0.5  # widest grid step, in nats; beyond it the unsampled bound is used


@dataclass(frozen=True, eq=False)
class Mixture:
    """Weights of N(centre, s^2), all centres of one sign.

    Attributes:
        log_weights: (n,) natural logarithms; they may add up to less than 1.
        centres: (n,) increasing in absolute value.
        lost: an upper bound on the weight left out.
    """

    log_weights: Array
    centres: Array
    lost: float


@dataclass(frozen=True, eq=False)
class Pair:
    """`upper` (centres >= 0) against `lower` (centres <= 0), both with noise `scale`."""

    upper: Mixture
    lower: Mixture
    scale: float

    def log_ratio(self, x: Array) -> tuple[Array, Array]:
        """Ln dP/dQ at x, (m,), and its derivative; both increase with x."""
        upper, upper_slope = _log_tilt(self.upper, x, self.scale)
        lower, lower_slope = _log_tilt(self.lower, x, self.scale)
        return upper - lower, upper_slope - lower_slope

    def loss(self) -> tuple[float, float, float]:
        """Lowest and highest privacy loss that matters, and its standard deviation under P."""
        reach = _REACH * self.scale
        x = np.linspace(self.upper.centres[0] - reach, self.upper.centres[-1] + reach, 4001)
        ratio, _ = self.log_ratio(x)
        log_density = _log_tilt(self.upper, x, self.scale)[0] - x**2 / (2 * self.scale**2)
        weight = np.exp(log_density - log_density.max())
        weight /= weight.sum()
        mean = float(weight @ ratio)
        return float(ratio[0]), float(ratio[-1]), math.sqrt(float(weight @ (ratio - mean) ** 2))

    def deltas(self, epsilons: Array) -> Array:
        """Hockey-stick divergences of P from Q.

        sup_A P(A) - e^epsilon Q(A) is attained where ln dP/dQ exceeds epsilon; weight left out of
        P is added, weight left out of Q can only have lowered it.

        Args:
            epsilons: (m,) of any sign.

        Returns:
            (m,) in [0, 1].
        """
        x = self._crossings(epsilons)
        upper = _log_upper_tail(self.upper, x, self.scale)
        lower = _log_upper_tail(self.lower, x, self.scale)
        difference = np.exp(upper) * -np.expm1(np.minimum(epsilons + lower - upper, 0.0))
        return np.clip(difference + self.upper.lost + _TAIL, 0.0, 1.0)

    def _crossings(self, epsilons: Array) -> Array:
        """Where ln dP/dQ equals epsilon, (m,): Newton's method, bisecting where it leaves.

        The ratio is bounded where both mixtures have a centre at 0. Losses it does not reach
        within eleven deviations get the end of that range: less than `_TAIL` lies beyond.
        """
        reach = (_REACH + 1.0) * self.scale
        knots = np.linspace(self.lower.centres[-1] - reach, self.upper.centres[-1] + reach, 4001)
        ratios = np.maximum.accumulate(self.log_ratio(knots)[0])
        above = np.clip(np.searchsorted(ratios, epsilons), 1, knots.size - 1)
        low, high = knots[above - 1], knots[above]
        target = np.clip(epsilons, ratios[0], ratios[-1])
        x = np.clip(np.interp(target, ratios, knots), low, high)
        for _ in range(60):  # bisection alone would reach the last bit
            ratio, slope = self.log_ratio(x)
            error = ratio - target
            if np.max(np.abs(error) / (1.0 + np.abs(target))) < 1e-13:
                break
            low, high = np.where(error < 0.0, x, low), np.where(error > 0.0, x, high)
            newton = x - error / np.maximum(slope, 1e-300)
            x = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2.0)
        return np.asarray(x)


def _log_tilt(mixture: Mixture, x: Array, scale: float) -> tuple[Array, Array]:
    """Ln of mixture density over N(0, scale^2) at x, and its derivative; both (m,)."""
    values, slopes = np.empty_like(x), np.empty_like(x)
    constant = mixture.log_weights - mixture.centres**2 / (2 * scale**2)
    step = max(1, 2_000_000 // mixture.centres.size)
    for start in range(0, x.size, step):
        part = slice(start, start + step)
        exponents = constant + np.multiply.outer(x[part], mixture.centres / scale**2)
        top = exponents.max(axis=1)
        weights = np.exp(exponents - top[:, None])
        total = weights.sum(axis=1)
        values[part] = top + np.log(total)
        slopes[part] = weights @ mixture.centres / total / scale**2
    return values, slopes


def _log_upper_tail(mixture: Mixture, x: Array, scale: float) -> Array:
    """Ln P(X > x) of the mixture, (m,)."""
    from scipy.special import log_ndtr

    values = np.empty_like(x)
    step = max(1, 2_000_000 // mixture.centres.size)
    for start in range(0, x.size, step):
        part = slice(start, start + step)
        tails = mixture.log_weights + log_ndtr(
            np.subtract.outer(mixture.centres, x[part]).T / scale
        )
        values[part] = np.logaddexp.reduce(tails, axis=1)
    return values


def binomial_mixture(count: int, rate: float, sign: int) -> Mixture:
    """Centres sign * Bin(count, rate), shortened on the safe side.

    Bernstein's inequality says which tails weigh less than 1e-24; they are left out (see
    `Mixture.lost`). Where more than 1,024 values remain, runs of values share the largest of them,
    which can only raise a divergence of opposed mixtures.
    """
    from scipy.stats import binom

    log_tail = -math.log(_TAIL)
    variance = count * rate * (1.0 - rate)
    reach = log_tail / 3.0 + math.sqrt(log_tail**2 / 9.0 + 2.0 * variance * log_tail)
    low = max(0, math.floor(count * rate - reach))
    high = min(count, math.ceil(count * rate + reach))
    values = np.arange(low, high + 1)
    log_weights = np.asarray(binom.logpmf(values, count, rate), dtype=np.float64)
    kept = log_weights > -math.inf
    values, log_weights = values[kept], log_weights[kept]
    width = -(-values.size // _TERMS)
    if width > 1:
        starts = np.arange(0, values.size, width)
        log_weights = np.logaddexp.reduceat(log_weights, starts)
        values = values[np.minimum(starts + width, values.size) - 1]
    lost = 0.0 if high - low == count else 2.0 * _TAIL
    return Mixture(log_weights, sign * values.astype(np.float64), lost)


def dominating_pairs(event: GroupRound, point: Protected) -> tuple[Pair, Pair]:
    """The pairs of removing and of adding, for an entity at this point of the curve."""
    spread = point.spread
    both = ((spread + 1, spread), (spread, spread + 1))
    if isinstance(event, SentenceSampledGaussian):
        group = event.sentences_per_user + point.sentences
        both = ((group, 0), (0, group))
    elif isinstance(event, TwoLevelUserEntityGaussian):
        raise NotImplementedError
    remove, add = (
        Pair(
            binomial_mixture(above, event.rate, 1),
            binomial_mixture(below, event.rate, -1),
            event.noise_multiplier,
        )
        for above, below in both
    )
    return remove, add


def _pmf(pair: Pair, step: float, bounds: tuple[float, float]) -> Any:
    """The pair's privacy loss on a grid, on the safe side (a dp-accounting `PLDPmf`)."""
    from dp_accounting.pld import pld_pmf

    first, last = math.floor(bounds[0] / step), math.ceil(bounds[1] / step)
    grid = np.arange(first, last + 1)
    # Rounding may leave the divergences an ulp out of order; the larger value is the safe one.
    deltas = np.maximum.accumulate(pair.deltas(grid.astype(np.float64) * step)[::-1])[::-1]
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, first, last, deltas)


def _composed(pairs: Sequence[Pair], counts: Sequence[int], delta: float) -> float:
    """Epsilon of every pair repeated `counts` times; infinity where no grid is fine enough."""
    from dp_accounting.pld import pld_pmf

    losses = [pair.loss() for pair in pairs]
    variance = sum(n * deviation**2 for n, (_, _, deviation) in zip(counts, losses, strict=True))
    step = max(
        math.sqrt(variance / sum(counts)) / _STEPS,
        max(high - low for low, high, _ in losses) / _POINTS,
        _FINEST,
    )
    if step > _COARSEST:
        return math.inf
    total = None
    for pair, count, (low, high, _) in zip(pairs, counts, losses, strict=True):
        pmf = _pmf(pair, step, (low, high)).self_compose(count)
        total = pmf if total is None else pld_pmf.compose_pmfs(total, pmf, 1e-15)
    return 0.0 if total is None else epsilon_at(total.get_delta_for_epsilon, delta)


def _unsampled(
    rounds: Sequence[tuple[GroupRound, int]], point: Protected, delta: float
) -> float:
    """Epsilon as if every user took part in every round: one Gaussian mechanism."""
    from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

    precision = sum(
        count * (_reach_of(event, point) / event.noise_multiplier) ** 2 for event, count in rounds
    )
    return float(get_epsilon_gaussian(1.0 / math.sqrt(precision), delta))


def _reach_of(event: GroupRound, point: Protected) -> float:
    """How far the sum moves at most, if everybody takes part."""
    if isinstance(event, SentenceSampledGaussian):
        return float(event.sentences_per_user + point.sentences)
    return 2.0 * point.spread + 1.0


@lru_cache(maxsize=4096)
def user_entity_epsilon(
    rounds: tuple[tuple[GroupRound, int], ...], point: Protected, delta: float
) -> float:
    """Epsilon of all rounds, for an entity at one point of the curve.

    Args:
        rounds: events, each with the number of times it happens.
        point: who mentions the entity beside the protected user.
        delta: in (0, 1).

    Returns:
        The larger of the two directions; 0 where no user is ever sampled, infinity without noise.
    """
    active = [
        (event, count)
        for event, count in rounds
        if count > 0 and event.rate > 0.0 and not math.isinf(event.noise_multiplier)
    ]
    if not active:
        return 0.0
    if any(event.noise_multiplier == 0.0 for event, _ in active):
        return math.inf
    pairs = [dominating_pairs(event, point) for event, _ in active]
    counts = [count for _, count in active]
    sampled = max(_composed(side, counts, delta) for side in zip(*pairs, strict=True))
    return min(sampled, _unsampled(active, point, delta))


def curve_spreads(users: int) -> tuple[int, ...]:
    """The spreads at which the curve is given: the standard ones, then everybody."""
    return (*(k for k in SPREADS if k < users - 1), users - 1)
