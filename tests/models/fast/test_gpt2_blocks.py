"""The blocks of GPT-2 are the library's, forward and backward, and serve only where they may."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from uedp_bench.models.fast import gpt2_blocks, products
from uedp_bench.models.networks.causal_transformer import TransformerNetwork

TOKENS = torch.tensor([[1, 2, 3, 4, 5], [6, 6, 6, 0, 0], [7, 0, 0, 0, 0]])


def _network(**options: Any) -> TransformerNetwork:
    sizes = {"n_layer": 2, "n_embd": 12, "n_head": 3, "n_positions": 9, "vocab_size": 11}
    torch.manual_seed(1)
    network = GPT2LMHeadModel(
        GPT2Config(**sizes, **options, initializer_range=0.4, bos_token_id=0, eos_token_id=0)
    )
    with torch.no_grad():  # biases and norms start at 0 and 1
        for weight in network.parameters():
            weight += 0.1 * torch.randn_like(weight)
    return TransformerNetwork(network)


def _gradients(network: TransformerNetwork, outputs: Tensor) -> list[Tensor | None]:
    value = (outputs * torch.linspace(-1.0, 1.0, 12, dtype=outputs.dtype)).sin().sum()
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    return list(torch.autograd.grad(value, trained, allow_unused=True))


def _theirs(network: TransformerNetwork) -> Tensor:
    states: Tensor = network.network.transformer(input_ids=TOKENS).last_hidden_state
    return states


@pytest.mark.parametrize(
    "options", [{}, {"scale_attn_by_inverse_layer_idx": True, "layer_norm_epsilon": 1e-2}]
)
@pytest.mark.parametrize("large", [1, 2**30])  # always the faster library, and never
def test_outputs_and_gradients_are_the_librarys(
    options: dict[str, Any], large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LARGE", large)
    monkeypatch.setattr(products, "NARROW", 1)
    network = _network(**options)
    ours, theirs = network.outputs(TOKENS), _theirs(network)
    assert gpt2_blocks.features(network.network.transformer, TOKENS) is not None
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    pairs = zip(_gradients(network, ours), _gradients(network, theirs), strict=True)
    for gradient, expected in pairs:
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(network.outputs(TOKENS), theirs, rtol=1e-4, atol=1e-5)


def test_they_agree_to_the_digits_of_float64() -> None:
    network = _network().double()
    ours, theirs = network.outputs(TOKENS), _theirs(network)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for pair in zip(_gradients(network, ours), _gradients(network, theirs), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-11, atol=1e-11)


def test_frozen_weights_have_no_gradient() -> None:
    network = _network()
    for name, weight in network.named_parameters():
        weight.requires_grad_("mlp" in name or "ln_1.bias" in name)
    ours, theirs = network.outputs(TOKENS), _theirs(network)
    for pair in zip(_gradients(network, ours), _gradients(network, theirs), strict=True):
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-4)


def _hooked(transformer: Any) -> None:
    transformer.h[1].mlp.register_forward_hook(lambda *_: None)


def _patched(transformer: Any) -> None:
    transformer.h[0].attn.forward = transformer.h[0].attn.forward


def _adapted(transformer: Any) -> None:
    transformer.h[0].attn.c_attn = nn.Sequential(transformer.h[0].attn.c_attn)


def _dropping(transformer: Any) -> None:
    transformer.h[0].train()


def _activated(transformer: Any) -> None:
    transformer.h[0].mlp.act = nn.ReLU().eval()


@pytest.mark.parametrize("change", [_hooked, _patched, _adapted, _dropping, _activated])
def test_a_network_that_was_changed_is_left_to_the_library(change: Any) -> None:
    transformer = _network().network.transformer
    assert gpt2_blocks.features(transformer, TOKENS) is not None
    change(transformer)
    assert gpt2_blocks.features(transformer, TOKENS) is None


def test_transforms_are_left_to_the_library() -> None:
    network = _network()
    seen: list[bool] = []

    def value(x: Tensor) -> Tensor:
        seen.append(gpt2_blocks.features(network.network.transformer, TOKENS) is None)
        return x.sum()

    torch.func.grad(value)(torch.ones(2))
    assert seen == [True]
