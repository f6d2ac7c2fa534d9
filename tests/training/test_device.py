"""Bounded sums are computed with all digits of float32, or not at all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from learners import DROPOUT_MODELS, DROPOUT_STATS, NetworkLearner, flat, learner_with_dropout
from torch import nn
from toy import cohort_of

from uedp_bench.contracts.learner import Batch, Losses
from uedp_bench.contracts.run_context import Run, Speed
from uedp_bench.errors import PrivacyError
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.one_run.stored_run import provenance
from uedp_bench.training.bounds import Limits
from uedp_bench.training.device import (
    batches_of_like_length,
    choose_device,
    denormals_are_zeros,
    denormals_as_zeros,
    lowered_precision,
    pin_float32,
)
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.plain import plain_step
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
    rng = np.random.default_rng(0)
    cohort = cohort_of([[0], [1], [2], [3]]).drawn(1, None, rng, rng)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(bound))
    if bound < np.inf:
        with pytest.raises(PrivacyError, match="fewer digits"):
            worker.unit_sum(work, Share(cohort, np.ones(4)))
    else:
        worker.unit_sum(work, Share(cohort, np.ones(4)))


B: Any = torch.backends
LOWERING: dict[str, Callable[[], object]] = {
    "cudnn": lambda: setattr(B.cudnn, "allow_tf32", True),
    "matmul": lambda: setattr(B.cuda.matmul, "allow_tf32", True),
    "both": lambda: torch.set_float32_matmul_precision("high"),
    "all of torch": lambda: setattr(B, "fp32_precision", "tf32"),
    "convolutions of a GPU": lambda: setattr(B.cudnn.conv, "fp32_precision", "tf32"),
    "recurrent layers of a GPU": lambda: setattr(B.cudnn.rnn, "fp32_precision", "tf32"),
    "matmul of a CPU": lambda: setattr(B.mkldnn.matmul, "fp32_precision", "bf16"),
    "convolutions of a CPU": lambda: setattr(B.mkldnn.conv, "fp32_precision", "bf16"),
    "recurrent layers of a CPU": lambda: setattr(B.mkldnn.rnn, "fp32_precision", "tf32"),
    "a CPU": lambda: setattr(B.mkldnn, "fp32_precision", "bf16"),
}


@pytest.mark.parametrize("way", LOWERING)
def test_a_device_is_chosen_with_all_digits(way: str) -> None:
    assert choose_device("cpu") == "cpu"
    assert lowered_precision() is None
    LOWERING[way]()
    assert lowered_precision() is not None
    assert choose_device("cpu") == "cpu"
    assert lowered_precision() is None


def test_a_result_tells_of_lowered_precision() -> None:
    pin_float32()
    assert "precision" not in provenance({})
    torch.set_float32_matmul_precision("high")
    assert "tf32" in provenance({})["precision"]


LEAST = sys.float_info.min


@pytest.fixture(autouse=True)
def _can() -> Iterator[None]:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot take them for zeros")
    yield
    assert not denormals_are_zeros()


class Watched(NetworkLearner):
    """Notes at each loss whether such numbers are zeros."""

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        self.zeros = [*getattr(self, "zeros", []), denormals_are_zeros()]
        return super().losses(module, batch)


def test_they_are_zeros_within_and_count_before_and_after() -> None:
    assert LEAST / 4.0 > 0.0
    with denormals_as_zeros():
        assert LEAST / 4.0 == 0.0
        with denormals_as_zeros():
            pass
        assert denormals_are_zeros()
    assert LEAST / 4.0 > 0.0
    with pytest.raises(KeyError), denormals_as_zeros():
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
    cohort = cohort_of(np.arange(6)[:, None]).drawn(epochs, None, rng, rng)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(total=1.0))
    assert float(worker.unit_sum(work, Share(cohort, np.ones(6))).total.norm()) > 0.0
    assert learner.zeros
    assert all(learner.zeros)


@pytest.mark.parametrize("model", list(DROPOUT_MODELS))
def test_weights_are_the_same_whatever_the_chunk(model: str) -> None:
    updates = []
    for chunk in (1, 7, 64):
        learner = learner_with_dropout(model)
        run = Run(1, DROPOUT_STATS, scope="s", speed=Speed(chunk=chunk))
        params = {"rounds": 1, "users_per_round": 10, "noise_multiplier": 0.0, "clip": 5.0,
                  "local_batch_size": 2, "local_epochs": 2}  # fmt: skip
        module, _ = UserDP.create(params).train(learner, learner.corpus, run)
        updates.append(flat(module) - flat(learner.module))
    size = float(updates[0].norm())
    assert size > 0.01
    for other in updates[1:]:
        assert float((updates[0] - other).norm()) < 1e-4 * size


def test_without_dropout_weights_are_others() -> None:
    """So that the test above compares runs in which dropout acts."""
    kept = DROPOUT_MODELS["bilstm"][1]["dropout"]
    weights = []
    for rate in (kept, 0.0):
        DROPOUT_MODELS["bilstm"][1]["dropout"] = rate
        learner = learner_with_dropout("bilstm")
        params = {"rounds": 1, "users_per_round": 10, "noise_multiplier": 0.0, "clip": 5.0}
        module, _ = UserDP.create(params).train(
            learner, learner.corpus, Run(1, DROPOUT_STATS, scope="s")
        )
        weights.append(flat(module))
    DROPOUT_MODELS["bilstm"][1]["dropout"] = kept
    assert float((weights[0] - weights[1]).norm()) > 1e-3


def test_batches_have_rows_of_like_length_and_every_row_once() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 100, 1_003)
    order = rng.permutation(np.arange(3, 1_003))
    rows = batches_of_like_length(order, lengths, 8, rng)
    assert sorted(rows.tolist()) == list(range(3, 1_003))
    batches = np.split(rows, range(8, 1_000, 8))
    spread = [np.ptp(lengths[batch]) for batch in batches]
    assert np.mean(spread) < 6 < np.mean([np.ptp(lengths[b]) for b in np.split(order, 125)])
    assert not np.array_equal(rows, batches_of_like_length(order, lengths, 8, rng))
    small = batches_of_like_length(np.arange(5), lengths, 8, rng)
    assert sorted(small.tolist()) == list(range(5))
    assert not len(batches_of_like_length(np.arange(0), lengths, 8, rng))


def test_the_last_batch_is_the_one_that_is_smaller() -> None:
    lengths = np.arange(21)
    for seed in range(5):
        rows = batches_of_like_length(np.arange(21), lengths, 4, np.random.default_rng(seed))
        assert all(np.ptp(rows[at : at + 4]) == 3 for at in range(0, 20, 4))
