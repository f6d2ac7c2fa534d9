"""Numbers too small to be normal are zeros while a step of training computes, and not after."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from learners import NetworkLearner
from torch import nn

from uedp_bench.contracts.learner import Batch, Losses
from uedp_bench.training import denormals
from uedp_bench.training.bounds import Limits
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.plain import plain_step
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

LEAST = sys.float_info.min


@pytest.fixture(autouse=True)
def _can() -> Iterator[None]:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot take them for zeros")
    yield
    assert not denormals.are_zeros()


class Watched(NetworkLearner):
    """Notes at each loss whether such numbers are zeros."""

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        self.zeros = [*getattr(self, "zeros", []), denormals.are_zeros()]
        return super().losses(module, batch)


def test_they_are_zeros_within_and_count_before_and_after() -> None:
    assert LEAST / 4.0 > 0.0
    with denormals.as_zeros():
        assert LEAST / 4.0 == 0.0
        with denormals.as_zeros():
            pass
        assert denormals.are_zeros()
    assert LEAST / 4.0 > 0.0
    with pytest.raises(KeyError), denormals.as_zeros():
        raise KeyError


def test_a_plain_step_takes_them_for_zeros() -> None:
    learner = Watched(6)
    optimizer = torch.optim.SGD(learner.module.parameters(), lr=0.1)
    batch = np.arange(6), np.arange(6)
    plain_step(learner, learner.module, optimizer, batch, "cpu")
    assert learner.zeros == [True]


@pytest.mark.parametrize("epochs", [1, 2])  # in one pass, and by the updates of each
def test_a_share_of_a_round_does(epochs: int) -> None:
    learner = Watched(6)
    setup = WorkerSetup(learner, LocalTraining(epochs=epochs), "cpu", seed=1, injected=(), most=4)
    worker = ShareWorker(setup)
    rng = np.random.default_rng(1)
    cohort = Cohort.build(np.arange(6), np.arange(6), np.ones(6), 6).drawn(epochs, None, rng, rng)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(total=1.0))
    assert float(worker.unit_sum(work, Share(cohort, np.ones(6))).total.norm()) > 0.0
    assert learner.zeros
    assert all(learner.zeros)
