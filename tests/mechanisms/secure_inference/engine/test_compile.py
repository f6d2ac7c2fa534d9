"""Compiled networks against PyTorch's, their cost against the channel, and what is refused."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from secure_networks import LENGTH, papers, small, texts
from torch import nn

from uedp_bench.errors import InputError
from uedp_bench.mechanisms.secure_inference.engine.compile import (
    ArgMax,
    Branches,
    SecureConfig,
    compile_network,
)
from uedp_bench.randomness import Stream

CONFIGS = [
    {},
    {"truncation": "local", "value_range": 2.0**15},
    {"reveals": "logits"},
    {"keep_sigmoid": True, "batch_rows": 3},
]


def compiled(network=None, shape=(1, LENGTH), **options):
    options.setdefault("stream", Stream(b"c" * 32))
    return compile_network(small() if network is None else network, shape, SecureConfig(**options))


@pytest.mark.parametrize("options", CONFIGS)
@pytest.mark.parametrize("rows", [1, 7])
def test_answers_and_traffic(options, rows):
    network, secure = small(), compiled(**options)
    inputs = texts(rows)
    answer, logits = secure.infer(inputs), network[:-1](inputs)
    plain = network(inputs)
    near = network[:-2](inputs).topk(2).values.diff().abs().flatten() < 1e-3
    assert torch.equal(answer.labels[~near], plain[~near])
    assert near.sum() <= 1
    if options.get("reveals") == "logits":
        assert (answer.logits - logits).abs().max() < 1e-3  # the sigmoid's
    else:
        assert answer.logits is None
    cost, traffic = secure.cost(rows), answer.traffic
    for field in ("rounds", "bytes_server", "bytes_client", "bytes_dealer", "bytes_party"):
        assert getattr(cost, field) == getattr(traffic, field), field
    assert traffic.seconds(0.04, 1e8) > traffic.rounds * 0.04


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(("size", "stride"), [(3, 3), (5, 2), (2, 3), (LENGTH - 1, 1)])
def test_pools_leave_remainders_out_as_pytorch_does(order, size, stride):
    pool = [nn.MaxPool1d(size, stride), nn.ReLU()][::order]
    torch.manual_seed(2)
    network = nn.Sequential(nn.Conv1d(1, 2, 2), *pool, nn.Flatten(), ArgMax())
    secure = compiled(network, reveals="logits")
    answer = secure.infer(texts(5))
    assert (answer.logits - network[:-1](texts(5))).abs().max() < 1e-4
    # Either order is one tournament, with 0 as one more entry.
    assert secure.cost(5).comparisons == 5 * answer.logits[0].numel() * size


def test_activations_alone_and_nested_sequences():
    torch.manual_seed(3)
    inner = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4, bias=False), nn.Sigmoid())
    network = nn.Sequential(inner, nn.Sequential(nn.Linear(4, 3), nn.Identity()), ArgMax())
    inputs = torch.randn(9, 6)
    answer = compiled(network, (6,), reveals="logits").infer(inputs)
    assert (answer.logits - network[:-1](inputs)).abs().max() < 2e-3
    assert torch.equal(answer.labels, answer.logits.argmax(1))


def test_the_papers_network():
    network = papers()
    assert sum(weights.numel() for weights in network.parameters()) == 7078
    secure = compiled(network, (1, 768), reveals="logits")
    inputs = torch.randn(6, 1, 768).clamp(-8, 8)
    answer = secure.infer(inputs)
    assert (answer.logits - network[:-1](inputs)).abs().max() < 5e-4  # the sigmoid's error
    label = compiled(network, (1, 768), value_range=2.0**20)
    assert torch.equal(label.infer(inputs).labels, network(inputs))
    # Of one text: windows of 3, 4 and 5 with 0 as one more entry, and two logits.
    assert label.cost(1).comparisons == 1518 * 3 + 748 * 4 + 204 * 5 + 1
    assert label.cost(1).truncations == 4558 + 3012 + 1068 + 32 + 2
    assert label.cost(200).rounds == 1 + 3 * 2 + (2 + 3 + 3) * 8 + 2 * 2 + 8 + 1
    assert compiled(network, (1, 768)).cost(200).rounds == 75


def test_logits_are_those_of_plain_numbers():
    network = nn.Sequential(*small()[:-2], ArgMax())
    answer = compiled(network, reveals="logits").infer(texts(40))
    assert (answer.logits - network[:-1](texts(40))).abs().max() < 1e-4


def test_branches_take_the_rounds_of_the_longest():
    def rounds(*branches):
        network = nn.Sequential(Branches(branches), nn.Flatten(), ArgMax())
        return compiled(network, reveals="logits").cost(1).rounds

    short, long = nn.Sequential(nn.MaxPool1d(2)), nn.Sequential(nn.ReLU(), nn.MaxPool1d(2))
    assert rounds(short, long) == rounds(long) > rounds(short)


def test_batches_and_single_rows_agree():
    stream = Stream(b"b" * 32)
    inputs = texts(5)
    one, all_at_once = (compiled(batch_rows=rows, stream=stream).infer(inputs) for rows in (1, 5))
    assert torch.equal(one.labels, all_at_once.labels)
    assert one.traffic.rounds == 5 * (all_at_once.traffic.rounds - 1) + 1


# ---------------------------------------------------------------------------------------- refusals


class Unknown(nn.Module):
    pass


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.Linear(LENGTH, 2)], "network.*ArgMax.*revealed"),
        ([nn.GELU(), ArgMax()], r"0 \(GELU\)"),
        ([nn.Sequential(Unknown()), ArgMax()], r"0\.0 \(Unknown\)"),
        ([Branches([nn.Tanh()]), ArgMax()], r"0\.0 \(Tanh\)"),
        ([Branches([ArgMax()]), ArgMax()], r"\(ArgMax\).*before"),
        ([ArgMax(), nn.ReLU(), ArgMax()], r"\(ArgMax\).*before"),
        ([nn.Conv1d(1, 1, 3, padding=1), ArgMax()], r"0 \(Conv1d\): padding"),
        ([nn.Conv1d(1, 1, 3, stride=2), ArgMax()], r"0 \(Conv1d\): stride is 2"),
        ([nn.Conv1d(2, 1, 3), ArgMax()], r"\((Conv1d|Linear)\).*\(1, 41\)"),
        ([nn.Conv1d(1, 1, LENGTH + 1), ArgMax()], r"\((Conv1d|Linear)\).*\(1, 41\)"),
        ([nn.Linear(5, 2), ArgMax()], r"\((Conv1d|Linear)\).*\(1, 41\)"),
        ([nn.MaxPool1d(3, padding=1), ArgMax()], r"0 \(MaxPool1d\): padding is 1"),
        ([nn.MaxPool1d(3, ceil_mode=True), ArgMax()], "ceil_mode"),
        ([nn.MaxPool1d(2, return_indices=True), nn.Flatten(), ArgMax()], "return_indices"),
        ([nn.MaxPool1d(LENGTH + 1), ArgMax()], r"0 \(MaxPool1d\): .*42.*41"),
        ([nn.Flatten(0), ArgMax()], "Flatten"),
        ([Branches([nn.Conv1d(1, 1, 2), nn.Conv1d(1, 1, 3)]), ArgMax()], r"0 \(Branches\)"),
        ([nn.Conv1d(1, 1, 2), ArgMax()], r"\(1, 40\).*ArgMax"),
    ],
)
def test_what_no_protocol_computes_is_refused_by_name(layers, message):
    with pytest.raises(InputError, match=message):
        compiled(nn.Sequential(*layers))


def test_overflow_is_refused_with_the_name_of_the_layer():
    network = small()
    with pytest.raises(InputError, match=r"0\.0\.3 \(Conv1d\).*`value_range`"):
        bound = (
            8.0 * float(network[0].branches[0][0].weight.detach().abs().flatten(1).sum(1).max()) + 1
        )
        compiled(network, value_range=max(8.0, bound), input_range=8.0)
    with torch.no_grad():
        network[2].weight[1, 2] = math.nan
    with pytest.raises(InputError, match=r"2 \(Linear\): .*finite"):
        compiled(network)


def test_the_declared_range_holds_for_the_worst_input():
    """What a layer returns for inputs at the ends of their range is within the bound, and close."""
    network = nn.Sequential(nn.Linear(6, 3), ArgMax())
    worst = 8 * network[0].weight[0].sign()[None]
    reached = float(network[0](worst).detach()[0, 0])
    low = 8 * float(network[0].weight.detach().abs().sum(1).max()) + 1
    answers = compiled(network, (6,), reveals="logits", value_range=low).infer(worst)
    assert answers.logits[0, 0] == pytest.approx(reached, abs=1e-3)
    with pytest.raises(InputError, match=r"0 \(Linear\).*`value_range`"):
        compiled(network, (6,), value_range=8.0)


@pytest.mark.parametrize("value", [8.1, -9.0, math.inf, math.nan])
def test_inputs_out_of_range_are_refused_with_their_row(value):
    inputs = texts(3)
    inputs[2, 0, 5] = value
    with pytest.raises(InputError, match=r"row 2 .*`input_range`"):
        compiled().infer(inputs)


@pytest.mark.parametrize("shape", [(0, 1, LENGTH), (2, LENGTH), (2, 2, LENGTH), ()])
def test_inputs_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match=r"\(rows, 1, 41\)"):
        compiled().infer(torch.zeros(shape))


@pytest.mark.parametrize(
    "options",
    [{"input_range": 0.0}, {"value_range": 4.0}, {"value_range": 2.0**30}, {"batch_rows": 0},
     {"truncation": "none"}, {"reveals": "all"}, {"input_range": math.nan}],
)  # fmt: skip
def test_impossible_configurations_are_refused(options):
    with pytest.raises(InputError):
        SecureConfig(**options)


def test_a_copy_would_use_masks_twice():
    with pytest.raises(InputError, match=r"masks.*second time"):
        copy.deepcopy(compiled())


def test_failure_is_the_bound_of_each_truncation():
    secure = compiled(truncation="local", value_range=64.0, input_range=4.0)
    count = secure.cost(1).truncations
    assert secure.failure(1) == pytest.approx(count * 64 / 2**31)
    assert secure.failure(10**9) == 1.0
    assert compiled().failure(10**9) == 0.0
    assert compiled().cost(1).truncations == count
