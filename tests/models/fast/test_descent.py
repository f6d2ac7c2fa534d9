"""Weights that are moved in place end where a step of SGD ends, and only where that is safe."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from uedp_bench.models.fast import products
from uedp_bench.models.fast.output_nats import output_nats
from uedp_bench.models.fast.products import descending, in_place
from uedp_bench.models.networks.causal_transformer import TransformerNetwork
from uedp_bench.models.networks.modules import OutputLayer

TOKENS = torch.tensor([[1, 2, 3, 4, 5], [6, 6, 6, 0, 0], [7, 0, 0, 0, 0]])
TARGETS = torch.tensor([[2, 3, 4, 5, 0], [6, 6, 0, -100, -100], [0, -100, -100, -100, -100]])
RATE = 0.3


def _network(dtype: torch.dtype = torch.float64) -> TransformerNetwork:
    sizes = {"n_layer": 2, "n_embd": 12, "n_head": 3, "n_positions": 9, "vocab_size": 11}
    torch.manual_seed(1)
    config = GPT2Config(**sizes, initializer_range=0.4, bos_token_id=0, eos_token_id=0)
    network = GPT2LMHeadModel(config)
    with torch.no_grad():  # biases and norms start at 0 and 1
        for weight in network.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return TransformerNetwork(network.to(dtype))


def _loss(network: TransformerNetwork) -> Tensor:
    layer = network.output_layer()
    assert layer is not None
    return output_nats(network.outputs(TOKENS), OutputLayer(*layer), TARGETS).mean()


def _by_torch(network: TransformerNetwork) -> list[Tensor]:
    """Weights after a step of torch's SGD on the library's network and torch's cross-entropy."""
    theirs = copy.deepcopy(network)
    logits = theirs.network(input_ids=TOKENS).logits
    nats = nn.functional.cross_entropy(
        logits.flatten(0, 1), TARGETS.flatten(), reduction="none", ignore_index=-100
    )
    trained = [weight for weight in theirs.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=RATE)
    nats.mean().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return [weight.detach() for weight in theirs.parameters()]


def _moved(network: TransformerNetwork, loss: Callable[[TransformerNetwork], Tensor]) -> list[str]:
    """Steps; the names of weights that had a gradient, which were not moved in place."""
    with descending(RATE):
        value = loss(network)
    if not in_place(value):
        value = loss(network)
    value.backward()  # type: ignore[no-untyped-call]
    left = []
    for name, weight in network.named_parameters():
        if weight.grad is not None:
            left.append(name)
            weight.data.add_(weight.grad, alpha=-RATE)
            weight.grad = None
    return left


@pytest.mark.parametrize("frozen", ["", "mlp.c_fc.weight", "ln_1", "wte", "bias"])
def test_a_step_ends_where_that_of_torch_ends(frozen: str) -> None:
    network = _network()
    for name, weight in network.named_parameters():
        weight.requires_grad_(not frozen or frozen not in name)
    expected = _by_torch(network)
    left = _moved(network, _loss)
    for ours, theirs in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-11, atol=1e-11)
    assert not left


@pytest.mark.usefixtures("switched_off")
def test_without_kernels_a_step_ends_there_too() -> None:
    network = _network()
    expected = _by_torch(network)
    left = _moved(network, _loss)
    for ours, theirs in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-11, atol=1e-11)
    assert left == [name for name, _ in network.named_parameters()]


@pytest.mark.parametrize("strided", [True, False])
def test_so_it_does_with_the_faster_products(
    strided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LARGE", 1)
    monkeypatch.setattr(products, "NARROW", 1)
    if not strided:
        monkeypatch.setattr(products, "strided_works", lambda: False)
    network = _network(torch.float32)
    expected = _by_torch(network)
    _moved(network, _loss)
    for ours, theirs in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-4, atol=1e-5)


def _penalised(network: TransformerNetwork) -> Tensor:
    return _loss(network) + network.network.transformer.h[0].mlp.c_fc.weight.square().sum()


def _read_twice(network: TransformerNetwork) -> Tensor:
    return _loss(network) + network.network.transformer.wte.weight[0].exp().sum()


@pytest.mark.parametrize("loss", [_penalised, _read_twice])
def test_weights_that_others_read_are_not_moved_in_place(loss: Any) -> None:
    with descending(RATE):
        assert not in_place(loss(_network()))
    assert not any(in_place(value) for value in [loss(_network())] if value.grad_fn is None)


def test_a_weight_of_two_blocks_is_not_moved_between_them() -> None:
    network = _network()
    blocks = network.network.transformer.h
    blocks[1].mlp.c_fc.weight = blocks[0].mlp.c_fc.weight
    expected = _by_torch(network)
    assert len(_moved(network, _loss)) == len(expected)
    for ours, theirs in zip(network.parameters(), expected, strict=True):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-11, atol=1e-11)


def test_outside_of_it_gradients_are_gradients() -> None:
    network = _network()
    before = [weight.detach().clone() for weight in network.parameters()]
    gradients = torch.autograd.grad(_loss(network), list(network.parameters()))
    assert all(bool(gradient.any()) for gradient in gradients)
    for weight, old in zip(network.parameters(), before, strict=True):
        assert torch.equal(weight, old)
