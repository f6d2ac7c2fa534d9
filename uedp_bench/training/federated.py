"""Rounds of: sample units, train each on its own rows, clip, sum, add noise, step.

One engine serves user-level DP-FedAvg (McMahan et al. 2018), user-entity DP (Lai et al. 2022) and
record-level DP-SGD (Abadi et al. 2016): they differ in what a unit is, in which of its rows a
round uses, and in the scale of noise and step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.accounting.events import Gaussian
from uedp_bench.corpus import FloatArray, Index, IntArray
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.learner import Learner
from uedp_bench.randomness.streams import Stream
from uedp_bench.run import Run
from uedp_bench.training.chunks import chunk_size, chunks
from uedp_bench.training.clipping import GaussianNoise, clipped_sum
from uedp_bench.training.injection import inject
from uedp_bench.training.local import Cohort, LocalTrainer, LocalTraining
from uedp_bench.training.sampling import Sampler
from uedp_bench.training.two_level import check_two_level, row_clipped_updates

RowWeights = Callable[[np.random.Generator], FloatArray]
"""Draws the (rows,) weights of a round; rows of weight 0 are not used."""


@dataclass(frozen=True)
class Server:
    """How the server moves: sgd adds `learning_rate` times the estimate, adam normalises it.

    With the schedule "linear" the learning rate falls to 0 over the rounds, in equal parts.
    """

    learning_rate: float = 1.0
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    schedule: Literal["constant", "linear"] = "constant"

    def rate(self, step: int, rounds: int) -> float:
        """The learning rate of a round, counted from 0."""
        left = 1.0 if self.schedule == "constant" else 1.0 - step / rounds
        return self.learning_rate * left


@dataclass(frozen=True)
class Federation:
    """Everything that defines federated training.

    Attributes:
        rounds: how many.
        units: unit -> its rows.
        sampler: who takes part.
        local: how a unit trains.
        clip_bound: l2 bound on a unit's update; None leaves it unclipped (no guarantee).
        noise_multiplier: standard deviation of the noise on the weighted sum of updates, in units
            of what a unit adds at most: `clip_bound * weight_bound` (of 1 without a clip bound).
        denominator: public constant that the noisy sum is divided by.
        server: the server's step.
        unit_weights: (units,) weights in [0, weight_bound], or None for all 1; each a constant or
            a function of the unit's own data.
        weight_bound: what no unit's weight exceeds.
        row_weights: draws a round's row weights, or None for all 1.
        rows_per_unit: rows of a unit that a round uses at most, drawn afresh; None for all.
        row_clip: two-level clipping: a unit's update is the sum over its rows of the row's own
            update clipped to this l2 norm, clipped again to `clip_bound`; None for one level.
    """

    rounds: int
    units: Index
    sampler: Sampler
    local: LocalTraining
    clip_bound: float | None
    noise_multiplier: float
    denominator: float
    server: Server
    unit_weights: FloatArray | None = None
    weight_bound: float = 1.0
    row_weights: RowWeights | None = None
    rows_per_unit: int | None = None
    row_clip: float | None = None


@dataclass(frozen=True)
class Trained:
    """The trained module and what really happened, for the event.

    Attributes:
        rounds: rounds that were run.
        gaussian: noise that was really added over the bound that was really enforced; None where
            updates were not clipped.
    """

    module: nn.Module
    rounds: int
    gaussian: Gaussian | None


def train_federated(plan: Federation, learner: Learner, run: Run) -> Trained:
    """Runs the rounds.

    Raises:
        InputError: if the weights of the network stop being finite.
        PrivacyError: if a unit's weight exceeds `weight_bound`, if the network keeps statistics
            of its inputs, which are released without clipping or noise, or if two-level clipping
            is combined with what its analysis excludes.
    """
    if plan.unit_weights is not None and plan.unit_weights.max(initial=0.0) > plan.weight_bound:
        raise PrivacyError(f"a unit weighs more than the bound {plan.weight_bound}")
    check_two_level(plan)
    # Of this call alone: a loop that trains again draws afresh.
    streams, noise = run.fresh("federated"), GaussianNoise()
    trainer = LocalTrainer(learner, plan.local, run.device)
    theta = trainer.flat.vector.clone()
    server = _ServerState(plan, theta)
    noise_std = plan.noise_multiplier * _largest_contribution(plan)
    diary = _Diary(run, len(theta), noise_std)
    for step in range(plan.rounds):
        here = streams.child("round", step)
        taking_part = plan.sampler.draw(here.rng("sample"))
        cohort, weights = _cohort(plan, taking_part, here)
        total = _sum_of_updates(plan, trainer, theta, (cohort, weights, diary), run)
        diary.round(step, total, trainer.losses)
        # A round in which nobody takes part still adds noise: leaving it out would tell.
        noisy = noise.add(total, noise_std, here.rng("noise"))
        theta = server.step(theta, noisy / plan.denominator)
        run.progress("train", step + 1, plan.rounds)
    if not bool(torch.isfinite(theta).all()):
        raise InputError(
            "training diverged: weights are not finite; lower the learning rate or the noise"
        )
    if plan.clip_bound is not None and (kept := trainer.flat.changed_buffers()):
        raise PrivacyError(
            f"the network keeps statistics of private inputs in {kept[0]!r}, and neither clipping "
            "nor noise covers them; take a network without batch normalisation"
        )
    diary.close()
    trainer.flat.load(theta)
    gaussian = _gaussian(plan, min(noise.stds, default=0.0))
    return Trained(trainer.flat.module.eval(), len(noise.stds), gaussian)


def _largest_contribution(plan: Federation) -> float:
    return 1.0 if plan.clip_bound is None else plan.clip_bound * plan.weight_bound


def _gaussian(plan: Federation, noise_std: float) -> Gaussian | None:
    """The noise that was added over the bound that was enforced (exact where rounding is all)."""
    if plan.clip_bound is None:
        return None
    ratio = noise_std / _largest_contribution(plan)
    same = math.isclose(ratio, plan.noise_multiplier, rel_tol=1e-12, abs_tol=1e-300)
    return Gaussian(noise_multiplier=plan.noise_multiplier if same else ratio)


def _cohort(plan: Federation, taking_part: IntArray, here: Stream) -> tuple[Cohort, FloatArray]:
    """Rows and weights of those who take part and have rows to use; their unit weights.

    All that is random about a round is drawn here, for all of its units at once: which of them
    compute side by side decides nothing.
    """
    rng = here.rng("rows")
    owner, rows = plan.units.take(taking_part)
    weights = np.ones(len(rows))
    if plan.row_weights is not None:
        weights = plan.row_weights(rng)[rows]
    keep = weights > 0
    owner, rows, weights = owner[keep], rows[keep], weights[keep]
    if plan.rows_per_unit is not None:
        order = np.lexsort((rng.random(len(owner)), owner))
        counts = np.bincount(owner, minlength=len(taking_part))
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = np.sort(order[rank < plan.rows_per_unit])
        owner, rows, weights = owner[chosen], rows[chosen], weights[chosen]
    present, position = np.unique(owner, return_inverse=True)
    built = Cohort.build(position, rows, weights, len(present))
    cohort = built.drawn(plan.local, rng, here.rng("dropout"))
    of_unit = np.ones(len(present))
    if plan.unit_weights is not None:
        of_unit = plan.unit_weights[taking_part[present]]
    return cohort, of_unit


def _sum_of_updates(
    plan: Federation,
    trainer: LocalTrainer,
    theta: Tensor,
    work: tuple[Cohort, FloatArray, _Diary],
    run: Run,
) -> Tensor:
    """(d,) weighted sum of clipped updates, chunk by chunk of units of similar size."""
    cohort, unit_weights, diary = work
    total = torch.zeros_like(theta)
    sizes = (cohort.weights > 0).sum(axis=1)
    order = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    most = chunk_size(len(theta), run.speed.chunk, single_rows=cohort.rows.shape[1] == 1)
    for units in chunks(order, sizes[order] * trainer.row_size, most):
        if plan.row_clip is None:
            updates = trainer.updates(theta, cohort.take(units))
        else:
            updates = row_clipped_updates(trainer, theta, cohort.take(units), plan.row_clip)
        bound = math.inf if plan.clip_bound is None else plan.clip_bound
        updates = inject(updates, trainer.users[cohort.rows[units, 0]], bound, run)
        weights = torch.as_tensor(unit_weights[units], dtype=theta.dtype, device=theta.device)
        part, norms = clipped_sum(updates, bound, weights)
        total += part
        diary.chunk(norms, bound, int(sizes[units].sum()))
    return total


class _ServerState:
    """Optimiser state of the server."""

    def __init__(self, plan: Federation, theta: Tensor) -> None:
        self._server, self._rounds = plan.server, plan.rounds
        server = plan.server
        self._first = torch.zeros_like(theta)
        self._second = torch.zeros_like(theta) if server.optimizer == "adam" else None
        self._count = 0

    def step(self, theta: Tensor, estimate: Tensor) -> Tensor:
        """The weights after one step along the noisy estimate (d,) of the mean update."""
        server = self._server
        learning_rate = server.rate(self._count, self._rounds)
        self._count += 1
        if self._second is None:
            self._first = server.momentum * self._first + estimate
            return theta + learning_rate * self._first
        self._first = 0.9 * self._first + 0.1 * estimate
        self._second = 0.999 * self._second + 0.001 * estimate**2
        mean = self._first / (1 - 0.9**self._count)
        variance = self._second / (1 - 0.999**self._count)
        return theta + learning_rate * mean / (variance.sqrt() + 1e-8)


class _Diary:
    """Simulation-only diagnostics: they look at values before noise."""

    def __init__(self, run: Run, size: int, noise_std: float) -> None:
        self._run = run
        self._noise_norm = noise_std * math.sqrt(size)
        self._units = self._rows = self._clipped = self._dropped = self._empty = 0
        self._here = 0
        self._signal: list[float] = []

    def chunk(self, norms: Tensor, bound: float, rows: int) -> None:
        """Counts one chunk of units."""
        self._here += len(norms)
        self._rows += rows
        self._clipped += int((norms > bound).sum())
        self._dropped += int((~torch.isfinite(norms)).sum())

    def round(self, step: int, total: Tensor, losses: list[float]) -> None:
        """Closes one round."""
        self._signal.append(float(torch.linalg.vector_norm(total)))
        if losses:
            self._run.log("train_loss", step + 1, float(np.mean(losses)))
        losses.clear()
        self._run.log("units", step + 1, self._here)
        self._units, self._here, self._empty = (
            self._units + self._here, 0, self._empty + (self._here == 0),
        )  # fmt: skip

    def close(self) -> None:
        """Writes the diagnostics of the whole training."""
        self._run.count({"units_trained": self._units, "rows_trained": self._rows})
        signal = float(np.mean(self._signal)) if self._signal else 0.0
        self._run.note(
            signal_to_noise=signal / self._noise_norm if self._noise_norm > 0 else "inf",
            sum_norm=signal,
            noise_norm=self._noise_norm,
            clipped_fraction=self._clipped / max(self._units, 1),
            dropped_updates=self._dropped,
            empty_rounds=self._empty,
            simulation_only=["signal_to_noise", "sum_norm", "clipped_fraction", "dropped_updates",
                             "empty_rounds", "series.train_loss", "series.units",
                             "cost.units_trained", "cost.rows_trained", "cost.rows_truncated",
                             "sentences_dropped_by_cap"],
        )  # fmt: skip
