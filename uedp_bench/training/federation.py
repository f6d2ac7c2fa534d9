"""Federation: its policies, its outcome, and one round of it, at a server or within one client."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.accounting.sampler_end_delta import check_coordinates
from uedp_bench.contracts.clients import CLIENT
from uedp_bench.contracts.learner import Learner
from uedp_bench.corpus import FloatArray, Index, IntArray
from uedp_bench.errors import PrivacyError
from uedp_bench.randomness import Stream
from uedp_bench.training.bounds import Bound, Limits, NetworkLayer, Seen, check_limits
from uedp_bench.training.local import LocalTraining, LocalWork
from uedp_bench.training.noise import Noise
from uedp_bench.training.sampling import (
    Cohort,
    Place,
    RoundSampling,
    RowWeights,
    Sampler,
    TakingPart,
)
from uedp_bench.training.server import LayeredStep, ServerStep
from uedp_bench.training.unit_sums import RoundWork, Share, UnitSum, round_shares


@dataclass(frozen=True)
class Federation:
    """Everything that defines federated training. A training works on copies of its policies.

    Attributes:
        rounds: number of rounds.
        units: unit -> its rows.
        sampler: sampler of the units that take part.
        local: settings of a unit's training.
        bound: bound on every unit's update.
        noise: noise on the weighted sum of updates.
        denominator: public constant that the noisy sum is divided by; None for the weights of
            those who take part, which are private: nothing is promised then, and no noise is added.
        server: the server's step.
        unit_weights: (units,) weights in [0, weight_bound], or None for all 1; each a constant or
            a function of the unit's own data.
        weight_bound: bound on every unit's weight.
        row_weights: draws a round's row weights, or None for all 1.
        rows_per_unit: rows of a unit that a round uses at most, drawn afresh; None for all.
        clients: units send their updates to a server: the run writes down what passes between
            them. False where units are rows of one place.
        group: group of the corpus that units are ("user", "client"): it names the senders.
        own_draws: units sample their rows and add noise for themselves (`PrivateSteps`). All
            of them take part, also those without rows.
        round_of_row: (rows of the corpus,) the only round that uses a row; None: every round may.
    """

    rounds: int
    units: Index
    sampler: Sampler
    local: LocalWork
    bound: Bound
    noise: Noise
    denominator: float | None
    server: ServerStep
    unit_weights: FloatArray | None = None
    weight_bound: float = 1.0
    row_weights: RowWeights | None = None
    rows_per_unit: int | None = None
    clients: bool = False
    group: str = "user"
    own_draws: bool = False
    round_of_row: IntArray | None = None

    def with_own_policies(self) -> Federation:
        """Copy with fresh policy objects."""
        return replace(
            self,
            sampler=copy.deepcopy(self.sampler),
            bound=copy.deepcopy(self.bound),
            noise=copy.deepcopy(self.noise),
            server=copy.deepcopy(self.server),
        )


@dataclass(frozen=True)
class Trained:
    """The trained module and what really happened.

    Attributes:
        rounds: all rounds as events, by what the sampler drew, the noise added and the limits
            bounded; `NonPrivate` alone where a round bounded nothing.
        unit_events: where units draw for themselves, round after round the number of each unit, and
            what happened to its rows in the round.
    """

    module: nn.Module
    rounds: tuple[AnyEvent, ...]
    unit_events: tuple[tuple[int, tuple[AnyEvent, ...]], ...] = ()


class Rounds:
    """Units of each round. Rounds before a checkpoint are drawn again, all alike."""

    def __init__(self, sampler: Sampler, streams: Stream) -> None:
        self._sampler, self._streams = sampler, streams
        self._samplings: list[RoundSampling] = []

    def draw(self, step: int) -> TakingPart:
        """Draw the units of a round; calls follow the order of rounds, and may skip some."""
        while True:
            round_stream = self._streams.child("round", len(self._samplings))
            taking_part = self._sampler.draw(round_stream.rng("sample"))
            self._samplings.append(taking_part.sampling)
            if len(self._samplings) > step:
                return taking_part

    def samplings(self, rounds: int) -> list[RoundSampling]:
        """Sampling of each of the first rounds."""
        if len(self._samplings) < rounds:
            self.draw(rounds - 1)
        return self._samplings


def events_of(
    federation: Federation, samplings: Sequence[RoundSampling], bounded: bool
) -> tuple[AnyEvent, ...]:
    """Privacy events of all rounds."""
    if federation.denominator is None:
        return (NonPrivate(reason="sums were divided by private weights"),)
    return (
        federation.noise.events(samplings)
        if bounded
        else (NonPrivate(reason="nothing was clipped"),)
    )


def role_of(federation: Federation, learner: Learner) -> str:
    """Name of a sending unit: user where each user has a client, else client."""
    return "user" if federation.group == "user" and CLIENT in learner.corpus.groups else "client"


def clients_of(federation: Federation, learner: Learner, parts: Sequence[Share]) -> IntArray:
    """(clients,) the numbers of a round's units, in the order of their sums; none without clients.

    Client 3 is user 3 of the corpus, or client 3 of its group of that name.
    """
    if not federation.clients or not parts:
        return np.empty(0, np.int64)
    if federation.own_draws:
        places = [place.number for part in parts for place in part.cohort.places or ()]
        return np.array(places, dtype=np.int64)
    first_rows = np.concatenate([part.cohort.rows[:, 0] for part in parts])
    numbers: IntArray = learner.corpus.groups[federation.group][first_rows]
    return numbers


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


def check_two_level(federation: Federation, limits: Limits) -> None:
    """Refuse what would make a row's contribution depend on other rows, or weigh it.

    Raises:
        PrivacyError: naming the first such field of the federation.
    """
    if limits.rows is None:
        return
    local = federation.local
    broken = {
        "rows is not a positive number up to the bound of the whole update": not (
            0.0 < limits.rows <= limits.total < math.inf
        ),
        "layers are bounded too": bool(limits.layers),
        "local is not LocalTraining": not isinstance(local, LocalTraining),
        "local.epochs is above 1": local.epochs > 1,
        "local.batch_size is set": local.batch_size is not None,
        "local.optimizer is not sgd": isinstance(local, LocalTraining) and local.optimizer != "sgd",
        "unit_weights are not all 1": federation.unit_weights is not None,
        "row_weights are not all 1": federation.row_weights is not None,
        "rows_per_unit lets other rows in where one is deleted": federation.rows_per_unit
        is not None,
    }
    for reason, holds in broken.items():
        if holds:
            raise PrivacyError(f"two-level clipping with rows={limits.rows}: {reason}")


def draw_cohort(
    federation: Federation, taking_part: IntArray, round_stream: Stream, step: int = 0
) -> tuple[Cohort, FloatArray]:
    """Draw the rows of units that take part and have rows to use, and their unit weights.

    Units that draw for themselves stay with or without rows. All else that is random
    about the local work of a round is drawn as well, for all of its units at once: which of them
    compute side by side, and where, decides nothing.

    Args:
        federation: federation of the units.
        taking_part: (units,) positions of units that take part.
        round_stream: secret streams of the round.
        step: number of the round, for rows that only one round uses.
    """
    rng = round_stream.rng("rows")
    owner, rows = federation.units.take(taking_part)
    weights = np.ones(len(rows))
    if federation.row_weights is not None:
        weights = federation.row_weights(rng)[rows]
    keep = weights > 0
    if federation.round_of_row is not None:
        keep &= federation.round_of_row[rows] == step
    owner, rows, weights = owner[keep], rows[keep], weights[keep]
    if federation.rows_per_unit is not None:
        order = np.lexsort((rng.random(len(owner)), owner))
        counts = np.bincount(owner, minlength=len(taking_part))
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = np.sort(order[rank < federation.rows_per_unit])
        owner, rows, weights = owner[chosen], rows[chosen], weights[chosen]
    present, position = np.unique(owner, return_inverse=True)
    places = None
    if federation.own_draws:
        present, position = np.arange(len(taking_part)), owner
        places = tuple(
            Place(unit, round_stream.child("unit", unit)) for unit in taking_part.tolist()
        )
    built = Cohort.build(position, rows, weights, len(present))._replace(places=places)
    local = federation.local
    cohort = built.drawn(local.epochs, local.batch_size, rng, round_stream.rng("dropout"))
    of_unit = np.ones(len(present))
    if federation.unit_weights is not None:
        of_unit = federation.unit_weights[taking_part[present]]
    return cohort, of_unit
