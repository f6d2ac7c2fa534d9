"""Rows whose losses are no numbers, or larger than numbers are, on real networks in one pass."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import text_encoders  # noqa: F401  # registers a frozen encoder
import torch
from model_learners import ROWS, USERS, learner_of_model
from torch import nn
from toy import cohort_of

from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.training.bounds import Count, Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, UnitSum, WorkerSetup

BOUND, UNIT, ROW = 0.3, 2, 4
WEIGHTS = np.array([1.0, 0.25, 0.7, 1.0, 0.4])
SEEDS = np.arange(100, 100 + len(ROWS))


class _Scaled(Learner):
    """Another learner, the loss of each row times a number."""

    def __init__(self, name: str) -> None:
        self._inner = learner_of_model(name)
        self.factors = torch.ones(len(ROWS))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)

    def batch(self, rows: Any, seeds: Any) -> Batch:
        chosen = torch.as_tensor(np.asarray(rows))
        return {**self._inner.batch(rows, seeds), "factors": self.factors[chosen]}

    def example_batch(self) -> Batch:
        inner = self._inner.example_batch()
        assert inner is not None
        return {**inner, "factors": torch.ones(len(inner["seeds"]))}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        rest = {name: value for name, value in batch.items() if name != "factors"}
        losses = self._inner.losses(module, rest)
        return Losses(losses.nats * batch["factors"], losses.targets)

    def release(self, module: nn.Module) -> Any:
        raise NotImplementedError


def _cohort() -> Cohort:
    cohort = cohort_of(USERS)
    return cohort._replace(seeds=SEEDS[cohort.rows][None])


@cache
def _setup(name: str) -> WorkerSetup:
    """The network of a model with its clipping rule, which all forms share."""
    return WorkerSetup(_Scaled(name), LocalTraining(), "cpu", 1, injected=(), most=4).decided()


FORMS = {
    "whole": Limits(BOUND),
    "counted": Limits(BOUND, count=Count(BOUND, 1.0)),
    "two levels": Limits(BOUND, rows=0.1),
    "layers": Limits(BOUND),
}
FACTORS = (math.nan, math.inf, -math.inf, 3e38, 1e25, -1e6, 1e-17, 1e-30, 1e-44, 0.0)


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize(
    "name", ["lstm-small", "awd-lstm", "bilstm", "tfidf", "vectors", "words of bilstm, crf"]
)
def test_no_loss_moves_the_sum_further_than_the_bound(name: str, form: str) -> None:
    setup, limits = _setup(name), FORMS[form]
    worker, learner = ShareWorker(setup), setup.learner
    assert isinstance(learner, _Scaled)
    learner.factors[:] = 1.0
    if form == "layers":
        layers = len(worker.layers())
        limits = Limits(BOUND, layers=(BOUND / math.sqrt(layers),) * layers)

    def sums(units: list[int]) -> UnitSum:
        work = RoundWork(worker.trainer.flat.vector.clone(), limits)
        some = np.array(units)
        return worker.unit_sum(work, Share(_cohort().take(some), WEIGHTS[some]))

    others = sums([0, 1, 3, 4])
    before = sums([0, 1, 2, 3, 4])
    assert set(before.clipping) == {ONE_PASS}
    for factor in FACTORS:
        learner.factors[ROW] = factor
        unit_sum = sums([0, 1, 2, 3, 4])
        assert set(unit_sum.clipping) == {ONE_PASS}, factor
        moved = float((unit_sum.total.double() - others.total.double()).norm())
        # Sums of float32 are apart by a few of their own last digits.
        assert moved <= WEIGHTS[UNIT] * BOUND * (1 + 3e-5), factor
        if 1e25 < factor < math.inf:
            continue  # it depends on the network if the gradient is a number
        lost = not math.isfinite(factor)
        if limits.rows is None:
            assert unit_sum.dropped == lost, factor
            assert moved <= 1e-5 or not lost, factor
        else:
            assert (unit_sum.dropped, unit_sum.dropped_rows) == (0, lost), factor
            # Its other rows stay: two rows are left of three.
            assert moved > 0.01, factor
        if abs(factor) > 1e3 and not lost:
            assert moved > 0.99 * WEIGHTS[UNIT] * min(BOUND, limits.rows or BOUND) / 2, factor
        if factor == 0.0:
            assert 0 < moved < float((before.total - others.total).norm()) * 3
