"""What a stage takes over from the stage before: every weight, or a part under another head."""

from __future__ import annotations

import pytest
import torch
from learners import NetworkLearner, flat
from torch import nn

from uedp_bench.contracts.learner import Learner, Schedule, numbers_per_call, take_over
from uedp_bench.errors import CapabilityError


class Headed(nn.Module):
    """An encoder under a head of any size."""

    def __init__(self, classes: int, width: int = 3) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, width), nn.Linear(width, width))
        self.head = nn.Linear(width, classes)


class HeadLearner(NetworkLearner):
    """Shares its encoder."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(4)
        self.module = module

    def start_from(self, module: nn.Module) -> None:
        take_over(self.module, module, "encoder")


def test_a_learner_takes_over_every_weight_by_default() -> None:
    before, after = NetworkLearner(4), NetworkLearner(4)
    with torch.no_grad():
        for weight in before.module.parameters():
            weight.add_(1.0)
    after.start_from(before.module)
    assert torch.equal(flat(after.module), flat(before.module))
    with torch.no_grad():
        next(before.module.parameters()).zero_()
    assert not torch.equal(flat(after.module), flat(before.module))


def test_a_learner_of_another_head_keeps_its_own() -> None:
    before, after = Headed(classes=7), Headed(classes=2)
    head = flat(after.head).clone()
    HeadLearner(after).start_from(before)
    assert torch.equal(flat(after.encoder), flat(before.encoder))
    assert torch.equal(flat(after.head), head)


@pytest.mark.parametrize(
    ("before", "after", "part", "message"),
    [
        (Headed(7), Headed(2), "", r"head\.weight.*\(2, 3\).*\(7, 3\)"),
        (Headed(2, 5), Headed(2), "encoder", r"encoder\.0\.weight.*\(3, 4\)"),
        (Headed(2), nn.Linear(4, 2), "", "weight weight.*stage alone"),
        (Headed(2), Headed(2), "trunk", "'trunk'.*stage"),
        (nn.Linear(4, 2), Headed(2), "encoder", "'encoder'.*before"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
            nn.Sequential(nn.Linear(2, 2)),
            "",
            r"1\.weight.*before alone",
        ),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(
    before: nn.Module, after: nn.Module, part: str, message: str
) -> None:
    weights = flat(after).clone()
    with pytest.raises(CapabilityError, match=message):
        take_over(after, before, part)
    assert torch.equal(flat(after), weights)


def test_a_learner_is_trained_by_the_mechanism_unless_it_says_otherwise() -> None:
    assert (Learner.role, Learner.schedule) == ("private", None)


def test_a_result_holds_a_weight_decay_where_there_is_one() -> None:
    assert Schedule(1, 2, 0.5).recorded() == {"epochs": 1, "batch_size": 2, "learning_rate": 0.5}
    assert Schedule(1, 2, 0.5, 0.1).recorded()["weight_decay"] == 0.1
    assert Schedule(1, 2, 0.5, optimizer="sgd").recorded()["optimizer"] == "sgd"


def test_a_gpu_computes_on_more_at_once_and_the_kind_of_device_alone_decides() -> None:
    assert numbers_per_call(100, "cpu") == numbers_per_call(100, torch.device("cpu")) == 100
    assert numbers_per_call(100, "cuda:1") == numbers_per_call(100, torch.device("cuda")) == 800
