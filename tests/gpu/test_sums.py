"""A round's clipped sum on a GPU is that of the CPU, for every model of the registry."""

from __future__ import annotations

import hashed_cnn  # noqa: F401  # registers convolutions on vectors of a frozen encoder
import numpy as np
import pytest
import text_encoders  # noqa: F401  # registers a frozen encoder
import torch
from model_learners import MODELS, ROWS, USERS, learner_of_model
from toy import cohort_of

from uedp_bench.one_run.runner import Meter
from uedp_bench.training.bounds import Limits
from uedp_bench.training.device import choose_device
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU"),
]


def _sum(name: str, device: str, refusal: str | None) -> torch.Tensor:
    setup = WorkerSetup(learner_of_model(name), LocalTraining(), device, 1, (), 4, refusal)
    worker = ShareWorker(setup)
    cohort = cohort_of(USERS)
    cohort = cohort._replace(seeds=np.arange(100, 100 + len(ROWS))[cohort.rows][None])
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.1))
    total: torch.Tensor = worker.unit_sum(work, Share(cohort, np.ones(len(USERS)))).total
    return total.cpu().double()


@pytest.mark.parametrize("refusal", [None, "a test asks for it"], ids=["one pass", "updates"])
@pytest.mark.parametrize("name", MODELS)
def test_a_sum_is_that_of_the_cpu(name: str, refusal: str | None) -> None:
    expected = _sum(name, "cpu", refusal)
    device_sum = _sum(name, "cuda", refusal)
    assert float((device_sum - expected).norm()) < 1e-3 * float(expected.norm())


def test_a_device_by_its_number_is_measured_first() -> None:
    assert choose_device("cuda:0") == "cuda:0"
    with Meter(lambda *_: None).planting("cuda:0"):
        pass
