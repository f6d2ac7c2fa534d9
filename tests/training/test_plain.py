"""Choice of an epoch in ordinary training."""

from __future__ import annotations

import pytest
import torch

from uedp_bench.contracts.learner import Losses
from uedp_bench.training.plain import ValidLosses


def test_few_confident_mistakes_do_not_outweigh_right_classes() -> None:
    one = torch.ones(4)
    unsure = Losses(torch.tensor([0.7, 0.6, 0.7, 0.6]), one)  # about even odds on each row
    sure = Losses(torch.tensor([0.01, 0.01, 0.01, 6.0]), one)  # right on three rows of four
    first, second = ValidLosses.of_batches([unsure]), ValidLosses.of_batches([sure])
    assert first.nats < second.nats
    assert second.badness == pytest.approx(0.257, abs=0.002)
    assert second.badness < first.badness


def test_rows_of_many_targets_are_compared_by_mean_loss() -> None:
    parts = [Losses(torch.tensor([3.0]), torch.tensor([1])),
             Losses(torch.tensor([5.0]), torch.tensor([3]))]  # fmt: skip
    assert ValidLosses.of_batches(parts) == ValidLosses(nats=2.0)
    assert ValidLosses.of_batches(parts).badness == 2.0
