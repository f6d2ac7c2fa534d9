"""Privacy loss distributions of dp-accounting, composed as its accountant composes them.

Importing the library takes over a second. For sampled rounds it inverts the loss of each grid point
by itself, thousands of times. Here numpy evaluates the same expressions for all points at once, and
gives the same bits in a fraction of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import common, pld_pmf
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_gaussian_mechanism,
    identity,
)
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

from uedp_bench.accounting.accountants.dominating_pairs import Array, Pair, Window
from uedp_bench.accounting.accountants.loss_pairs import loss_pairs
from uedp_bench.accounting.accountants.privacy_loss_grid import Round, discretise
from uedp_bench.accounting.event_contract import Adjacency, Event, Neighbours
from uedp_bench.accounting.events import Gaussian, PoissonSampled
from uedp_bench.errors import PrivacyError


def composed(
    rounds: Sequence[tuple[Event, int]], adjacency: Adjacency, step: float
) -> PrivacyLossDistribution:
    """All rounds, as `dp_accounting.pld.PLDAccountant` composes them.

    Args:
        rounds: Gaussian or Poisson sampled, with positive, finite noise and a positive rate, each
            with the number of times.
        adjacency: how neighbouring data sets differ.
        step: step of the grid of losses.

    Raises:
        OverflowError: if losses are larger than the exponential of any float.
        PrivacyError: for an event of another kind.
    """
    relation = NeighboringRelation.ADD_OR_REMOVE_ONE
    if adjacency == "replace-one":
        relation = NeighboringRelation.REPLACE_ONE
    composition = identity(step)
    for event, count in rounds:
        if isinstance(event, Gaussian):
            one = from_gaussian_mechanism(
                event.noise_multiplier / math.sqrt(count),
                value_discretization_interval=step,
                neighboring_relation=relation,
            )
            composition = composition.compose(one)
            continue
        if not isinstance(event, PoissonSampled):
            raise PrivacyError(f"no losses of rounds of the kind {event.kind!r} are known")
        noise = event.event.noise_multiplier
        if adjacency != "replace-one" and event.rate < 1.0:
            one = _sampled_gaussian(noise, event.rate, step)
        else:
            one = from_gaussian_mechanism(
                noise,
                value_discretization_interval=step,
                sampling_prob=event.rate,
                neighboring_relation=relation,
            )
        composition = composition.compose(one.self_compose(count))
    return composition


def widths(rounds: Sequence[tuple[Event, int]], adjacency: Adjacency) -> tuple[float, float]:
    """Nats that the losses of one round span, at most, and those of all rounds composed.

    Beyond them the library keeps no grid point (`common.compute_self_convolve_bounds`).

    Args:
        rounds: see `composed`.
        adjacency: likewise.

    Raises:
        PrivacyError: for an event of another kind.
    """
    alone = together = 0.0
    for event, count in rounds:
        if isinstance(event, Gaussian):
            noise, times = event.noise_multiplier / math.sqrt(count), 1
            event = event.model_copy(update={"noise_multiplier": noise})
        elif isinstance(event, PoissonSampled):
            noise, times = event.event.noise_multiplier, count
        else:
            raise PrivacyError(f"no losses of rounds of the kind {event.kind!r} are known")
        pairs = dict.fromkeys(loss_pairs(event, Neighbours(adjacency)) or ())
        spans = [_spans(pair, noise, times) for pair in pairs if isinstance(pair, Pair)]
        alone = max([alone, *(one for one, _ in spans)])
        together += max((composed for _, composed in spans), default=0.0)
    return alone, together


_COARSE = 4096
"""Grid points on which the width of a composition is estimated."""

_REACH = 10.0
"""Deviations of the noise beyond the outermost centres that the library keeps, about."""

_COARSEST = 50.0
"""Nats: the exponential of a wider step is too near the largest float."""

_TAIL = 1e-15
"""Mass that the library cuts off a composition."""


def _spans(pair: Pair, noise: float, count: int) -> tuple[float, float]:
    """Widths of rounds that are alike, in one direction (`widths`)."""
    ends = np.array([pair.lower.centres[-1], pair.upper.centres[-1]])
    (low, high), _ = pair.log_ratio(ends + _REACH * noise * np.array([-1.0, 1.0]))
    step = float(high - low) / _COARSE
    if count == 1 or step == 0.0:
        return float(high - low), float(high - low)
    if step > _COARSEST:
        return float(high - low), math.inf
    masses = discretise(Round(((1.0, pair),), 1), [Window(low, high, 0.0)], step).masses
    first, last = common.compute_self_convolve_bounds(masses, count, _TAIL)
    return float(high - low), step * (last - first)


def _sampled_gaussian(noise: float, rate: float, step: float) -> PrivacyLossDistribution:
    """One round in which each unit takes part with a probability, a unit added or removed.

    It is `dp_accounting.pld.privacy_loss_distribution.from_gaussian_mechanism`.

    Args:
        noise: deviation over sensitivity, positive.
        rate: sampling rate, in (0, 1).
        step: step of the grid of losses.
    """
    both = []
    for side in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        loss = _Losses(noise, sampling_prob=rate, adjacency_type=side)
        bounds = loss.connect_dots_bounds()
        low = math.floor(bounds.epsilon_lower / step)
        high = math.ceil(bounds.epsilon_upper / step)
        deltas = loss.get_delta_for_epsilon(np.arange(low, high + 1) * step)
        both.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(step, low, high, deltas))
    return PrivacyLossDistribution(*both)


class _Losses(GaussianPrivacyLoss):  # type: ignore[misc]
    """The library's losses, without its computation point by point."""

    def get_delta_for_epsilon(self, epsilon: Any) -> Any:
        epsilons = np.asarray(epsilon)
        adds = self.adjacency_type == AdjacencyType.ADD
        signed = -epsilons if adds else epsilons
        # Below this loss of removing a unit, nothing is known: the divergence is 1 - e^epsilon.
        least = math.log1p(-self.sampling_prob)
        inside = signed > least
        x = self._where(signed[inside])
        if x is None:
            return super().get_delta_for_epsilon(epsilon)
        deltas = np.zeros_like(epsilons, dtype=float)
        if not adds:
            deltas[~inside] = -np.expm1(epsilons[~inside])
        deltas[inside] = self.mu_upper_cdf(x) - np.exp(epsilons[inside] + self.mu_lower_log_cdf(x))
        return np.clip(deltas, 0, 1)

    def _where(self, losses: Array) -> Array | None:
        """Points whose losses are these if a unit is removed, or their negatives if one is added.

        Returns:
            None where one is too near the end for the library to invert it: it raises the error.
        """
        least = math.log(1 - self.sampling_prob)
        a, c = 1 / self.sampling_prob, 1 - 1 / self.sampling_prob
        end = np.isclose(losses, least, rtol=1e-9, atol=0.0)
        shifted, limit = losses + np.log(a), np.log(-c)
        if np.any(~end & ((losses <= least) | (shifted <= limit))):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            unsampled = shifted + np.log1p(-np.exp(limit - shifted))
        unsampled[losses == 0] = np.log(a + c)
        unsampled[end] = -math.inf
        adds = self.adjacency_type == AdjacencyType.ADD
        x = self._inverse_privacy_loss_without_subsampling_remove(-unsampled if adds else unsampled)
        return np.asarray(self.sensitivity + x if adds else x)
