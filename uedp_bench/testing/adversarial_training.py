"""Rows that try to pass every bound, and the sums that training really makes of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, IntArray, Spans
from uedp_bench.training import unit_sums

USERS, HELD_BACK, WIDTH = 12, 4, 64
SIZES = (0.0, 1e-3, 1.0, 1e6, 1e25, 3e38, math.inf, math.nan)
"""Lengths of gradients: some are clipped, some overflow once squared, some are no numbers."""

CLIENTS = Clients(count=3, by="random")


class _Distance(nn.Module):
    """Half the squared distance of a vector of weights to each row's point."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, points: Tensor) -> Tensor:
        return 0.5 * ((self.weight - points) ** 2).sum(-1)


class AdversarialLearner(Learner):
    """Twelve users with two rows each, whose gradients at the start are their points, negated.

    The rows of four more users are in the split valid.

    Args:
        other: user whose points differ, for a neighbour; None for nobody.
        gentle: True for short gradients, for mechanisms that clip nothing.

    Attributes:
        batched_rows: rows that were read.
        differentiated: rows that were read where gradients are computed.
    """

    row_size = WIDTH
    vectorised = True

    def __init__(self, other: int | None = None, *, gentle: bool = False) -> None:
        rng = np.random.default_rng(7)
        rows = 2 * (USERS + HELD_BACK)
        directions = rng.normal(size=(rows, WIDTH))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        sizes = np.array([SIZES[row % len(SIZES)] for row in range(rows)])
        sizes[::2] = np.where(np.isfinite(sizes[::2]), sizes[::2], 1e6)
        if gentle:
            sizes = np.full(rows, 0.1)
        with np.errstate(invalid="ignore", over="ignore"):
            points = np.where(sizes[:, None] == 0, 0.0, sizes[:, None] * directions)
        users = np.repeat(np.arange(USERS + HELD_BACK), 2)
        if other is not None:
            points[users == other] = -1e5 * directions[users == other]
        self.points = torch.as_tensor(points, dtype=torch.float32)
        self.module: nn.Module = _Distance()
        texts = tuple("a b" if row % 3 else "-" for row in range(rows))
        mentions = [(row, 2 * at, 2 * at + 1, 0) for row, text in enumerate(texts)
                 for at in range(2) if text != "-"]  # fmt: skip
        split = np.full(rows, SPLITS.index("train"), dtype=np.int64)
        split[2 * USERS :] = SPLITS.index("valid")
        corpus = Corpus(
            texts, {"user": users}, split, Spans.build(texts, mentions), entity_types=("NAME",)
        )
        self.batched_rows: set[int] = set()
        self.differentiated: set[int] = set()
        self.corpus = CLIENTS.deal(corpus)

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """See `Learner`."""
        self.batched_rows.update(int(row) for row in rows)
        if torch.is_grad_enabled():
            self.differentiated.update(int(row) for row in rows)
        return {"points": self.points[torch.as_tensor(np.asarray(rows))]}

    def example_batch(self) -> Batch:
        """See `Learner`."""
        points = np.random.default_rng(0).normal(size=(3, WIDTH))
        return {"points": torch.as_tensor(points, dtype=torch.float32)}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """See `Learner`."""
        nats = module(batch["points"])
        return Losses(nats, torch.ones_like(nats))

    def release(self, module: nn.Module) -> Release:
        """See `Learner`; nothing is asked of it."""
        return Release()

    def sizes(self) -> CorpusStats:
        """Public sizes of its rows."""
        corpus = self.corpus
        train = corpus.where("train")
        return CorpusStats(
            users=USERS, rows=int(train.sum()),
            sensitive_rows=int((train & corpus.sensitive).sum()),
            entities=corpus.entity_count, public=True, clients=CLIENTS.public_shares(corpus),
        )  # fmt: skip


@dataclass(frozen=True)
class Part:
    """Part of one unit in one sum.

    Attributes:
        row: first row of the unit.
        weight: weight of the unit.
        sent: (d,) update that it added.
        bound: largest l2 norm of its update; infinity where nothing is bounded.
    """

    row: int
    weight: float
    sent: Tensor
    bound: float


@dataclass
class Sums:
    """All sums of a training in their order: the part of each unit, and the sum."""

    parts: list[list[Part]] = field(default_factory=list)
    totals: list[Tensor] = field(default_factory=list)


@contextmanager
def watched() -> Iterator[Sums]:
    """Note every sum of the engine within the block, and compute each unit alone beside it."""
    sums, real = Sums(), unit_sums.ShareWorker.unit_sum

    def unit_sum(
        self: unit_sums.ShareWorker, work: unit_sums.RoundWork, share: unit_sums.Share
    ) -> unit_sums.UnitSum:
        unit_sum = real(self, work, share)
        if share.cohort.places is not None:
            return unit_sum  # units that draw for themselves add up their own rows, one sum each
        sums.totals.append(unit_sum.total.clone())
        parts: list[Part] = []
        for unit in range(len(share.weights)):
            one = unit_sums.Share(share.cohort.take(np.array([unit])), share.weights[[unit]])
            sent = real(self, work, one).total.clone()
            row, weight = int(share.cohort.rows[unit, 0]), float(share.weights[unit])
            parts.append(Part(row, weight, sent, work.limits.total))
        sums.parts.append(parts)
        return unit_sum

    with patch.object(unit_sums.ShareWorker, "unit_sum", unit_sum):
        yield sums
