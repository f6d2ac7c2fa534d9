"""Pairs of output distributions: mixtures of Gaussians on a line, and finitely many outcomes.

ln dP/dQ of mixtures on opposed sides increases along the line, so every hockey-stick divergence is
a difference of normal tails, exact but for rounding. The pairs that dominate events are in
`user_entity`. Events of other kinds have their own (`loss_pairs`), a `DiscretePair` for instance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
"""Orders, divergences, epsilons: numbers in double precision."""

TAIL = 1e-20
"""Mass left out on one side of a distribution; it goes to infinite loss."""

MOST_COINS = 10**9
"""Coins whose sum is told apart from all of them; rounding in ln n! shows beyond."""

_REACH = 9.5  # noise deviations covered beyond the outermost centres; 1e-21 lies outside
_KNOTS = 1001  # points of the first, coarse look at a pair
_CELLS = 2_000_000  # largest matrix of points and centres
_NEWTON = 12  # steps, at most; what they leave is added to the divergence


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
    lost: float = 0.0


@dataclass(frozen=True)
class Window:
    """Interval of a pair's losses, from `low` to `high`, with their standard deviation."""

    low: float
    high: float
    deviation: float


class LossPair(Protocol):
    """Two distributions, as accountants of privacy losses need them."""

    @property
    def size(self) -> int:
        """Approximate number of numbers that describe them: the cost of a divergence."""
        ...

    def window(self) -> Window:
        """Losses outside of which P has no mass that matters; infinite ones do not count."""
        ...

    def deltas(self, epsilons: Array) -> Array:
        """Hockey-stick divergences of P from Q at epsilons of any sign, (m,), rounded up."""
        ...


class DiscretePair:
    """Two distributions on the same finitely many outcomes.

    Args:
        upper: (n,) probabilities of the outcomes under P.
        lower: (n,) probabilities under Q.

    Raises:
        ValueError: if one of them is no distribution.
    """

    def __init__(self, upper: npt.ArrayLike, lower: npt.ArrayLike) -> None:
        self._upper = np.asarray(upper, dtype=np.float64)
        self._lower = np.asarray(lower, dtype=np.float64)
        if self._upper.ndim != 1 or self._upper.shape != self._lower.shape:
            raise ValueError("a pair has as many outcomes on either side, in one row")
        for side in (self._upper, self._lower):
            if not (np.all(side >= 0.0) and abs(float(side.sum()) - 1.0) <= 1e-9):
                raise ValueError("probabilities of a pair are 0 or more and add up to 1")

    @property
    def size(self) -> int:
        """Outcomes."""
        return self._upper.size

    def swapped(self) -> DiscretePair:
        """Q against P, for the other direction of an accountant of one's own."""
        return DiscretePair(self._lower, self._upper)

    def window(self) -> Window:
        """See `LossPair.window`."""
        finite = (self._upper > 0.0) & (self._lower > 0.0)
        if not finite.any():
            return Window(0.0, 0.0, 0.0)
        weights = self._upper[finite] / self._upper[finite].sum()
        losses = np.log(self._upper[finite]) - np.log(self._lower[finite])
        deviation = math.sqrt(float(weights @ (losses - weights @ losses) ** 2))
        return Window(float(losses.min()), float(losses.max()), deviation)

    def deltas(self, epsilons: Array) -> Array:
        """See `LossPair.deltas`; exact but for rounding, which is added."""
        with np.errstate(over="ignore"):
            less = np.multiply.outer(np.exp(np.minimum(epsilons, 700.0)), self._lower)
        above = np.maximum(self._upper - less, 0.0).sum(axis=1)
        return np.asarray(np.minimum(above * (1.0 + 1e-14) + TAIL, 1.0))

    def renyi(self, orders: Array) -> Array:
        """Renyi divergences of P from Q at orders above 1, (n,), in nats."""
        support = self._upper > 0.0
        if np.any(self._lower[support] == 0.0):
            return np.full(orders.size, math.inf)
        upper, lower = np.log(self._upper[support]), np.log(self._lower[support])
        exponents = np.multiply.outer(orders, upper) + np.multiply.outer(1.0 - orders, lower)
        top = exponents.max(axis=1)
        moments = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
        return np.asarray(np.maximum(moments / (orders - 1.0), 0.0))


IDENTICAL = DiscretePair([1.0], [1.0])
"""Pair of an event that tells nothing."""

DISJOINT = DiscretePair([1.0, 0.0], [0.0, 1.0])
"""Pair of an event that tells everything."""


@dataclass(frozen=True, eq=False)
class Pair:
    """`upper` (centres >= 0) against `lower` (centres <= 0), both with noise `scale`."""

    upper: Mixture
    lower: Mixture
    scale: float

    @property
    def size(self) -> int:
        """Centres of both mixtures."""
        return self.upper.centres.size + self.lower.centres.size

    def log_ratio(self, x: Array) -> tuple[Array, Array]:
        """Ln dP/dQ at x, (m,), and its derivative; both finite, the first increasing with x."""
        upper, upper_slope = _log_tilt(self.upper, x, self.scale)
        lower, lower_slope = _log_tilt(self.lower, x, self.scale)
        return upper - lower, upper_slope - lower_slope

    def window(self) -> Window:
        """Losses outside of which P has no mass that matters."""
        reach = _REACH * self.scale
        x = np.linspace(self.upper.centres[0] - reach, self.upper.centres[-1] + reach, _KNOTS)
        ratio, _ = self.log_ratio(x)
        log_density = _log_tilt(self.upper, x, self.scale)[0] - x**2 / (2 * self.scale**2)
        weight = np.exp(log_density - log_density.max())
        weight /= weight.sum()
        mean = float(weight @ ratio)
        # What is below the first or above the last loss of the grid is accounted for all the same
        # (at the first loss, and as infinite), so these quantiles need not be exact.
        first = min(int(np.searchsorted(np.cumsum(weight), TAIL)), _KNOTS - 2)
        last = _KNOTS - 1 - min(int(np.searchsorted(np.cumsum(weight[::-1]), TAIL)), _KNOTS - 2)
        deviation = math.sqrt(float(weight @ (ratio - mean) ** 2))
        return Window(float(ratio[min(first, last - 1)]), float(ratio[last]), deviation)

    def deltas(self, epsilons: Array) -> Array:
        """Hockey-stick divergences of P from Q, rounded up.

        sup_A P(A) - e^epsilon Q(A) is attained where ln dP/dQ exceeds epsilon; weight left out of
        P is added, weight left out of Q can only have lowered it. Where Newton's method stops at a
        loss that is larger by e, the outcomes between are missing from A. There dP is at most
        e^(epsilon + e) dQ, so that they add at most (1 - exp(-e)) of their own P, and no more than
        1 - exp(-e) in all. What is added, (exp(e) - 1) P(A), covers that where P(A) is not below
        P(missing) exp(-e), as it is not for an error of 1e-13; a loss that is smaller by e takes in
        outcomes that lower the sum, by at most (exp(e) - 1) P(A) again.

        Args:
            epsilons: (m,) of any sign.

        Returns:
            (m,) in [0, 1].
        """
        x, excess = self._crossings(epsilons)
        upper = _log_upper_tail(self.upper, x, self.scale)
        lower = _log_upper_tail(self.lower, x, self.scale)
        missing = np.expm1(np.clip(excess, 0.0, 1.0))
        share = missing - np.expm1(np.minimum(epsilons + lower - upper, 0.0))
        return np.asarray(np.clip(np.exp(upper) * share + self.upper.lost + TAIL, 0.0, 1.0))

    def _crossings(self, epsilons: Array) -> tuple[Array, Array]:
        """Points where ln dP/dQ equals epsilon, (m,), and its excess at them, (m,).

        Newton's method, bisecting where it leaves the bracket. The ratio is bounded where both
        mixtures have a centre at 0. Losses it does not reach get the end of the range covered:
        less than `TAIL` lies beyond.
        """
        reach = (_REACH + 1.0) * self.scale
        knots = np.linspace(
            self.lower.centres[-1] - reach, self.upper.centres[-1] + reach, 2 * _KNOTS
        )
        ratios = np.maximum.accumulate(self.log_ratio(knots)[0])
        above = np.clip(np.searchsorted(ratios, epsilons), 1, knots.size - 1)
        low, high = knots[above - 1], knots[above]
        target = np.clip(epsilons, ratios[0], ratios[-1])
        x = np.clip(np.interp(target, ratios, knots), low, high)
        ratio, slope = self.log_ratio(x)
        for _ in range(_NEWTON):
            error = ratio - target
            if np.max(np.abs(error) / (1.0 + np.abs(target))) < 1e-13:
                break
            low, high = np.where(error < 0.0, x, low), np.where(error > 0.0, x, high)
            newton = x - error / np.maximum(slope, 1e-300)
            x = np.where((newton >= low) & (newton <= high), newton, (low + high) / 2.0)
            ratio, slope = self.log_ratio(x)
        return np.asarray(x), ratio - target


@dataclass(frozen=True, eq=False)
class Replaced(Pair):
    """`upper` against `lower` for losses above 0, `lower` against `upper` for those below.

    The larger of the two everywhere: the cost of replacing a unit that takes part by a coin.
    """

    def _swapped(self) -> Pair:
        up = Mixture(self.lower.log_weights, -self.lower.centres, self.lower.lost)
        down = Mixture(self.upper.log_weights, -self.upper.centres, self.upper.lost)
        return Pair(up, down, self.scale)

    def window(self) -> Window:
        """See `Pair.window`."""
        one, other = super().window(), self._swapped().window()
        deviation = max(one.deviation, other.deviation)
        return Window(min(one.low, other.low), max(one.high, other.high), deviation)

    def deltas(self, epsilons: Array) -> Array:
        """See `Pair.deltas`."""
        return np.where(epsilons < 0.0, self._swapped().deltas(epsilons), super().deltas(epsilons))


def _log_tilt(mixture: Mixture, x: Array, scale: float) -> tuple[Array, Array]:
    """Ln of mixture density over N(0, scale^2) at x, and its derivative; both (m,)."""
    if mixture.centres.size == 1:
        centre = mixture.centres[0]
        value = mixture.log_weights[0] + (x - centre / 2.0) * (centre / scale**2)
        return value, np.full_like(x, centre / scale**2)
    values, slopes = np.empty_like(x), np.empty_like(x)
    constant = mixture.log_weights - mixture.centres**2 / (2 * scale**2)
    step = max(1, _CELLS // mixture.centres.size)
    for start in range(0, x.size, step):
        part = slice(start, start + step)
        exponents = constant[:, None] + np.multiply.outer(mixture.centres / scale**2, x[part])
        top = exponents.max(axis=0)
        weights = np.exp(exponents - top)
        total = weights.sum(axis=0)
        values[part] = top + np.log(total)
        slopes[part] = mixture.centres @ weights / total / scale**2
    return values, slopes


def _log_upper_tail(mixture: Mixture, x: Array, scale: float) -> Array:
    """Ln P(X > x) of the mixture, (m,)."""
    from scipy.special import log_ndtr

    values = np.empty_like(x)
    step = max(1, _CELLS // mixture.centres.size)
    for start in range(0, x.size, step):
        part = slice(start, start + step)
        tails = log_ndtr(np.subtract.outer(mixture.centres, x[part]) / scale)
        tails += mixture.log_weights[:, None]
        top = tails.max(axis=0)
        values[part] = top + np.log(np.exp(tails - top).sum(axis=0))
    return values


def binomial_mixture(
    count: int, rate: float, sign: int, *, unit: float = 1.0, terms: int = 1024
) -> Mixture:
    """Centres sign * unit * Bin(count, rate), shortened on the safe side.

    Bernstein's inequality says which tails weigh less than `TAIL`; they are left out (see
    `Mixture.lost`). Where more than `terms` values remain, runs of values share the largest of
    them, which can only raise a divergence of opposed mixtures. So do all values of more than
    `MOST_COINS` coins.

    Args:
        count: number of coins; 0 gives the single centre 0.
        rate: probability of each coin, in [0, 1].
        sign: sign of the centres.
        unit: distance of neighbouring centres.
        terms: most centres.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    if count > MOST_COINS:
        return Mixture(np.zeros(1), np.array([sign * unit * float(count)]))
    log_tail = -math.log(TAIL)
    variance = count * rate * (1.0 - rate)
    reach = log_tail / 3.0 + math.sqrt(log_tail**2 / 9.0 + 2.0 * variance * log_tail)
    low = max(0, math.floor(count * rate - reach))
    high = min(count, math.ceil(count * rate + reach))
    values = np.arange(low, high + 1).astype(np.float64)
    rest = count - values
    log_weights = gammaln(count + 1.0) - gammaln(values + 1.0) - gammaln(rest + 1.0)
    log_weights = np.asarray(log_weights + xlogy(values, rate) + xlog1py(rest, -rate))
    kept = log_weights > -math.inf
    values, log_weights = values[kept], log_weights[kept]
    width = -(-values.size // terms)
    if width > 1:
        starts = np.arange(0, values.size, width)
        log_weights = np.logaddexp.reduceat(log_weights, starts)
        values = values[np.minimum(starts + width, values.size) - 1]
    lost = 0.0 if high - low == count else 2.0 * TAIL
    return Mixture(log_weights, sign * unit * values, lost)
