"""Calls compute on more at once elsewhere than on a CPU."""

import torch

from uedp_bench.contracts.at_once import at_once


def test_a_gpu_computes_on_more_at_once_and_the_kind_of_device_alone_decides() -> None:
    assert at_once(100, "cpu") == at_once(100, torch.device("cpu")) == 100
    assert at_once(100, "cuda:1") == at_once(100, torch.device("cuda")) == 800
