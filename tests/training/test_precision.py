"""Bounded sums are computed with all digits of float32, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from learners import NetworkLearner
from torch import nn

from uedp_bench.errors import PrivacyError
from uedp_bench.learner import Batch, Losses
from uedp_bench.training.bounds import Limits
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.device import choose_device
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.precision import lowered_precision, pin_float32
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup


@pytest.fixture(autouse=True)
def _pinned() -> Iterator[None]:
    yield
    pin_float32()


class _Lowering(NetworkLearner):
    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        if len(self.seen):
            torch.set_float32_matmul_precision("medium")
        return super().losses(module, batch)


@pytest.mark.parametrize("bound", [1.0, float("inf")])
def test_a_component_that_lowers_it_ends_bounded_training(bound: float) -> None:
    worker = ShareWorker(WorkerSetup(_Lowering(4), LocalTraining(), "cpu", 1, (), 4))
    rows, rng = np.arange(4), np.random.default_rng(0)
    cohort = Cohort.build(rows, rows, np.ones(4), 4).drawn(1, None, rng, rng)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(bound))
    if bound < np.inf:
        with pytest.raises(PrivacyError, match="set_float32_matmul_precision"):
            worker.unit_sum(work, Share(cohort, np.ones(4)))
    else:
        worker.unit_sum(work, Share(cohort, np.ones(4)))


def test_a_device_is_chosen_with_all_digits() -> None:
    torch.backends.cudnn.allow_tf32 = True
    assert lowered_precision() == "torch.backends.cudnn.allow_tf32 = True"
    assert choose_device("cpu") == "cpu"
    assert lowered_precision() is None
