from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast.output_nats import token_nats


def reference(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")


def draw(scale: float, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = scale * torch.randn(*shape, 11, generator=generator)
    targets = torch.randint(11, shape, generator=generator)
    return logits, torch.where(torch.rand(shape, generator=generator) < 0.3, -100, targets)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_values_and_gradients_are_those_of_torch(scale: float) -> None:
    logits, targets = draw(scale, 5, 7)
    weights = torch.rand(5, 7, generator=torch.Generator().manual_seed(2))
    found = []
    for function in (token_nats, reference):
        leaf = logits.clone().requires_grad_()
        nats = function(leaf, targets).reshape(5, 7)
        (nats * weights).sum().backward()
        found.append((nats.detach(), leaf.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_users_side_by_side_get_what_they_get_alone(shared: bool) -> None:
    logits, targets = draw(3.0, 4, 2, 5)
    inputs = logits[0] if shared else logits

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return token_nats(logits, targets).sum()

    together = torch.func.vmap(torch.func.grad(loss), in_dims=(None if shared else 0, 0))(
        inputs, targets
    )
    for i in range(4):
        alone = torch.func.grad(loss)(inputs if shared else logits[i], targets[i])
        torch.testing.assert_close(together[i], alone)


def test_nan_stays_nan() -> None:
    logits = torch.zeros(2, 3)
    logits[1, 0] = torch.nan
    nats = token_nats(logits, torch.tensor([1, 1]))
    assert torch.isnan(nats).tolist() == [False, True]
