"""The output layer of a language model and the cross-entropy of its tokens, as one function.

The table of all logits (rows x length x vocabulary) is the largest tensor of a small language
model. Taken together, layer and cross-entropy need it once: the softmax overwrites the logits, and
the gradients of features and weights are products with the probabilities, less one row for each
target. torch's own functions fill and read three such tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.models.networks.cross_entropy import token_nats
from uedp_bench.models.networks.descent import current_rate
from uedp_bench.models.networks.products import descend, outer, product

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

    Negative targets are padding: they cost nothing and have no gradient. Under `torch.func.vmap`
    users have tables of their own, each without its padding. Elsewhere than on a CPU (where the
    padding would have to be counted first), and for tensors that override torch's functions, it
    is `token_nats` of the logits.
    """
    tensors = [tensor for tensor in (features, *layer) if tensor is not None]
    plain = all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
    if not plain or features.device.type != "cpu":
        return token_nats(functional.linear(features, *layer), targets)
    nats: Tensor
    nats, *_ = _OutputNats.apply(  # type: ignore[no-untyped-call]
        features.reshape(-1, features.shape[-1]), *layer, targets.reshape(-1)
    )
    return nats.view_as(targets)


class _OutputNats(torch.autograd.Function):
    """Arguments: features (tokens, e), weight, bias, targets (tokens,). No second derivative.

    All may have units as a further first dimension. After the nats come probabilities of the
    tokens that are no padding: one table, or one for each unit where weights differ.
    """

    @staticmethod
    def forward(
        features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, ...]:
        if features.dim() == 2:
            return _nats(features, weight, bias, targets)
        if weight.stride(0) == 0 and (bias is None or bias.stride(0) == 0):  # the same for all
            shared = (weight[0], None if bias is None else bias[0])
            nats, p = _nats(features.flatten(0, 1), *shared, targets.flatten())
            return nats.view_as(targets), p
        found = [_nats(*unit) for unit in _each(features, weight, bias, targets)]
        return torch.stack([nats for nats, _ in found]), *(p for _, p in found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        features, weight, bias, targets = inputs
        ctx.save_for_backward(features, weight, targets, *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.has_bias = bias is not None
        ctx.rate = current_rate() if features.dim() == 2 and not ctx.has_bias else None

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        needs = (*ctx.needs_input_grad[:2], ctx.has_bias and ctx.needs_input_grad[2])
        if ctx.rate is not None and needs[1]:
            return _descent(ctx.rate, needs[0], gradients[0], *ctx.saved_tensors), *[None] * 3
        found = iter(_OutputBackward.apply(needs, gradients[0], *ctx.saved_tensors))  # type: ignore[no-untyped-call]
        return *(next(found) if need else None for need in needs), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *given: Any) -> tuple[Any, Any]:
        found = _OutputNats.apply(*_with_units(info.batch_size, given, in_dims))  # type: ignore[no-untyped-call]
        return found, (0, *[None] * (len(found) - 1))


class _OutputBackward(torch.autograd.Function):
    """The gradients that are needed, as a function of its own, so that each unit has its own."""

    @staticmethod
    def forward(needs: tuple[bool, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        scale, features, weight, targets, *tables = tensors
        if features.dim() == 2:
            return _gradients(needs, scale, features, weight, targets, *tables)
        if len(tables) == 1:  # the table of all units
            tables = list(torch.split(tables[0], (targets >= 0).sum(dim=1).tolist()))
        units = _each(scale, features, weight, targets, tables)
        found = [_gradients(needs, *unit) for unit in units]
        return tuple(torch.stack(parts) for parts in zip(*found, strict=True))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        raise RuntimeError("an output layer has no second derivative")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *given: Any) -> tuple[Any, Any]:
        tensors = _with_units(info.batch_size, given[1:5], in_dims[1:5])
        found = _OutputBackward.apply(given[0], *tensors, *given[5:])  # type: ignore[no-untyped-call]
        return found, (0,) * len(found)


def _with_units(units: int, given: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Arguments with units as their first dimension; what all share takes no memory for that."""
    return [
        value if value is None
        else value.expand(units, *value.shape) if dim is None
        else value.movedim(dim, 0)
        for value, dim in zip(given, dims, strict=True)
    ]  # fmt: skip


def _each(*arguments: Any) -> Iterator[tuple[Any, ...]]:
    """The arguments of each unit; the first is a tensor."""
    units = len(arguments[0])
    return zip(*([None] * units if part is None else part for part in arguments), strict=True)


def _nats(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Nats (tokens,) of targets, and the probabilities (tokens without padding, vocabulary)."""
    at = (targets >= 0).nonzero()[:, 0]
    kept, chosen = features[at], targets[at][:, None]
    p = product(kept, weight, bias)
    torch.softmax(p, dim=-1, out=p)
    likely = p.gather(1, chosen)[:, 0]
    nats = likely.log().neg_()
    low = (likely < _SMALL).nonzero()[:, 0]
    if len(low):
        logits = product(kept[low], weight, bias)
        nats[low] = torch.logsumexp(logits, dim=1) - logits.gather(1, chosen[low])[:, 0]
    return nats.new_zeros(len(targets)).index_copy_(0, at, nats), p


def _gradients(
    needs: tuple[bool, ...], scale: Tensor, features: Tensor, weight: Tensor, targets: Tensor,
    p: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Those of features, weight and bias that are needed, given that of the nats (tokens,)."""
    at = (targets >= 0).nonzero()[:, 0]
    scale, chosen, found = scale[at], targets[at], list[Tensor]()
    if needs[0]:
        inner = product(p, weight.t()).sub_(weight[chosen]).mul_(scale[:, None])
        found.append(torch.zeros_like(features).index_copy_(0, at, inner))
    if needs[1]:
        scaled = features[at] * scale[:, None]
        found.append(outer(p, scaled).index_add_(0, chosen, scaled, alpha=-1.0))
    if needs[2]:
        found.append((scale @ p).index_add_(0, chosen, scale, alpha=-1.0))
    return tuple(found)


def _descent(
    rate: float, needed: bool, scale: Tensor, features: Tensor, weight: Tensor, targets: Tensor,
    p: Tensor,
) -> Tensor | None:  # fmt: skip
    """The gradient of features if it is needed; moves the weight by SGD (`descent`)."""
    found = None
    if needed:
        (found,) = _gradients((True, False, False), scale, features, weight, targets, p)
    at = (targets >= 0).nonzero()[:, 0]
    scaled = features[at] * scale[at, None]
    descend(weight, p, scaled, rate)
    weight.index_add_(0, targets[at], scaled, alpha=rate)
    return found
