"""One round of a federation, the same wherever it runs: at a server, or inside of one client."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from uedp_bench.accounting.sampler_end_delta import check_coordinates
from uedp_bench.contracts.learner import Learner
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import PrivacyError
from uedp_bench.randomness.streams import Stream
from uedp_bench.training.bounds import Limits, NetworkLayer, Seen, check_limits
from uedp_bench.training.cohort import draw_cohort
from uedp_bench.training.server import LayeredStep
from uedp_bench.training.two_level import check_two_level
from uedp_bench.training.unit_sums import RoundWork, Share, UnitSum, round_shares

if TYPE_CHECKING:
    from uedp_bench.training.federation import Federation


class RoundQuery:
    """Scales the count so that one noise covers both (`docs/proofs.md`, section 11).

    A unit moves the sum by at most S = total * weight_bound, and the shifted count by at most 1/2:
    the vector (sum, scale * count) by at most sqrt(S^2 + scale^2 / 4). Noise of `multiplier` times
    that has the standard deviation `Count.noise` on the count for the scale used here. This is
    Theorem 1 of Andrew et al. 2021 (arXiv:1905.03871).

    Args:
        limits: limits of the round, checked.
        weight_bound: bound on every unit's weight.
        multiplier: noise multiplier.

    Attributes:
        sensitivity: l2 norm by which one unit moves the vector, at most; 1 where nothing is
            bounded.
    """

    def __init__(self, limits: Limits, weight_bound: float, multiplier: float) -> None:
        of_sum = limits.total * weight_bound if math.isfinite(limits.total) else 1.0
        self.sensitivity, self._scale = of_sum, 0.0
        if (count := limits.count) is not None:
            share = math.sqrt(count.noise**2 - multiplier**2 / 4.0)
            # Without noise any scale will do: nothing hides the count, and nothing is promised.
            self._scale = multiplier * of_sum / share or 1.0
            self.sensitivity = math.hypot(of_sum, self._scale / 2.0)

    def vector(self, unit_sum: UnitSum) -> Tensor:
        """(d,) the sum; (d + 1,) with the scaled count in float64 where one is asked for."""
        if not self._scale:
            return unit_sum.total
        total, count = (
            unit_sum.total.double(),
            self._scale * (unit_sum.short - unit_sum.units / 2.0),
        )
        return torch.cat([total, total.new_tensor([count])])

    def seen(self, noisy: Tensor, like: Tensor) -> Seen:
        """The noisy vector taken apart; the sum of the type of `like`."""
        if not self._scale:
            return Seen(noisy, None)
        return Seen(noisy[:-1].to(like), float(noisy[-1]) / self._scale)


_ROUNDING = 1.0 + 1e-5
"""Room for float32: a sum of many clipped updates may be longer than their bounds by this."""


class Begun(NamedTuple):
    """A round whose units are drawn, and whose sum is still to be computed.

    Attributes:
        step: number of the round, from 0.
        work: work that all shares have in common.
        shares: shares of the units that take part.
        weights: (units,) of them.
        streams: secret, of the round.
    """

    step: int
    work: RoundWork
    shares: list[Share]
    weights: FloatArray
    streams: Stream


class Moved(NamedTuple):
    """Outcome of a round.

    Attributes:
        theta: (d,) new weights.
        noise: standard deviation of the noise on the sum.
    """

    theta: Tensor
    noise: float


def begin_round(
    federation: Federation,
    learner: Learner,
    work: RoundWork,
    units: IntArray,
    at: tuple[int, Stream, int],
) -> Begun:
    """Draw the rows of the units that take part.

    Args:
        federation: federation of the units.
        learner: learner with the rows.
        work: shared weights, and checked limits (`round_limits`).
        units: (units,) positions of units that take part.
        at: number of the round, its secret streams, and units held at once (`Speed.chunk`).
    """
    step, round_stream, chunk = at
    cohort, weights = draw_cohort(federation, units, round_stream, step)
    shares = list(round_shares(work, federation.local, learner, cohort, weights, chunk))
    return Begun(step, work, shares, weights, round_stream)


def end_round(federation: Federation, begun: Begun, unit_sum: UnitSum) -> Moved:
    """Add noise to the sum, step, and let the bound learn.

    A round in which nobody takes part still adds noise: leaving it out would tell.

    Args:
        federation: federation of the units.
        begun: round that was begun.
        unit_sum: sum of the round, which `check_sum` must pass before anything is released.

    Raises:
        PrivacyError: if noise is missing.
    """
    limits, theta, step = begun.work.limits, begun.work.theta, begun.step
    query = RoundQuery(limits, federation.weight_bound, federation.noise.multiplier)
    noise = begun.streams.rng("noise")
    noisy = federation.noise.add(query.vector(unit_sum), query.sensitivity, step, noise)
    seen = query.seen(noisy, theta)
    denominator = federation.denominator
    if denominator is None:  # nobody, or nobody that counts: the sum is 0
        denominator = float(begun.weights.sum()) or 1.0
    estimate = seen.total / denominator
    moved = federation.server.step(theta, estimate, step, federation.rounds)
    federation.bound.learn(step, seen)
    return Moved(moved, federation.noise.multiplier * query.sensitivity)


def check_sum(begun: Begun, norm: float) -> None:
    """Refuse a sum that is longer than the bounds of its units allow together.

    Clipping is checked where its outcome is used. Whether this passes tells nothing of clipped
    units: their sum always passes (triangle inequality).

    Args:
        begun: the round.
        norm: l2 norm of the sum over its units.

    Raises:
        PrivacyError: if units were not clipped.
    """
    most = begun.work.limits.total * float(begun.weights.sum())
    if norm > most * _ROUNDING:
        raise PrivacyError(
            f"the sum of round {begun.step} has norm {norm:.6g}, and clipped units of its weights "
            f"add up to at most {most:.6g}: an update was not clipped to its bound"
        )


def lay_out(federation: Federation, layers: tuple[NetworkLayer, ...]) -> None:
    """Tell a server that steps by layers which there are, before private rows are read.

    Raises:
        PrivacyError: if noise is to hide more weights than its proof covers.
    """
    if federation.noise.multiplier > 0.0:
        check_coordinates(sum(layer.size for layer in layers))
    if isinstance(federation.server, LayeredStep):
        federation.server.lay_out([layer.size for layer in layers])


def round_limits(federation: Federation, step: int, layers: tuple[NetworkLayer, ...]) -> Limits:
    """The limits of a round, checked: something can be proven of them."""
    limits = federation.bound.limits(step, layers)
    check_limits(limits, layers, federation.noise.multiplier)
    check_two_level(federation, limits)
    return limits


def check_weights(federation: Federation) -> None:
    """Refuse weights of units that the proof does not allow.

    Raises:
        PrivacyError: naming them, or if noise is to hide a sum that is divided by private weights.
    """
    weights, bound = federation.unit_weights, federation.weight_bound
    if weights is not None and not ((weights >= 0.0) & (weights <= bound)).all():
        raise PrivacyError(f"a unit weighs less than 0 or more than the bound {bound}")
    if federation.denominator is None and federation.noise.multiplier > 0.0:
        raise PrivacyError(
            "denominator is None: the sum is divided by the weights of those who take part, which "
            "noise does not hide; give a public constant, or noise of multiplier 0"
        )


def check_buffers(changed: Sequence[str]) -> None:
    """Refuse networks that keep statistics of private inputs that were to be bounded.

    Raises:
        PrivacyError: naming the first buffer that changed.
    """
    if changed:
        raise PrivacyError(
            f"the network keeps statistics of private inputs in {changed[0]!r}, and neither "
            "clipping nor noise covers them; take a network without batch normalisation"
        )
