"""A share of a round's work, and what comes of it: the same wherever it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.learner import Learner
from uedp_bench.mechanism import CorpusStats
from uedp_bench.run import Run
from uedp_bench.training.bounds import Limits, NetworkLayer
from uedp_bench.training.chunks import chunk_size, chunks
from uedp_bench.training.clipping import clipped_sum, layered_sum
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.injection import inject
from uedp_bench.training.local import LocalWork
from uedp_bench.training.two_level import row_clipped_updates


class Share(NamedTuple):
    """Some of the units of a round, their rows, seeds and unit weights: plain arrays."""

    cohort: Cohort
    weights: FloatArray


class RoundWork(NamedTuple):
    """What is the same for all shares of a round.

    Attributes:
        theta: (d,) the shared weights.
        limits: that each unit is held to.
        keep_updates: the clipped update of each unit is wanted too, for a transcript.
    """

    theta: Tensor
    limits: Limits
    keep_updates: bool = False


@dataclass(frozen=True)
class UnitSum:
    """What some units add to a round, and what diagnostics want of it. Never released as it is.

    Attributes:
        total: (d,) the weighted sum of their clipped updates.
        units: how many they are.
        rows: that they used.
        short: of them, how many sent no more than `Count.below`; 0 where no count is asked for.
        clipped: of them, how many were clipped.
        dropped: of them, how many sent something that is not finite, and count as nothing.
        dropped_rows: of their rows, how many were not finite where rows are clipped one by one.
        injected: of them, how many an audit replaced; None where there is none.
        losses: before their first steps.
        updates: (units, d) what each of them sends, clipped; None where nobody asked.
    """

    total: Tensor
    units: int = 0
    rows: int = 0
    short: int = 0
    clipped: int = 0
    dropped: int = 0
    dropped_rows: int = 0
    injected: int | None = None
    losses: list[float] = field(default_factory=list)
    updates: Tensor | None = None


def joined(parts: Iterator[UnitSum], zero: Tensor) -> UnitSum:
    """The sum of all parts, added in their order: bits depend on it."""
    total, losses, injected = torch.zeros_like(zero), list[float](), None
    updates: list[Tensor] = []
    counts = dict.fromkeys(("units", "rows", "short", "clipped", "dropped", "dropped_rows"), 0)
    for part in parts:
        total += part.total
        losses.extend(part.losses)
        for name in counts:
            counts[name] += getattr(part, name)
        if part.updates is not None:
            updates.append(part.updates)
        if part.injected is not None:
            injected = (injected or 0) + part.injected
    sent = torch.cat(updates) if updates else None
    return UnitSum(total, **counts, injected=injected, losses=losses, updates=sent)


@dataclass(frozen=True)
class WorkerSetup:
    """What is the same in all rounds of a training. It is pickled for other processes.

    Attributes:
        learner: what is trained.
        local: how a unit trains.
        device: torch device.
        seed: decides what an audit injects; no noise and no coin is drawn from it here.
        injected: users whose updates an audit replaces.
    """

    learner: Learner
    local: LocalWork
    device: str
    seed: int
    injected: tuple[int, ...]


class ShareWorker:
    """Computes shares one by one, in the process that it is in."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.trainer = setup.local.trainer(setup.learner, setup.device)
        self._users = setup.learner.corpus.users
        self._setup = setup

    def layers(self) -> tuple[NetworkLayer, ...]:
        """Weights of the network, in the order of an update."""
        return self.trainer.flat.layers()

    def unit_sum(self, work: RoundWork, share: Share) -> UnitSum:
        """The sum of what the units of a share send."""
        theta, limits = work.theta, work.limits
        cohort, trainer, dropped_rows = share.cohort, self.trainer, 0
        if limits.rows is None:
            updates = trainer.updates(theta, cohort)
        else:
            row_size = self._setup.learner.row_size
            updates, dropped_rows = row_clipped_updates(
                trainer, theta, cohort, limits.rows, row_size
            )
        updates, injected = self._injected(updates, cohort, limits.total)
        weights = torch.as_tensor(share.weights, dtype=theta.dtype, device=theta.device)
        total, norms, over = self._clipped_sum(updates, limits, weights)
        losses, trainer.losses = trainer.losses, []
        return UnitSum(
            total,
            units=len(norms),
            rows=int((cohort.weights > 0).sum()),
            short=0 if limits.count is None else int((norms <= limits.count.below).sum()),
            clipped=int(over.sum()),
            dropped=int((~torch.isfinite(norms)).sum()),
            dropped_rows=dropped_rows,
            injected=injected,
            losses=losses,
            updates=self._each(updates, limits) if work.keep_updates else None,
        )

    def _clipped_sum(
        self, updates: Tensor, limits: Limits, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The sum, the norms before, and which units were clipped."""
        if limits.layers:
            sizes = [layer.size for layer in self.layers()]
            return layered_sum(updates, sizes, limits.layers, weights)
        total, norms = clipped_sum(updates, limits.total, weights)
        return total, norms, norms > limits.total

    def _each(self, updates: Tensor, limits: Limits) -> Tensor:
        """(units, d) the updates as they enter the sum, before unit weights."""
        one = updates.new_ones(1)
        alone = [self._clipped_sum(update, limits, one)[0] for update in torch.split(updates, 1)]
        return torch.stack(alone)

    def _injected(self, updates: Tensor, cohort: Cohort, bound: float) -> tuple[Tensor, int | None]:
        # A run of this share alone: it counts what it injects, and holds no key of any noise.
        run = Run(self._setup.seed, _NO_SIZES, injected=self._setup.injected)
        updates = inject(updates, self._users[cohort.rows[:, 0]], bound, run)
        found: int | None = run.diagnostics.get("injected_updates")
        return updates, found


_NO_SIZES = CorpusStats(0, 0, 0, 0, public=False)


def shares(
    cohort: Cohort, unit_weights: FloatArray, row_size: int, parameters: int, most: int
) -> Iterator[Share]:
    """A round in shares of units of similar size, from the smallest to the largest.

    Args:
        cohort: everybody who takes part and has rows to use.
        unit_weights: (units,).
        row_size: numbers in the largest tensor that one row needs.
        parameters: d.
        most: units in a share (`Speed.chunk`).
    """
    sizes = (cohort.weights > 0).sum(axis=1)
    order: IntArray = np.argsort(sizes, kind="stable")
    order = order[sizes[order] > 0]
    most = chunk_size(parameters, most, single_rows=cohort.rows.shape[1] == 1)
    for units in chunks(order, sizes[order] * row_size, most):
        yield Share(cohort.take(units), unit_weights[units])
