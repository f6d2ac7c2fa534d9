"""Renyi divergences of events at many orders, and the moments accountant of the first papers.

Those of Gaussian and of sampled rounds (Mironov 2017, arXiv:1702.07476; Mironov, Talwar and Zhang
2019, arXiv:1908.10530) and of user-entity rounds are integrals over a dominating pair: a pair that
dominates in every hockey-stick divergence dominates in every Renyi divergence, because all
f-divergences are mixtures of hockey-stick divergences. Those of fixed-size rounds are
dp-accounting's.

The moments accountant is that of Abadi et al. 2016 ("Deep Learning with Differential Privacy"),
Theorem 2 and section 3.2: integer orders 1 to 64, the closed binomial sum of the sampled Gaussian
mechanism with unit sensitivity and the conversion of its tail bound. It is kept as published, so
that a claim reads as its paper has it: the smallest epsilon it can express is ln(1/delta)/64.
`proven` uses modern accountants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from uedp_bench.accounting.accountants.dp_accounting import least_divergences, to_dp_event
from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.event_contract import (
    AccountantTable,
    Adjacency,
    Event,
    Neighbours,
    Protected,
)
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    GroupRound,
    PoissonSampled,
    PureDP,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
    one_and_count,
)
from uedp_bench.accounting.guarantee import Refusal, Rounds
from uedp_bench.accounting.protocol_events import Parallel

Array = npt.NDArray[np.float64]

ORDERS: Array = np.concatenate([
    [1.01, 1.02, 1.03, 1.05, 1.07], np.arange(11, 110) / 10, np.arange(11, 65), [96, 128, 192, 256]
])  # fmt: skip
"""Orders at which divergences are computed, increasing."""

_REACH = 12.0  # noise deviations integrated beyond the outermost mode; 4e-33 lies outside
_CELLS = 1 << 24  # most exponentials of one pair; orders that need more are bounded otherwise
_AT_ONCE = 1 << 20  # of them computed at once
_MOST_COINS = 1 << 20  # coins whose values are told apart
_CONDITIONED = 48  # most affected users whose coins are revealed one count at a time

_GROUPS = (UserEntityGaussian, TwoLevelUserEntityGaussian, SentenceSampledGaussian)


def renyi(events: Sequence[Event], adjacency: Adjacency, point: Protected) -> Array:
    """Renyi divergences between neighbours of all events in sequence.

    Args:
        events: about one unit.
        adjacency: how neighbouring data sets differ.
        point: of user-entity rounds: who else mentions the entity. Spread 0 is a user alone.

    Returns:
        See `renyi_of_rounds`.

    Raises:
        Refusal: likewise.
    """
    return renyi_of_rounds([one_and_count(e) for e in events], Neighbours(adjacency, point))


def renyi_of_rounds(rounds: Rounds, neighbours: Neighbours) -> Array:
    """Renyi divergences of all rounds in sequence.

    Args:
        rounds: events about one unit, each with the number of times it happens.
        neighbours: how the data sets differ.

    Returns:
        (ORDERS.size,) in nats, the larger of both directions; infinity where there is no bound.

    Raises:
        Refusal: for an event without Renyi divergences.
    """
    total = np.zeros((2, ORDERS.size))
    for event, count in rounds:
        if count > 0:
            with np.errstate(over="ignore"):  # what is beyond floats has no bound
                total += count * _of_one(event, neighbours)
    return np.asarray(total.max(axis=0))


def renyi_epsilon(divergences: Array, delta: float) -> float:
    """Epsilon of Renyi divergences at `ORDERS`, (ORDERS.size,); infinite ones do not count."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    kept = np.isfinite(divergences)
    if not kept.any():
        return math.inf
    return float(compute_epsilon(ORDERS[kept], divergences[kept], delta)[0])


def _of_one(event: Event, neighbours: Neighbours) -> Array:
    """Both directions of one event, (2, ORDERS.size) or broadcasting to it."""
    if reason := event.refusal(neighbours.adjacency):
        raise Refusal(reason)
    divergences = renyi_divergences(event, neighbours, ORDERS)
    if divergences is None:
        raise Refusal(f"no Renyi accountant for {event.kind}")
    if np.shape(divergences)[-1:] != (ORDERS.size,) or not np.all(np.asarray(divergences) >= 0.0):
        raise Refusal(
            f"{event.kind} declares Renyi divergences that are negative, or not one for each order"
        )
    return divergences


@AccountantTable
def renyi_divergences(event: Event, neighbours: Neighbours, orders: Array) -> Array | None:
    """Renyi divergences of an event between neighbours: the second currency, which adds up.

    Args:
        event: one event.
        neighbours: difference between the data sets.
        orders: (n,) Renyi orders, all above 1.

    Returns:
        (n,), the larger of both directions, or (2, n), both, in nats; infinity where there is no
        bound; None where none is known.
    """
    return None


@renyi_divergences.register(Gaussian)
def _gaussian(event: Gaussian, neighbours: Neighbours, orders: Array) -> Array:
    reach = 2.0 if neighbours.adjacency == "replace-one" else 1.0
    return orders * _over(reach**2, 2.0 * event.noise_multiplier**2)


@renyi_divergences.register(PoissonSampled)
def _poisson(event: PoissonSampled, neighbours: Neighbours, orders: Array) -> Array:
    if neighbours.adjacency == "replace-one":
        raise Refusal("no Renyi accountant for Poisson rounds under replace-one")
    return _of_poisson(event)


@renyi_divergences.register(FixedSizeSampled)
def _fixed_size(event: FixedSizeSampled, neighbours: Neighbours, orders: Array) -> Array:
    if neighbours.adjacency != "replace-one":
        raise Refusal(
            f"fixed-size rounds are accounted for replace-one, not for {neighbours.adjacency}"
        )
    return _of_fixed_size(event)


@renyi_divergences.register(*_GROUPS)
def _user_entity(event: GroupRound, neighbours: Neighbours, orders: Array) -> Array:
    if neighbours.adjacency != "add-or-remove":
        raise Refusal(
            f"user-entity rounds are accounted for add-or-remove, not {neighbours.adjacency}"
        )
    return _of_group(event, neighbours.point)


@renyi_divergences.register(BandedFactorization)
def _banded(event: BandedFactorization, neighbours: Neighbours, orders: Array) -> Array:
    """Renyi divergences of the two normal laws that dominate all rounds together."""
    return _gaussian(event.as_gaussian(neighbours), Neighbours("add-or-remove"), orders)


@renyi_divergences.register(PureDP)
def _pure(event: PureDP, neighbours: Neighbours, orders: Array) -> Array:
    """Bun and Steinke 2016 (arXiv:1605.02065), Proposition 3.3."""
    if event.epsilon >= 2.0:  # orders are above 1; the square of a large one overflows
        return np.full(len(orders), event.epsilon)
    return np.minimum(event.epsilon, orders * event.epsilon**2 / 2.0)


@renyi_divergences.register(Parallel)
def _parallel(event: Parallel, neighbours: Neighbours, orders: Array) -> Array:
    """Divergence of the worst part, at every order."""
    adjacency, point = neighbours.adjacency, neighbours.point
    worst = np.max([renyi(part, adjacency, point) for part in event.parts], axis=0)
    return np.asarray(worst)


def _over(value: float, divisor: float) -> float:
    return math.inf if divisor == 0.0 else value / divisor


@lru_cache(maxsize=256)
def _of_poisson(base: PoissonSampled) -> Array:
    if base.rate == 0.0 or math.isinf(base.event.noise_multiplier):
        return np.zeros((2, ORDERS.size))
    if base.event.noise_multiplier == 0.0:
        return np.full((2, ORDERS.size), math.inf)
    return _divergences(
        _binomial(1, base.rate), _binomial(0, base.rate), base.event.noise_multiplier
    )


@lru_cache(maxsize=256)
def _of_fixed_size(base: FixedSizeSampled) -> Array:
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    if base.sample > base.population:
        raise Refusal(f"a round draws {base.sample} units of {base.population}")
    if base.event.noise_multiplier == 0.0:
        return np.full(ORDERS.size, math.inf)
    accountant = RdpAccountant(ORDERS, dp.NeighboringRelation.REPLACE_ONE)
    # dp-accounting's Renyi accountant leaves doubling the sensitivity to its caller.
    accountant.compose(to_dp_event(base, sensitivity=2.0))
    # It returns epsilons only; the divergences that they come from have no public name.
    return np.asarray(accountant._rdp, dtype=np.float64)


# ------------------------------------------------------------------------------ user-entity rounds


@lru_cache(maxsize=256)
def _of_group(
    event: UserEntityGaussian | TwoLevelUserEntityGaussian | SentenceSampledGaussian,
    point: Protected,
) -> Array:
    if event.rate == 0.0 or math.isinf(event.noise_multiplier):
        return np.zeros((2, ORDERS.size))
    if event.noise_multiplier == 0.0:
        return np.full((2, ORDERS.size), math.inf)
    scale, k = event.noise_multiplier, min(point.spread, event.users - 1)
    if isinstance(event, SentenceSampledGaussian):
        # Sentences are only ever removed: a mixture against a single Gaussian.
        n = event.sentences_per_user
        group = n + min(point.spread * min(point.sentences_per_user, n), n * (event.users - 1))
        return _divergences(_binomial(group, event.rate), _binomial(0, event.rate), scale)
    opposed = _divergences(_binomial(k + 1, event.rate), _binomial(k, event.rate), scale)
    if isinstance(event, UserEntityGaussian):
        return opposed
    return np.minimum(opposed, _two_level(event, k, point.sentences_per_user))


def _two_level(event: TwoLevelUserEntityGaussian, spread: int, each: int) -> Array:
    """The coins of the affected users revealed: divergences average inside the exponential.

    Of too many users, as if all of them were sampled.
    """
    from scipy.special import logsumexp

    rho = min(each * event.sentence_bound, 2.0)
    if spread > _CONDITIONED:
        return ORDERS * (1.0 + rho * spread) ** 2 / (2.0 * event.noise_multiplier**2)
    log_weights, counts = _binomial(spread, event.rate)
    log_coin, coin = _binomial(1, event.rate)
    parts = np.stack([
        _divergences((log_coin, rho * j + coin), _binomial(0, event.rate), event.noise_multiplier)
        for j in counts
    ])  # fmt: skip
    moments = logsumexp(log_weights[:, None, None] + (ORDERS - 1.0) * parts, axis=0)
    return np.asarray(moments / (ORDERS - 1.0))


_Weighted = tuple[Array, Array]
"""(log weights, centres >= 0)."""


def _binomial(count: int, rate: float) -> _Weighted:
    """Bin(count, rate), whole: large orders are decided by the rarest outcomes.

    Of more than `_MOST_COINS` coins, the largest value, which bounds all divergences.
    """
    from scipy.stats import binom

    if count > _MOST_COINS:
        return np.zeros(1), np.array([float(count)])
    values = np.arange(count + 1, dtype=np.float64)
    log_weights = np.asarray(binom.logpmf(values, count, rate), dtype=np.float64)
    kept = log_weights > -math.inf
    return log_weights[kept], values[kept]


def _divergences(upper: _Weighted, lower: _Weighted, scale: float) -> Array:
    """D(P || Q) and D(Q || P) of P = N + upper and Q = N - lower, N ~ N(0, scale^2).

    With p = phi e^u and q = phi e^l, phi the density of N: ln of the integral of phi times
    e^(a u + (1 - a) l) over a - 1. The trapezoidal rule converges geometrically (Trefethen and
    Weideman 2014, section 5): the densities of p and q are polynomials in e^(x / scale^2) with
    real, negative roots, so that nothing is singular within pi scale^2 of the real line, and a step
    of scale^2 / 2 leaves a relative error near e^(-4 pi^2) = 7e-18; the Gaussian factor needs no
    step below scale / 4.

    Returns:
        (2, ORDERS.size), exact; where the range is too wide for a grid, an upper bound.
    """
    above, below = float(upper[1].max()), float(lower[1].max())
    step = min(scale / 4.0, scale**2 / (2.0 * max(_gap(upper), _gap(lower), 1e-300)))
    # The integrand's mode lies between 0 and this, for it grows no faster than its last centres.
    modes = ORDERS * max(above, below) + (ORDERS - 1.0) * min(above, below)
    each = upper[1].size + lower[1].size + 2 * ORDERS.size
    wanted = 2.0 * (modes + _REACH * scale) / step * each <= _CELLS
    # Without sampling, the sums differ by at most all centres: one Gaussian mechanism, which bounds
    # the sampled one because Renyi divergences are jointly quasi-convex.
    unsampled = ORDERS * (above + below) ** 2 / (2.0 * scale**2)
    out = np.stack([unsampled, unsampled])
    if not wanted.any():
        return out
    reach = float(modes[wanted].max()) + _REACH * scale
    first, last = math.floor(-reach / step), math.ceil(reach / step)
    x: Array = np.arange(first, last + 1, dtype=np.float64) * step
    log_phi = -(x**2) / (2.0 * scale**2) - math.log(scale * math.sqrt(2.0 * math.pi) / step)
    u, v = _log_tilt(upper, x, scale), _log_tilt(lower, np.negative(x), scale)
    for at in np.flatnonzero(wanted):
        order = ORDERS[at]
        for side, (p, q) in enumerate(((u, v), (v, u))):
            out[side, at] = _log_sum(log_phi + order * p + (1.0 - order) * q) / (order - 1.0)
    return np.maximum(out, least_divergences(ORDERS))


def _gap(mixture: _Weighted) -> float:
    """Widest distance between neighbouring centres; 0 for one centre."""
    return float(np.diff(mixture[1]).max(initial=0.0))


def _log_tilt(mixture: _Weighted, x: Array, scale: float) -> Array:
    """Ln of the mixture's density over that of N(0, scale^2), (m,)."""
    log_weights, centres = mixture
    constant = log_weights - centres**2 / (2.0 * scale**2)
    out = np.empty_like(x)
    width = max(1, _AT_ONCE // centres.size)
    for start in range(0, x.size, width):
        part = slice(start, start + width)
        exponents = constant + np.multiply.outer(x[part], centres / scale**2)
        top = exponents.max(axis=1)
        out[part] = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    return out


def _log_sum(exponents: Array) -> float:
    top = float(exponents.max())
    return top + math.log(float(np.exp(exponents - top).sum()))


# ------------------------------------------------------------------------------- moments accountant


_MAX_ORDER = 64


@lru_cache(maxsize=1024)
def log_moment(rate: float, noise_multiplier: float, order: int) -> float:
    """alpha(order) of one round, in nats.

    ln E ((1-q) + q N(x; 1, z^2)/N(x; 0, z^2))^(order+1) over x ~ N(0, z^2).

    Args:
        rate: q, the sampling probability.
        noise_multiplier: z, noise over sensitivity; positive.
        order: lambda, a positive integer.
    """
    from scipy.special import gammaln, logsumexp, xlog1py, xlogy

    n = order + 1
    i = np.arange(n + 1)
    log_binomial = gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)
    log_weight = log_binomial + xlogy(i, rate) + xlog1py(n - i, -rate)
    # Rounding leaves some -1e-14 where the moment is 1; a log moment is never negative.
    return max(0.0, float(logsumexp(log_weight + i * (i - 1) / (2.0 * noise_multiplier**2))))


def moments_epsilon(rate: float, noise_multiplier: float, rounds: int, delta: float) -> float:
    """Epsilon of `rounds` rounds: min over orders of (rounds alpha + ln(1/delta)) / order.

    Args:
        rate: sampling probability of a unit in a round.
        noise_multiplier: noise over sensitivity; 0 gives infinity.
        rounds: number of rounds.
        delta: in (0, 1).
    """
    if noise_multiplier == 0.0:
        return math.inf
    return min(
        (rounds * log_moment(rate, noise_multiplier, order) - math.log(delta)) / order
        for order in range(1, _MAX_ORDER + 1)
    )
