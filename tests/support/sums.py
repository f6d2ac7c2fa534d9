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

from uedp_bench.mechanism import TrainingMechanism
from uedp_bench.run import Run
from uedp_bench.training import unit_sums
from uedp_bench.training.executors import InProcess
from uedp_bench.training.local import LocalTrainer
from uedp_bench.training.sampling import PoissonSampler, TakingPart


@dataclass
class Sums:
    """Of each round: the sum before noise, and who added what (by user, and by row).

    `by_row` names the first row of a unit: of a unit of one row, the row.
    """

    totals: list[Tensor] = field(default_factory=list)
    by_user: list[dict[int, Tensor]] = field(default_factory=list)
    by_row: list[dict[int, Tensor]] = field(default_factory=list)


@contextmanager
def watched(coins: np.ndarray | None = None) -> Iterator[Sums]:
    """Notes every round of training; `coins` (units,) says who takes part, if given."""
    sums, users, rows = Sums(), [np.empty(0, int)], [np.empty(0, int)]
    real = (InProcess.unit_sum, unit_sums.clipped_sum, unit_sums.inject,
            LocalTrainer.updates, PoissonSampler.draw)  # fmt: skip

    def unit_sum(*args: Any) -> unit_sums.UnitSum:
        sums.by_user.append({})
        sums.by_row.append({})
        found = real[0](*args)
        sums.totals.append(found.total.clone())
        return found

    def clipped_sum(updates: Tensor, bound: float, weights: Tensor) -> tuple[Tensor, Tensor]:
        for i, user in enumerate(users[0].tolist()):
            part = real[1](updates[i : i + 1], bound, weights[i : i + 1])[0]
            sums.by_user[-1][user] = part
            if len(rows[0]) == len(updates):
                sums.by_row[-1][int(rows[0][i])] = part
        return real[1](updates, bound, weights)

    def inject(updates: Tensor, of: np.ndarray, *rest: Any) -> Tensor:
        users[0] = of
        return real[2](updates, of, *rest)

    def updates(self: LocalTrainer, theta: Tensor, cohort: Any) -> Tensor:
        rows[0] = cohort.rows[:, 0]
        return real[3](self, theta, cohort)

    def draw(self: PoissonSampler, rng: np.random.Generator) -> TakingPart:
        if coins is None:
            return real[4](self, rng)
        assert len(coins) == self.population
        return TakingPart(np.flatnonzero(coins), self.event)

    with (
        patch.object(InProcess, "unit_sum", unit_sum),
        patch.object(unit_sums, "clipped_sum", clipped_sum),
        patch.object(unit_sums, "inject", inject),
        patch.object(LocalTrainer, "updates", updates),
        patch.object(PoissonSampler, "draw", draw),
    ):
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
    with watched(coins) as sums:
        mechanism.train(learner, learner.corpus, run or run_of(learner))
    return sums


def norm(vector: Tensor) -> float:
    """l2 norm, in float64."""
    return float(torch.linalg.vector_norm(vector.double()))
