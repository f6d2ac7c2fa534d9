"""What training really adds up: every unit's clipped contribution and the sum before noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from learners import EntityLearner, run_of
from torch import Tensor
from toy import looked_at_once

from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.run_context import Run
from uedp_bench.training import unit_sums
from uedp_bench.training.executors import InProcess
from uedp_bench.training.sampling import PoissonSampler, TakingPart


@dataclass
class Sums:
    """Of each round: the sum before noise, and who added what (by user, and by row); the first sum.

    `by_row` names the first row of a unit: of a unit of one row, the row.
    """

    totals: list[Tensor] = field(default_factory=list)
    by_user: list[dict[int, Tensor]] = field(default_factory=list)
    by_row: list[dict[int, Tensor]] = field(default_factory=list)
    first: unit_sums.UnitSum | None = None


@contextmanager
def watched(coins: np.ndarray | None = None, *, alone: bool = True) -> Iterator[Sums]:
    """Notes every round of training; `coins` (units,) says who takes part, if given.

    Where a test asks who took part and no more, `alone=False` saves computing what they add:
    `by_user` and `by_row` have their keys, and every sum is that of the first round.
    """
    sums = Sums()
    real = (InProcess.unit_sum, PoissonSampler.draw)

    def unit_sum(
        self: InProcess, work: unit_sums.RoundWork, shares: Sequence[unit_sums.Share]
    ) -> unit_sums.UnitSum:
        first_sum = sums.first if sums.first and not alone else real[0](self, work, shares)
        sums.first = first_sum
        by_user, by_row = dict[int, Tensor](), dict[int, Tensor]()
        for share in shares:
            for i in range(len(share.weights)):
                row = int(share.cohort.rows[i, 0])
                one = unit_sums.Share(share.cohort.take(np.array([i])), share.weights[[i]])
                part = real[0](self, work, [one]).total if alone else torch.empty(0)
                by_row[row] = by_user[int(self._worker._users[row])] = part
        sums.totals.append(first_sum.total.clone())
        sums.by_user.append(by_user)
        sums.by_row.append(by_row)
        if not alone:
            return first_sum
        # Whoever trains beside a unit changes the sum by rounding alone.
        together = sum(part.double() for part in by_row.values())
        # (Of a unit whose rows cancel, the rounding of the rows is left.)
        lengths = sum(norm(part) for part in by_row.values())
        most = min(work.limits.total, 1e6) * len(by_row)
        assert norm(first_sum.total.double() - together) <= 1e-5 * lengths + 1e-6 * most
        return first_sum

    def draw(self: PoissonSampler, rng: np.random.Generator) -> TakingPart:
        if coins is None:
            return real[1](self, rng)
        assert len(coins) == self.population
        return TakingPart(np.flatnonzero(coins), self.event)

    with patch.object(InProcess, "unit_sum", unit_sum), patch.object(PoissonSampler, "draw", draw):
        yield sums


@dataclass(frozen=True)
class Sentence:
    """A row of toy data: its user, the one-letter entities that it mentions, its point."""

    user: int
    mentions: str
    point: tuple[float, ...]


def learner_of(sentences: Sequence[Sentence]) -> EntityLearner:
    """The toy learner of these sentences, in their order."""
    return EntityLearner(
        np.array([s.point for s in sentences]),
        [s.user for s in sentences],
        [s.mentions for s in sentences],
    )


def neighbour(sentences: Sequence[Sentence], user: int, entity: str) -> list[Sentence]:
    """Without one user, and without every sentence that mentions one entity."""
    return [s for s in sentences if s.user != user and entity not in s.mentions]


def one_round(
    mechanism: TrainingMechanism[Any], sentences: Sequence[Sentence], coins: np.ndarray,
    run: Run | None = None,
) -> Sums:  # fmt: skip
    """The sums of a training on these sentences, `coins` (units,) deciding who takes part."""
    learner = learner_of(sentences)
    with watched(coins) as sums, looked_at_once():
        mechanism.train(learner, learner.corpus, run or run_of(learner))
    return sums


def norm(vector: Tensor) -> float:
    """l2 norm, in float64."""
    return float(torch.linalg.vector_norm(vector.double()))
