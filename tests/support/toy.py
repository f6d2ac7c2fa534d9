"""A learner small enough to know its gradients by heart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus, FloatArray, Index, IntArray
from uedp_bench.training import unit_sums
from uedp_bench.training.bounds import Bound, FlatBound
from uedp_bench.training.clipping_rule import one_pass_refusal
from uedp_bench.training.federation import Federation
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import Cohort, PoissonSampler
from uedp_bench.training.server import SgdServer


class Linear(nn.Module):
    """Half the squared distance of a weight vector to each row's point."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, points: Tensor) -> Tensor:
        return 0.5 * ((self.weight - points) ** 2).sum(-1)


class ToyLearner(Learner):
    """Row i has the loss |w - x_i|^2 / 2, hence the gradient w - x_i."""

    vocabulary = None
    row_size = 1

    def __init__(self, points: np.ndarray, users: Sequence[int], vectorised: bool = True) -> None:
        self.points = torch.as_tensor(np.asarray(points), dtype=torch.float32)
        self.module: nn.Module = Linear(self.points.shape[1])
        self.vectorised = vectorised
        rows = len(self.points)
        self.corpus = Corpus(
            texts=("x",) * rows,
            groups={"user": np.asarray(users, dtype=np.int64)},
            split=np.zeros(rows, dtype=np.int64),
        )

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        return {"points": self.points[torch.as_tensor(np.asarray(rows))]}

    def example_batch(self) -> Batch:
        rng = np.random.default_rng(0)
        points = rng.normal(size=(3, self.points.shape[1]))
        return {"points": torch.as_tensor(points, dtype=torch.float32)}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        nats = module(batch["points"])
        return Losses(nats, torch.ones_like(nats))

    def release(self, module: nn.Module) -> Release:
        raise NotImplementedError


class Weights(Release):
    """The trained weights of a toy network that began at 0."""

    def __init__(self, module: nn.Module) -> None:
        self.update = module.weight.detach().numpy()  # type: ignore[operator,union-attr]


def toy_run(seed: int = 0, users: int = 10, rows: int = 10, scope: str = "") -> Run:
    """A run with public sizes."""
    stats = CorpusStats(users, rows, sensitive_rows=0, entities=0, public=True)
    return Run(seed, stats, scope=scope)


def toy_plan(
    users: Sequence[int] | IntArray, bound: Bound | None = None, **changes: Any
) -> Federation:
    """One round of everybody, clipped at 1 by default, without noise; `users` are those of rows."""
    units = Index.build(np.array(users), np.arange(len(users)), max(users) + 1)
    plan = Federation(
        rounds=1, units=units, sampler=PoissonSampler(len(units), 1.0), local=LocalTraining(),
        bound=bound or FlatBound(1.0), noise=IndependentGaussian(0.0), denominator=1.0,
        server=SgdServer(),
    )  # fmt: skip
    return replace(plan, **changes)


def cohort_of(units: Sequence[Sequence[int]], weights: FloatArray | None = None) -> Cohort:
    """Units with these rows, whose weights are 1 by default; nothing is drawn for them."""
    owner = np.repeat(np.arange(len(units)), [len(rows) for rows in units])
    rows = np.concatenate([np.array(rows, dtype=np.int64) for rows in units])
    return Cohort.build(owner, rows, np.ones(len(rows)) if weights is None else weights, len(units))


_RULES: dict[tuple[type[ToyLearner], int, LocalTraining], str | None] = {}


@contextmanager
def looked_at_once() -> Iterator[None]:
    """Looks at the network of toy learners once for each size, and not before each training.

    All of them have the same weights and example rows, which decide by which rule updates are
    clipped; of a training on a few rows the look takes half of the time.
    """

    def refusal(learner: ToyLearner, local: LocalTraining, device: str) -> str | None:
        key = type(learner), learner.points.shape[1], local
        if key not in _RULES:
            _RULES[key] = one_pass_refusal(learner, local, device)
        return _RULES[key]

    with patch.object(unit_sums, "one_pass_refusal", refusal):
        yield
