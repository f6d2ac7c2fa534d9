"""Discrete privacy loss distributions: from divergences to a grid, composition, epsilon.

Connecting the dots (Doroshenko et al. 2022, arXiv:2207.04380) on a grid errs on the safe side.
dp-accounting does the same, but importing it takes longer than an answer may, and it composes
different rounds one after the other, each time losing a tail; here all rounds share one transform,
whose rounding is bounded and added to delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from uedp_bench.accounting.accountants.dominating_pairs import Array, LossPair, Window

STEPS = 100
"""Grid steps in one standard deviation of the privacy loss of a round."""

_POINTS = 1 << 16  # most grid points of one round
_LARGEST = 1 << 21  # most grid points of a composition: it takes some 300 MB
_CELLS = 20_000_000  # most grid points times centres of one round
_FINEST = 1e-9  # narrowest grid step: below it rounding would show
_COMPOSED = 1 << 21  # grid points that a composition may have, about
_FARTHEST = 2.0**60  # largest number of a grid point
_COARSEST = 50.0  # widest grid step, in nats
_TAIL = 1e-16  # mass of a composition left out on each side
_VANISHED = -760.0  # the exponential of this, and of all below, is 0 in double precision
_ORDERS = np.geomspace(0.25, 64.0, 17)  # of Chernoff's bound, in standard deviations
_TAIL_ORDERS = np.geomspace(0.25, 64.0, 9)  # the same in nats, for rare losses that are large


@dataclass(frozen=True, eq=False)
class Round:
    """A dominating pair drawn at random and revealed, with the number of times this happens.

    Attributes:
        pairs: each with the probability that it is the one.
        count: rounds.
        lost: probability of pairs left out.
    """

    pairs: tuple[tuple[float, LossPair], ...]
    count: int
    lost: float = 0.0


@dataclass(frozen=True, eq=False)
class Losses:
    """Masses of losses `step * (first + i)`, and the mass of infinite loss."""

    step: float
    first: int
    masses: Array
    infinite: float

    def delta(self, epsilon: float) -> float:
        """Hockey-stick divergence at epsilon."""
        losses = self.step * (self.first + np.arange(self.masses.size))
        above = losses > epsilon
        return self.infinite - float(np.expm1(epsilon - losses[above]) @ self.masses[above])

    def deltas(self, epsilons: Array) -> Array:
        """Hockey-stick divergences at epsilons of any sign, (m,), rounded up."""
        from scipy.signal import lfilter

        upwards = self.masses[::-1]
        tails = np.append(np.cumsum(upwards)[::-1], 0.0)
        # Each the sum of all masses from there on, times e^-(distance).
        falls = np.append(lfilter([1.0], [1.0, -math.exp(-self.step)], upwards)[::-1], 0.0)
        above = np.floor(epsilons / self.step) - self.first + 1.0
        above = np.clip(above, 0.0, self.masses.size).astype(np.int64)
        distances = np.maximum(self.step * (self.first + above) - epsilons, 0.0)
        value = self.infinite + tails[above] - np.exp(-distances) * falls[above]
        return np.asarray(np.maximum(value, self.infinite) + 1e-14 * tails[above])

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 whose delta is at most this; infinity if there is none."""
        if self.infinite >= delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = max(0, -self.first) - 1, self.masses.size - 1
        # `gap` is delta at `high`, and `falls` the mass from there up times e^-(distance to it):
        # so each step reads the masses between `middle` and `high` alone.
        gap, falls = self.infinite, float(self.masses[high])
        while high - low > 1:  # delta at `high` meets the target, at `low` it does not
            middle = (low + high) // 2
            distances = self.step * np.arange(high - middle + 1)
            between, reach = self.masses[middle:high], float(distances[-1])
            near = -float(np.expm1(-distances[:-1]) @ between)
            if (reached := gap + near - falls * math.expm1(-reach)) > delta:
                low = middle
            else:
                gap, high = reached, middle
                falls = falls * math.exp(-reach) + float(np.exp(-distances[:-1]) @ between)
        # Between two losses delta is linear in e^epsilon.
        top = self.step * (self.first + high)
        falls = float(np.exp(-self.step * np.arange(self.masses.size - high)) @ self.masses[high:])
        rest = self.infinite + float(self.masses[high:].sum()) - delta
        return max(0.0, min(top, top + math.log(rest / falls)))


def epsilon_of(rounds: Sequence[Round], delta: float, *, steps: int = STEPS) -> float:
    """Epsilon of all rounds; infinity where no grid is fine enough.

    Args:
        rounds: each with at least one pair and a positive count.
        delta: in (0, 1).
        steps: see `STEPS`; more give a smaller epsilon.
    """
    windows = [[pair.window() for _, pair in part.pairs] for part in rounds]
    counts = [part.count for part in rounds]
    step = _grid_step(rounds, windows, steps)
    farthest = sum(
        part.count * max(max(abs(w.low), abs(w.high)) for w in each)
        for part, each in zip(rounds, windows, strict=True)
    )
    if farthest / step > _FARTHEST:
        return math.inf
    while step <= _COARSEST:
        parts = [discretise(part, each, step) for part, each in zip(rounds, windows, strict=True)]
        points = _composed_points(parts, counts)
        if points <= _LARGEST:
            bounds = compositions(parts, counts, delta, finite=True)
            return min((losses.epsilon(delta) for losses in bounds), default=math.inf)
        # Rare, large losses spread over more of the line than their deviation says.
        step *= max(2.0, points / _LARGEST)
    return math.inf


def _composed_points(parts: Sequence[Losses], counts: Sequence[int]) -> int:
    """Number of grid points that hold all but a negligible mass of the composition.

    Args:
        parts: on one grid.
        counts: of each part.
    """
    low, high, _, _ = _chernoff(parts, counts, 1.0)
    return max(high - low + 1, *(part.masses.size for part in parts))


def _grid_step(rounds: Sequence[Round], windows: Sequence[Sequence[Window]], steps: int) -> float:
    variance = widest = 0.0
    for part, each in zip(rounds, windows, strict=True):
        for (weight, pair), window in zip(part.pairs, each, strict=True):
            variance += part.count * weight * window.deviation**2
            points = min(_POINTS, _CELLS // pair.size)
            widest = max(widest, (window.high - window.low) / points)
    deviation = math.sqrt(variance / sum(part.count for part in rounds))
    # Of all rounds together some twenty deviations matter.
    return max(deviation / steps, 20.0 * math.sqrt(variance) / _COMPOSED, widest, _FINEST)


def discretise(part: Round, windows: Sequence[Window], step: float) -> Losses:
    """One round on the grid of multiples of `step`, by connecting the dots."""
    bounds = [(math.floor(w.low / step), math.ceil(w.high / step) + 1) for w in windows]
    first = min(low for low, _ in bounds)
    masses = np.zeros(max(high for _, high in bounds) - first + 1)
    infinite = part.lost
    for (weight, pair), (low, high) in zip(part.pairs, bounds, strict=True):
        grid = np.arange(low, high + 1).astype(np.float64)
        # Rounding may leave divergences out of order; the larger value is the safe one.
        deltas = np.maximum.accumulate(pair.deltas(grid * step)[::-1])[::-1]
        masses[low - first : high - first + 1] += weight * connect_the_dots(deltas, step)
        infinite += weight * float(deltas[-1])
    return Losses(step, first, masses, infinite)


def connect_the_dots(deltas: Array, step: float) -> Array:
    """Masses whose divergences are these at the grid points and linear in e^epsilon between."""
    falls = -np.diff(deltas)
    masses = np.zeros_like(deltas)
    masses[1:] += falls / -math.expm1(-step)
    masses[:-1] -= falls / math.expm1(step)
    # Below the grid the chord goes to divergence 1 at e^epsilon = 0.
    masses[0] += 1.0 - deltas[0]
    return np.maximum(masses, 0.0)


def compose(parts: Sequence[Losses], counts: Sequence[int]) -> Losses:
    """All parts, each so many times, in one Fourier transform: the first of `compositions`."""
    return next(compositions(parts, counts, 1.0))


def compositions(
    parts: Sequence[Losses], counts: Sequence[int], delta: float, *, finite: bool = False
) -> Iterator[Losses]:
    """All parts, each so many times: one, or where rounding shows two, upper bounds.

    Args:
        parts: on one grid.
        counts: of each part.
        delta: of interest. The first bound may say infinity for it where rounding drowns it; the
            second is for deltas near it, and loose where losses have a heavy tail.
        finite: True to leave bounds out that say infinity for `delta`, before they are computed.
    """
    low, high, order, top = _chernoff(parts, counts, delta)
    first = sum(part.first * count for part, count in zip(parts, counts, strict=True))
    survive = sum(
        count * math.log1p(-min(part.infinite, 1.0 - 1e-16))
        for part, count in zip(parts, counts, strict=True)
    )
    infinite = -math.expm1(survive) + 2.0 * _TAIL
    most = delta if finite else math.inf
    size = _transform_size(parts, (low, high))
    plain = _weighted(parts, counts, 0.0)
    rounding = _rounding(plain, counts, size, 0)
    drowned = rounding > 1e-4 * delta and top > low
    if infinite + rounding < most:
        masses = _convolved(plain, counts, (low, high), size)
        yield Losses(parts[0].step, first + low, masses, infinite + rounding)
    if not drowned:
        return
    # Masses weighted by e^(order * index) keep the far tail above the rounding. Errors grow
    # downwards, so whatever lies below `top` counts as if it lay there.
    weighted = _weighted(parts, counts, order)
    rounding = _rounding(weighted, counts, size, top)
    if infinite + rounding < most:
        masses = _convolved(weighted, counts, (low, high), size)[top - low :]
        masses[0] += max(0.0, 1.0 - float(masses.sum()))
        yield Losses(parts[0].step, first + top, masses, infinite + rounding)


class _Weighted(NamedTuple):
    """Masses of each part times e^(order * index), adding up to 1.

    Attributes:
        masses: of each part.
        order: in 1 / step.
        log_moment: ln of what the masses of all rounds were divided by.
    """

    masses: Sequence[Array]
    order: float
    log_moment: float


def _weighted(parts: Sequence[Losses], counts: Sequence[int], order: float) -> _Weighted:
    masses, log_moment = [], 0.0
    for part, count in zip(parts, counts, strict=True):
        moment = _log_moment(_log_masses(part.masses), order)
        masses.append(part.masses * np.exp(order * np.arange(part.masses.size) - moment))
        log_moment += count * moment
    return _Weighted(masses, order, log_moment)


def _transform_size(parts: Sequence[Losses], bounds: tuple[int, int]) -> int:
    from scipy.fft import next_fast_len

    longest = max(part.masses.size for part in parts)
    return int(next_fast_len(max(bounds[1] - bounds[0] + 1, longest), real=True))


def _convolved(
    parts: _Weighted, counts: Sequence[int], bounds: tuple[int, int], size: int
) -> Array:
    """Masses of the composition between two indices.

    Args:
        parts: weighted parts, on one grid.
        counts: of each part.
        bounds: first and last index, from the sum of the parts' first ones.
        size: of the transform.
    """
    from scipy.fft import irfft, rfft

    low, high = bounds
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for masses, count in zip(parts.masses, counts, strict=True):
        transformed = rfft(masses, size)
        # A power of the others is 0 in double precision, and takes as long to compute.
        lasting = np.abs(transformed) > math.exp(_VANISHED / count)
        product[lasting] *= transformed[lasting] ** count
        product[~lasting] = 0.0
    composed = np.roll(irfft(product, size), -(low % size))[: high - low + 1]
    scales = np.minimum(parts.log_moment - parts.order * np.arange(low, high + 1), 700.0)
    return np.asarray(np.maximum(composed, 0.0) * np.exp(scales))


def _rounding(parts: _Weighted, counts: Sequence[int], size: int, worst: int) -> float:
    """Mass that rounding can have moved in `_convolved`, by Cauchy-Schwarz and Parseval.

    Args:
        parts: weighted parts.
        counts: of each part.
        size: of the transform.
        worst: index up from which the error is wanted, which falls with the index.
    """
    norms = 0.0
    for masses, count in zip(parts.masses, counts, strict=True):
        norms += count * float(np.linalg.norm(masses))
    rounding = np.finfo(float).eps * math.log2(size) * math.sqrt(size) * (norms + 1.0)
    return float(rounding * math.exp(min(parts.log_moment - parts.order * worst, 700.0)))


def _chernoff(
    parts: Sequence[Losses], counts: Sequence[int], delta: float
) -> tuple[int, int, float, int]:
    """Chernoff's bounds on the index, counted from the sum of the parts' first ones.

    Returns:
        The indices below and above which less than `_TAIL` lies; the order that says most about
        delta; and the index above which that order says that less than 1e5 delta lies.
    """
    variance, most = 0.0, 0
    for part, count in zip(parts, counts, strict=True):
        index = np.arange(part.masses.size)
        mean = float(part.masses @ index)
        variance += count * float(part.masses @ (index - mean) ** 2)
        most += count * (part.masses.size - 1)
    usual = _ORDERS / math.sqrt(max(variance, 1.0))
    orders = (*usual, *(order for order in _TAIL_ORDERS * parts[0].step if order < usual[0]))
    low, high, best = 0, most, (math.inf, 0.0, 0)
    logs = [_log_masses(part.masses) for part in parts]
    for order in (*(-each for each in orders), *orders):
        total = sum(
            count * _log_moment(each, float(order))
            for each, count in zip(logs, counts, strict=True)
        )
        bound = (total - math.log(_TAIL)) / float(order)
        if order < 0.0:
            low = max(low, math.floor(bound))
            continue
        high = min(high, math.ceil(bound))
        reach = (total - math.log(delta)) / float(order)
        top = math.ceil((total - math.log(1e5 * delta)) / float(order))
        best = min(best, (reach, float(order), top))
    high = max(high, low)
    return low, high, best[1], min(best[2], high)


def _log_masses(masses: Array) -> tuple[Array, Array]:
    """Indices that have mass, and ln of it there."""
    index = np.flatnonzero(masses)
    return index.astype(np.float64), np.log(masses[index])


def _log_moment(logs: tuple[Array, Array], order: float) -> float:
    """Ln of the sum of mass times exp(order * index), of what `_log_masses` returns."""
    index, masses = logs
    exponents = masses + order * index
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


# ------------------------------------------------------------------------------- epsilon from delta


_MOST_EPSILON = 1e12


def gaussian_epsilon(shift: float, delta: float) -> float:
    """Epsilon of one Gaussian mechanism: N(shift, 1) against N(0, 1).

    Its divergence is that of Balle & Wang 2018 (arXiv:1805.06530, Theorem 8).

    Args:
        shift: sensitivity over the noise's deviation, 0 or more.
        delta: in (0, 1).
    """
    from scipy.special import log_ndtr, ndtri

    if shift == 0.0:
        return 0.0

    def divergence(epsilon: float) -> float:
        upper = float(log_ndtr(shift / 2.0 - epsilon / shift))
        lower = float(log_ndtr(-shift / 2.0 - epsilon / shift))
        return math.exp(upper) * -math.expm1(min(epsilon + lower - upper, 0.0))

    # Leaving the second term out is valid too, and tight where epsilon is in the millions.
    simple = shift**2 / 2.0 - shift * float(ndtri(delta))
    return min(epsilon_at(divergence, delta), max(0.0, simple))


def epsilon_at(delta_of: Callable[[float], float], delta: float) -> float:
    """The smallest epsilon >= 0 with `delta_of(epsilon) <= delta`, rounded up.

    dp-accounting inverts by a ratio of masses, which overflows for epsilons of several hundred;
    its deltas do not.

    Args:
        delta_of: decreasing in epsilon.
        delta: the target.

    Returns:
        An epsilon that satisfies the target, within 1e-10 relative; infinity above 1e12.
    """
    if delta_of(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(high) > delta:
        low, high = high, 4.0 * high
        if high > _MOST_EPSILON:
            return math.inf
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        if delta_of(middle) > delta:
            low = middle
        else:
            high = middle
    return high
