"""The output layer with its cross-entropy is what torch computes by way of all logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast.output_nats import output_nats, token_nats
from uedp_bench.models.networks.modules import OutputLayer


def draw(scale: float = 1.0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=dtype)

    targets = torch.randint(11, (3, 4), generator=generator)
    targets[0, 2:], targets[1, 1:] = -100, -100  # padding, and a row of one token
    return normal(3, 4, 5), normal(11, 5), normal(11), targets


def by_torch(features: Tensor, layer: OutputLayer, targets: Tensor) -> Tensor:
    logits = functional.linear(features, *layer).flatten(0, 1)
    return functional.cross_entropy(logits, targets.flatten(), reduction="none").view_as(targets)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("scale", "dtype"), [(1.0, torch.float64), (12.0, torch.float32)])
def test_values_and_gradients_are_those_of_torch(
    has_bias: bool, scale: float, dtype: torch.dtype
) -> None:
    features, weight, bias, targets = draw(scale, dtype)
    values_and_gradients = []
    for function in (output_nats, by_torch):
        leaves = [t.clone().requires_grad_() for t in (features, weight, bias)[: 2 + has_bias]]
        layer = OutputLayer(leaves[1], leaves[2] if has_bias else None)
        nats = function(leaves[0], layer, targets)
        weights = torch.arange(1.0, 13.0, dtype=dtype).view(3, 4)
        values_and_gradients.append(
            [nats.detach(), *torch.autograd.grad((nats * weights).sum(), leaves)]
        )
    for ours, theirs in zip(*values_and_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 if scale > 1 else 1e-9)
    if scale > 1:  # some targets are so unlikely that float32 has no number for it
        assert float(values_and_gradients[0][0].max()) > 105.0


def test_rows_of_zeros_leave_values_and_gradients_alone() -> None:
    generator = torch.Generator().manual_seed(2)
    features, weight, bias = (
        torch.randn(*shape, generator=generator) for shape in ((50, 15, 32), (300, 32), (300,))
    )
    targets = torch.randint(300, (50, 15), generator=generator)
    targets[:, 13:] = -100  # 650 tokens, of which products make 704
    values_and_gradients = []
    for function in (output_nats, by_torch):
        leaves = [tensor.clone().requires_grad_() for tensor in (features, weight, bias)]
        nats = function(leaves[0], OutputLayer(leaves[1], leaves[2]), targets)
        values_and_gradients.append([nats.detach(), *torch.autograd.grad(nats.sum(), leaves)])
    for ours, theirs in zip(*values_and_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_users_side_by_side_get_what_they_get_alone() -> None:
    features, weight, bias, targets = draw()
    weights = torch.stack([weight, 2 * weight])

    def loss(weight: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        return output_nats(features, OutputLayer(weight, bias), targets).sum()

    both = (weights, features.expand(2, -1, -1, -1), targets.expand(2, -1, -1))
    together = torch.func.vmap(torch.func.grad(loss))(*both)
    for unit in range(2):
        leaf = weights[unit].clone().requires_grad_()
        (alone,) = torch.autograd.grad(loss(leaf, features, targets), leaf)
        torch.testing.assert_close(together[unit], alone)


@pytest.mark.parametrize("shared", [True, False])
def test_the_gradient_of_a_sum_over_users_has_that_of_each(shared: bool) -> None:
    features, weight, bias, targets = draw()
    at = torch.stack([weight, weight if shared else 2 * weight]).requires_grad_()
    weights = at[0].detach().expand(2, -1, -1).requires_grad_() if shared else at
    both = torch.stack([features, features.flip(0)]).requires_grad_()
    targets_of_users = torch.stack([targets, targets.flip(0)])

    def loss(weight: Tensor, features: Tensor, targets: Tensor) -> Tensor:
        return output_nats(features, OutputLayer(weight, bias), targets).sum()

    values = torch.func.vmap(loss)(weights, both, targets_of_users)
    gradients = torch.autograd.grad(values.sum(), (weights, both))
    alone = [loss(at[u], both[u], targets_of_users[u]) for u in range(2)]
    expected = torch.autograd.grad(torch.stack(alone).sum(), (at, both))
    torch.testing.assert_close(values, torch.stack(alone))
    for ours, theirs in zip(gradients, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_row_that_is_not_finite_stays_alone() -> None:
    features, weight, bias, targets = draw()
    features[1] = torch.nan
    nats = output_nats(features, OutputLayer(weight, bias), targets)
    assert torch.isnan(nats).any(dim=1).tolist() == [False, True, False]


def test_rows_of_padding_alone_cost_nothing() -> None:
    features, weight, bias, targets = draw()
    nats = output_nats(features, OutputLayer(weight, bias), torch.full_like(targets, -100))
    assert nats.tolist() == torch.zeros(3, 4).tolist()


def reference(logits: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")


def draw_logits(scale: float, *shape: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = scale * torch.randn(*shape, 11, generator=generator)
    targets = torch.randint(11, shape, generator=generator)
    return logits, torch.where(torch.rand(shape, generator=generator) < 0.3, -100, targets)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
def test_logits_get_values_and_gradients_of_torch(scale: float) -> None:
    logits, targets = draw_logits(scale, 5, 7)
    weights = torch.rand(5, 7, generator=torch.Generator().manual_seed(2))
    values_and_gradients = []
    for function in (token_nats, reference):
        leaf = logits.clone().requires_grad_()
        nats = function(leaf, targets).reshape(5, 7)
        (nats * weights).sum().backward()
        values_and_gradients.append((nats.detach(), leaf.grad))
    for ours, theirs in zip(*values_and_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_logits_of_users_side_by_side_are_apart(shared: bool) -> None:
    logits, targets = draw_logits(3.0, 4, 2, 5)
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
