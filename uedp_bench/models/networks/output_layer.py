"""The output layer of a language model and the cross-entropy of its tokens, as one function.

The table of all logits (rows x length x vocabulary) is the largest tensor of a small language
model. Taken together, layer and cross-entropy need it once: the softmax overwrites the logits, and
the gradients of features and weights are products with the probabilities, less one row for each
target. torch's own functions fill and read three such tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.models.networks.cross_entropy import token_nats
from uedp_bench.models.networks.products import outer, product, transformed

_SMALL = 1e-30
"""Probabilities below lose digits in float32: their logarithm is taken from the logits."""


class OutputLayer(NamedTuple):
    """Weights of an output layer: logits are features times `weight`, plus `bias`.

    Attributes:
        weight: (vocabulary, size).
        bias: (vocabulary,), or None.
    """

    weight: Tensor
    bias: Tensor | None


def output_nats(features: Tensor, layer: OutputLayer, targets: Tensor) -> Tensor:
    """Negative log-likelihood (rows, length) in nats of targets, given features (rows, length, e).

    Negative targets are padding: they cost nothing and have no gradient. Elsewhere than on a CPU
    (where the padding would have to be counted first), under the transforms of `torch.func`, and
    for tensors that override torch's functions, it is `token_nats` of the logits.
    """
    tensors = [tensor for tensor in (features, *layer) if tensor is not None]
    plain = all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
    if not plain or features.device.type != "cpu" or transformed():
        return token_nats(functional.linear(features, *layer), targets)
    at = (targets.reshape(-1) >= 0).nonzero()[:, 0]
    chosen = targets.reshape(-1)[at]
    nats: Tensor = _OutputNats.apply(  # type: ignore[no-untyped-call]
        features.reshape(-1, features.shape[-1])[at], *layer, chosen
    )
    return nats.new_zeros(targets.numel()).index_copy(0, at, nats).view_as(targets)


class _OutputNats(torch.autograd.Function):
    """Arguments: features (tokens, e), weight, bias, targets (tokens,). No second derivative."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> Tensor:
        p = product(features, weight, bias)
        torch.softmax(p, dim=-1, out=p)
        likely = p.gather(1, targets[:, None])[:, 0]
        nats = likely.log().neg_()
        low = (likely < _SMALL).nonzero()[:, 0]
        if len(low):
            logits = product(features[low], weight, bias)
            own = logits.gather(1, targets[low][:, None])[:, 0]
            nats[low] = torch.logsumexp(logits, dim=1) - own
        ctx.save_for_backward(features, weight, targets, p)
        ctx.has_bias = bias is not None
        return nats

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        features, weight, targets, p = ctx.saved_tensors
        scale = gradients[0]
        of_features = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_features = product(p, weight.t()).sub_(weight[targets]).mul_(scale[:, None])
        if ctx.needs_input_grad[1]:
            scaled = features * scale[:, None]
            of_weight = outer(p, scaled).index_add_(0, targets, scaled, alpha=-1.0)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            of_bias = (scale @ p).index_add_(0, targets, scale, alpha=-1.0)
        return of_features, of_weight, of_bias, None
