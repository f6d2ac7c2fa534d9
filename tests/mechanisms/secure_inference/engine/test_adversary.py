"""What a sceptical party tries: masks that repeat, the other's secrets, values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from uedp_bench.errors import InputError
from uedp_bench.mechanisms.secure_inference.engine.compile import (
    ArgMax,
    Branches,
    SecureConfig,
    compile_network,
)
from uedp_bench.mechanisms.secure_inference.engine.dealer import CLIENT, SERVER
from uedp_bench.randomness import Stream

STREAM = Stream(b"s" * 32)
INPUTS = torch.linspace(-2.0, 2.0, 23)[None, None].repeat(5, 1, 1)


def network(classes: int = 3) -> nn.Sequential:
    torch.manual_seed(4)
    branches = [
        nn.Sequential(nn.Conv1d(1, 2, kernel), nn.MaxPool1d(3), nn.ReLU(), nn.Flatten())
        for kernel in (2, 5)
    ]
    return nn.Sequential(Branches(branches), nn.Linear(26, classes), nn.Sigmoid(), ArgMax())


def numbers(opened: list[Tensor]) -> list[int]:
    """Opened numbers of the ring; packed bits are left out, for they are short."""
    return [x for each in opened if each.dtype == torch.int64 for x in each.flatten().tolist()]


@pytest.mark.parametrize("party", [SERVER, CLIENT])
@pytest.mark.parametrize("truncation", ["dealer", "local"])
def test_no_mask_is_used_twice_on_equal_inputs(party: int, truncation: Any) -> None:
    """Equal secrets under equal masks would open the same number: none of 2^64 occurs twice."""
    config = SecureConfig(truncation=truncation, keep_sigmoid=True, batch_rows=2, stream=STREAM)
    secure = compile_network(network(), (1, 23), config)
    first, second = (secure.infer(INPUTS, transcript_of=party).opened for _ in range(2))
    # The masked weights are the same, as they must be: they stand first.
    shown = len(secure.program.weights) if party == CLIENT else 0
    assert [x.tolist() for x in first[:shown]] == [x.tolist() for x in second[:shown]]
    masks = numbers(first) + numbers(second[shown:])
    assert len(masks) > 1000
    assert len(set(masks)) == len(masks)


def test_two_networks_of_one_configuration_share_no_mask() -> None:
    """Without a stream of one's own, every network draws one."""
    views = [
        compile_network(network(), (1, 23)).infer(INPUTS, transcript_of=CLIENT).opened
        for _ in range(2)
    ]
    assert not {*numbers(views[0])} & {*numbers(views[1])}


def test_rounding_of_inputs_does_not_leave_the_declared_range() -> None:
    """0.51 units become one: values nearly twice as large as in real numbers wrapped at 32 bits."""
    unit = 0.51 * 2.0**-16
    steep = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        steep.weight.copy_(torch.tensor([[15_900 / unit], [-15_900 / unit]]))
    config = SecureConfig(input_range=unit, value_range=16_300.0)
    with pytest.raises(InputError, match=r"0 \(Linear\).*`value_range`"):
        compile_network(nn.Sequential(steep, ArgMax()), (1,), config)


@pytest.mark.parametrize("classes", [1, 2, 5])
@pytest.mark.parametrize("rows", [1, 3])
def test_rows_of_zeros_and_ties_have_the_first_of_the_best_classes(rows: int, classes: int) -> None:
    flat = nn.Linear(4, classes)
    with torch.no_grad():
        flat.weight.zero_()
        flat.bias.copy_(torch.tensor([0.0, 1.0, 1.0, 0.5, 1.0])[:classes])
    secure = compile_network(nn.Sequential(flat, ArgMax()), (4,))
    assert secure.infer(torch.zeros(rows, 4)).labels.tolist() == [min(1, classes - 1)] * rows


def test_a_sigmoid_fails_as_its_squares_do_whatever_range_is_declared() -> None:
    layers = nn.Sequential(nn.Linear(1, 2), nn.Sigmoid(), ArgMax())
    with torch.no_grad():
        layers[0].weight.fill_(0.5)
    config = SecureConfig(truncation="local", input_range=0.5, value_range=2.0, keep_sigmoid=True)
    secure = compile_network(layers, (1,), config)
    assert secure.failure(1) >= secure.cost(1).truncations * 64 / 2**31
