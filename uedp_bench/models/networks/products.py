"""Matrix products in float32 on a CPU, by oneDNN where it is the faster library.

torch multiplies float32 matrices with MKL, which does half as much as oneDNN on processors that are
not Intel's (`docs/performance.md`). torch brings oneDNN and calls it from one private operator: it
is tried once, and `torch.nn.functional.linear` takes its place where it is missing or wrong.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

LARGE = 2**20
"""Multiplications of a product from which on oneDNN is faster; below, its calls cost more."""


@cache
def onednn_works() -> bool:
    """True where torch has the operator and it multiplies as it should."""
    try:
        x, weight = torch.arange(6.0).view(2, 3), torch.arange(12.0).view(4, 3)
        exact = functional.linear(x, weight, weight[:, 0])
        return torch.equal(_onednn(x, weight, weight[:, 0].contiguous()), exact)
    except (RuntimeError, AttributeError, TypeError):
        return False


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return found


def _pays(x: Tensor, columns: int) -> bool:
    return (
        x.dtype == torch.float32
        and x.device.type == "cpu"
        and x.numel() * columns >= LARGE
        and onednn_works()
    )


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X (rows, inputs) times the transpose of weight (outputs, inputs), plus a bias (outputs,).

    It has no gradient of its own: see `linear`.
    """
    if _pays(x, len(weight)):
        return _onednn(x, weight, bias)
    return functional.linear(x, weight, bias)


def outer(gradients: Tensor, inputs: Tensor) -> Tensor:
    """(outputs, inputs) sum over rows of the outer products of gradients and inputs."""
    if _pays(gradients, inputs.shape[1]):
        return _onednn(gradients.t(), inputs.t(), None)
    return gradients.t() @ inputs


class _Linear(torch.autograd.Function):
    """`torch.nn.functional.linear` of matrices by `product`, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        (gradient,) = gradients
        return (
            product(gradient, weight.t()) if needs_x else None,
            outer(gradient, x) if needs_weight else None,
            gradient.sum(dim=0) if needs_bias else None,
        )


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """As `torch.nn.functional.linear`, with a first derivative and outside of transforms."""
    flat = x.reshape(-1, x.shape[-1])
    found: Tensor = _Linear.apply(flat, weight, bias)  # type: ignore[no-untyped-call]
    return found.view(*x.shape[:-1], len(weight))
