"""Epsilon by dp-accounting: Renyi orders and privacy loss distributions of known mechanisms.

Renyi accountant: Mironov 2017, arXiv:1702.07476; sampled: arXiv:1908.10530. Privacy loss
distributions: Koskela et al. 2020; Doroshenko et al. 2022, arXiv:2207.04380. The library is
imported inside functions, for that takes over a second. The last composition is kept: a plan, its
run, each of its repetitions and the check of its result ask for the same, at few deltas.

The accountant that TensorFlow Privacy printed epsilons with in 2019 and 2020 is kept as published,
so that a claim reads as its paper has it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from uedp_bench.accounting.accountants.loss_pairs import loss_pairs, pairs_epsilon
from uedp_bench.accounting.accountants.privacy_loss_grid import epsilon_at
from uedp_bench.accounting.accountants.user_entity import user_entity_epsilon
from uedp_bench.accounting.event_contract import Adjacency, AnyEvent, Neighbours, Protected
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Repeated,
)
from uedp_bench.errors import PrivacyError

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.rdp import RdpAccountant

Known = Gaussian | PoissonSampled | FixedSizeSampled
"""Events of one round for which dp-accounting has accountants."""

_Rounds = tuple[tuple[Known, int], ...]

_ROUNDING = 4e-16
"""Delta that rounding may hide a round: dp-accounting composes by Fourier transforms and does not
count it. Some thirty times what shows at 1e5 rounds and delta 1e-12."""


def least_divergences(orders: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Renyi divergences of a sampled round, in nats, that rounding may have made 0 or negative.

    Epsilon is 0 where delta exceeds the root of a divergence: one that is too small by half is safe
    there (Pinsker's inequality), and these are twice what rounding took off, at most.

    Args:
        orders: (n,) above 1.
    """
    return 2e-15 / np.minimum(orders - 1.0, 1.0)


def library_epsilons(
    rounds: Sequence[tuple[Known, int]], adjacency: Adjacency, delta: float
) -> dict[str, float]:
    """Epsilon by every accountant that is valid; not empty.

    Args:
        rounds: events that happen, with noise, each with the number of times.
        adjacency: how neighbouring data sets differ.
        delta: in (0, 1).
    """
    kinds = {event.kind for event, _ in rounds}
    values = {}
    if kinds == {"fixed-size-sampled"}:
        rounds = tuple(rounds)
        own = rounds if adjacency == "replace-one" else tuple((_added(e), n) for e, n in rounds)
        values["fixed-size-pld"] = user_entity_epsilon(own, Protected(spread=0), delta)
        if adjacency != "replace-one":
            return values
    if "fixed-size-sampled" not in kinds:
        values["pld"] = pld_epsilon(rounds, adjacency, delta)
    if "poisson-sampled" not in kinds or adjacency != "replace-one":
        values["rdp"] = rdp_epsilon(rounds, adjacency, delta)
    return values


def _added(event: Known) -> Known:
    """Effect of adding a unit to a round of a fixed size: by a coin, it takes another's place."""
    if not isinstance(event, FixedSizeSampled):
        return event
    half = Gaussian(noise_multiplier=event.event.noise_multiplier / 2.0)
    return PoissonSampled(rate=event.sample / event.population, event=half)


def rdp_epsilon(rounds: Sequence[tuple[Known, int]], adjacency: Adjacency, delta: float) -> float:
    """Epsilon by Renyi orders.

    Replacing a unit moves the clipped sum by up to twice the bound, which dp-accounting's Renyi
    accountant leaves to its caller: half the noise multiplier is passed.
    """
    return _rdp_epsilon(tuple(rounds), adjacency, delta)


@lru_cache(maxsize=4096)
def _rdp_epsilon(rounds: _Rounds, adjacency: Adjacency, delta: float) -> float:
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    with _without_warnings():
        accountant = _renyi(rounds, adjacency)
        epsilon = float(accountant.get_epsilon(delta))
        if epsilon > 0.0:
            return epsilon
        # The library says 0 where rounding leaves a divergence of 0, or a negative one.
        sampled = sum(count for event, count in rounds if isinstance(event, PoissonSampled))
        orders = np.asarray(accountant._orders)
        divergences = np.maximum(accountant._rdp, sampled * least_divergences(orders))
        return float(compute_epsilon(orders, divergences, delta)[0])


@lru_cache(maxsize=64)
def _renyi(rounds: _Rounds, adjacency: Adjacency) -> RdpAccountant:
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    replace = adjacency == "replace-one"
    relation = (
        dp.NeighboringRelation.REPLACE_ONE
        if replace
        else (dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    )
    accountant = RdpAccountant(neighboring_relation=relation)
    for base, count in rounds:
        accountant.compose(to_dp_event(base, sensitivity=2.0 if replace else 1.0), count)
    return accountant


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence warnings about orders whose series does not converge: epsilon stays valid."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def pld_epsilon(rounds: Sequence[tuple[Known, int]], adjacency: Adjacency, delta: float) -> float:
    """Epsilon by privacy loss distributions; they double the sensitivity of replacing one.

    Rounding is taken off delta. Where it might show, or the grid is coarser than it should be for
    want of memory, the package's own accountant composes the same pairs; the smaller value counts.
    """
    return _pld_epsilon(tuple(rounds), adjacency, delta)


@lru_cache(maxsize=4096)
def _pld_epsilon(rounds: _Rounds, adjacency: Adjacency, delta: float) -> float:
    rounding, finest = _ROUNDING * (_steps(rounds) - 1), _interval(rounds)
    step = _affordable_step(rounds, adjacency, finest)
    values = [math.inf]
    if rounding > 1e-4 * delta or step > finest:
        values.append(_own_epsilon(rounds, adjacency, delta))
    # Without sampling the package's own accountant has a closed form.
    sampled = any(not isinstance(event, Gaussian) for event, _ in rounds)
    if rounding <= 1e-2 * delta and (step == finest or sampled) and math.isfinite(step):
        losses = _distribution(rounds, adjacency, step)
        if losses is not None:
            divergence = losses.get_delta_for_epsilon
            values.append(epsilon_at(lambda at: float(divergence(at)), delta - rounding))
    return min(values)


def _own_epsilon(rounds: _Rounds, adjacency: Adjacency, delta: float) -> float:
    """Epsilon of the pairs by the package's own accountant, which bounds its rounding."""
    if adjacency != "replace-one":
        composable = tuple((e, n) for e, n in rounds if not isinstance(e, FixedSizeSampled))
        return user_entity_epsilon(composable, Protected(spread=0), delta)
    pairs = [(loss_pairs(e, Neighbours(adjacency)), n) for e, n in rounds]
    return pairs_epsilon([(pair, n) for pair, n in pairs if pair is not None], delta)


def _steps(rounds: Sequence[tuple[Known, int]]) -> int:
    """Distributions that are composed on a grid; Gaussian mechanisms have a closed form."""
    return sum(1 if isinstance(base, Gaussian) else count for base, count in rounds)


_POINTS = 1 << 17  # most grid points of one round
_COMPOSED = 1 << 21  # most grid points of a composition: with all others it takes some 400 MB


@lru_cache(maxsize=256)
def _affordable_step(rounds: _Rounds, adjacency: Adjacency, finest: float) -> float:
    """The grid step, `finest` unless that needs more memory than stated above."""
    from uedp_bench.accounting.accountants.dp_accounting_losses import widths

    alone, together = widths(rounds, adjacency)
    return max(finest, alone / _POINTS, together / _COMPOSED)


@lru_cache(maxsize=2)  # each may hold millions of masses
def _distribution(
    rounds: _Rounds, adjacency: Adjacency, step: float
) -> PrivacyLossDistribution | None:
    """All rounds composed; None where losses overflow."""
    from uedp_bench.accounting.accountants.dp_accounting_losses import composed

    try:
        return composed(rounds, adjacency, step)
    except OverflowError:  # next to no noise: losses are larger than the exponential of any float
        return None


def _interval(rounds: Sequence[tuple[Known, int]]) -> float:
    """Grid step of the privacy loss, fine against its standard deviation in one round.

    dp-accounting's 1e-4 errs visibly upward where much noise makes losses as small as the step, and
    is needlessly fine where losses are large. The variance of the loss is near the chi^2
    divergence, or, with little noise, that of a Gaussian's loss that occurs at the sampling rate.
    """
    variance = 0.0
    for base, count in rounds:
        signal = 1.0 / base.noise_multiplier**2
        rate = base.rate if isinstance(base, PoissonSampled) else 1.0
        bernoulli = rate * (1.0 - rate) * (signal / 2.0) ** 2
        spread = min(rate**2 * math.expm1(min(signal, 700.0)), signal + bernoulli)
        variance += spread * count
    deviation = math.sqrt(variance / _steps(rounds))
    return float(np.clip(1e-4, deviation / 500.0, deviation / 20.0))


# -------------------------------------------------------------------------- events of dp-accounting


def to_dp_event(event: AnyEvent, *, sensitivity: float = 1.0) -> Any:
    """The `dp_accounting.DpEvent` with the same meaning.

    Args:
        event: any but rounds that speak of entities and local noise, for which it has none.
        sensitivity: the noise multiplier is divided by it: 2 where the accountant does not itself
            double the sensitivity of replacing one unit.

    Raises:
        PrivacyError: if dp-accounting has no such event.
    """
    import dp_accounting as dp

    if isinstance(event, NonPrivate):
        return dp.NonPrivateDpEvent()
    if isinstance(event, Repeated):
        if event.count == 0:
            return dp.NoOpDpEvent()
        return dp.SelfComposedDpEvent(
            to_dp_event(event.event, sensitivity=sensitivity), event.count
        )
    if isinstance(event, Gaussian):
        if math.isinf(event.noise_multiplier):
            return dp.NoOpDpEvent()
        return dp.GaussianDpEvent(event.noise_multiplier / sensitivity)
    if isinstance(event, PoissonSampled | FixedSizeSampled):
        inner = to_dp_event(event.event, sensitivity=sensitivity)
        if isinstance(inner, dp.NoOpDpEvent):
            return inner
        if isinstance(event, PoissonSampled):
            return dp.PoissonSampledDpEvent(event.rate, inner)
        return dp.SampledWithoutReplacementDpEvent(event.population, event.sample, inner)
    raise PrivacyError(f"dp-accounting has no event for {event.kind!r}")


# ------------------------------------------------------------------ TensorFlow Privacy's accountant


TF_ORDERS = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(float(order) for order in range(5, 64)),
    *(128.0, 256.0, 512.0),
)
"""Orders of `compute_dp_sgd_privacy`, increasing."""


def tf_privacy_epsilon(event: Gaussian | PoissonSampled, count: int, delta: float) -> float:
    """Epsilon of `count` rounds: min over orders of RDP + ln(1/delta) / (order - 1).

    `compute_dp_sgd_privacy`: Renyi divergences of the sampled Gaussian mechanism (Mironov, Talwar
    and Zhang 2019, arXiv:1908.10530) at few orders, and the conversion of Mironov 2017
    (arXiv:1702.07476, Proposition 3). The smallest epsilon it can express is ln(1/delta) / 511;
    `proven` uses modern accountants, whose conversion gives less.

    Args:
        event: one round; without sampling its rate is 1.
        count: number of rounds.
        delta: in (0, 1).

    Returns:
        In nats; infinity without noise.
    """
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(TF_ORDERS)  # TensorFlow Privacy's divergences moved there
    with _without_warnings():
        accountant.compose(to_dp_event(event), count)
    # It returns epsilons only, by another conversion; the divergences have no public name.
    divergences = np.asarray(accountant._rdp, dtype=np.float64)
    return float(np.min(divergences - math.log(delta) / (np.array(TF_ORDERS) - 1.0)))
