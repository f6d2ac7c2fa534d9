"""Bounded sums are computed with all digits of float32, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner
from torch import nn

from uedp_bench.contracts.learner import Batch, Losses
from uedp_bench.errors import PrivacyError
from uedp_bench.store.provenance import provenance
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
