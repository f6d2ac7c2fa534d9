"""Cross-entropy of a language model's tokens, with its output layer or alone, as one function.

The table of all logits (rows x length x vocabulary) is the largest tensor of a small language
model. Taken together, layer and cross-entropy need it once: the softmax overwrites the logits, and
the gradients of features and weights are products with the probabilities, less one row for each
target. torch's own functions fill and read three such tables; its cross-entropy alone fills and
reads one more than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from uedp_bench.models import fast
from uedp_bench.models.fast.products import current_rate, descend, more_rows, outer, padded, product
from uedp_bench.models.networks.modules import OutputLayer


class _TokenNats(torch.autograd.Function):
    """Works under `torch.func.grad` and `vmap`; has no second derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.softmax(logits, dim=-1)
        # log-sum-exp from the largest logit, whose probability is at least 1 / vocabulary.
        total = logits.amax(dim=-1) - torch.log(p.amax(dim=-1))
        nats = total - logits.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return torch.where(targets < 0, torch.zeros_like(nats), nats), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output[1], inputs[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # else autograd fills a table of zeros for `p`

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        p, targets = ctx.saved_tensors
        scale = torch.where(targets < 0, torch.zeros_like(gradients[0]), gradients[0]).unsqueeze(-1)
        return (p * scale).scatter_add_(-1, targets.clamp(min=0).unsqueeze(-1), -scale), None


def token_nats(logits: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood (...) in nats of targets (...) under logits (..., vocabulary).

    Negative targets are padding: they cost nothing and have no gradient.
    """
    if not fast.is_on():
        log_p = torch.log_softmax(logits, dim=-1)
        nats = -log_p.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return torch.where(targets < 0, torch.zeros_like(nats), nats)
    return _TokenNats.apply(logits, targets)[0]  # type: ignore[no-any-return, no-untyped-call]


_SMALL = 1e-30
"""Probabilities below lose digits in float32: their logarithm is taken from the logits."""


def output_nats(features: Tensor, layer: OutputLayer, targets: Tensor) -> Tensor:
    """Negative log-likelihood (rows, length) in nats of targets, given features (rows, length, e).

    Negative targets are padding: they cost nothing and have no gradient. Under `torch.func.vmap`
    users have tables of their own, each without its padding. Elsewhere than on a CPU (where the
    padding would have to be counted first), for tensors that override torch's functions, and with
    the room switched off, it is `token_nats` of the logits.
    """
    tensors = [tensor for tensor in (features, *layer) if tensor is not None]
    plain = all(type(tensor) in (Tensor, nn.Parameter) for tensor in tensors)
    if not plain or features.device.type != "cpu" or not fast.is_on():
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
        by_unit = [_nats(*unit) for unit in _each(features, weight, bias, targets)]
        return torch.stack([nats for nats, _ in by_unit]), *(p for _, p in by_unit)

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
        of_features, of_weight, of_bias, _ = ctx.needs_input_grad
        needs = _Wanted(of_features, of_weight, ctx.has_bias and of_bias)
        if ctx.rate is not None and needs.weight:
            needs = needs._replace(rate=ctx.rate)
            through = _gradients(needs, gradients[0], *ctx.saved_tensors)
            return (*through, *[None] * (4 - len(through)))
        gradients_needed = iter(_OutputBackward.apply(needs, gradients[0], *ctx.saved_tensors))  # type: ignore[no-untyped-call]
        return *(next(gradients_needed) if need else None for need in needs[:3]), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        outputs = _OutputNats.apply(*_with_units(info.batch_size, arguments, in_dims))  # type: ignore[no-untyped-call]
        return outputs, (0, *[None] * (len(outputs) - 1))


class _Wanted(NamedTuple):
    """Inputs that need gradients.

    Attributes:
        features, weight, bias: True where its gradient is needed.
        rate: rate of SGD; with one the weight moves by SGD (`descent`), and has no gradient.
    """

    features: bool
    weight: bool
    bias: bool
    rate: float | None = None


class _OutputBackward(torch.autograd.Function):
    """Gradients that are needed, as a function by itself, so that each unit has its own."""

    @staticmethod
    def forward(wanted: _Wanted, *tensors: Tensor) -> tuple[Tensor, ...]:
        scale, features, weight, targets, *tables = tensors
        if features.dim() == 2:
            return _gradients(wanted, scale, features, weight, targets, *tables)
        if len(tables) == 1:  # the table of all units
            sizes = (targets >= 0).sum(dim=1).tolist()
            tables = list(torch.split(tables[0][: sum(sizes)], sizes))
        units = _each(scale, features, weight, targets, tables)
        by_unit = [_gradients(wanted, *unit) for unit in units]
        return tuple(torch.stack(parts) for parts in zip(*by_unit, strict=True))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        raise RuntimeError("an output layer has no second derivative")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        tensors = _with_units(info.batch_size, arguments[1:5], in_dims[1:5])
        gradients = _OutputBackward.apply(arguments[0], *tensors, *arguments[5:])  # type: ignore[no-untyped-call]
        return gradients, (0,) * len(gradients)


def _with_units(units: int, arguments: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
    """Arguments with units as their first dimension; what all share takes no memory for that."""
    return [
        value if value is None
        else value.expand(units, *value.shape) if dim is None
        else value.movedim(dim, 0)
        for value, dim in zip(arguments, dims, strict=True)
    ]  # fmt: skip


def _each(*arguments: Any) -> Iterator[tuple[Any, ...]]:
    """The arguments of each unit; the first is a tensor."""
    units = len(arguments[0])
    return zip(*([None] * units if part is None else part for part in arguments), strict=True)


def _kept(targets: Tensor) -> Tensor | None:
    """Numbers of the tokens (tokens,) that are no padding; None if none of them is."""
    at = (targets >= 0).nonzero()[:, 0]
    return None if len(at) == len(targets) else at


def _nats(
    features: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Nats (tokens,) of targets, and the probabilities (tokens without padding, vocabulary).

    After those of the tokens come rows of finite numbers where products would add rows of zeros:
    the table is the largest there is, and would be copied for each of its products.
    """
    if (at := _kept(targets)) is not None:
        nats, p = _nats(features[at], weight, bias, targets[at])
        return nats.new_zeros(len(targets)).index_copy_(0, at, nats), p
    p = product(padded(features, more_rows(features, len(weight))), weight, bias)
    torch.softmax(p, dim=-1, out=p)
    likely = p[: len(targets)].gather(1, targets[:, None])[:, 0]
    nats = likely.log().neg_()
    low = (likely < _SMALL).nonzero()[:, 0]
    if len(low):
        logits = product(features[low], weight, bias)
        nats[low] = torch.logsumexp(logits, dim=1) - logits.gather(1, targets[low, None])[:, 0]
    return nats, p


def _gradients(
    wanted: _Wanted, scale: Tensor, features: Tensor, weight: Tensor, targets: Tensor, p: Tensor
) -> tuple[Tensor, ...]:  # fmt: skip
    """Compute the wanted gradients of features, weight and bias, from that of nats (tokens,)."""
    if (at := _kept(targets)) is not None:
        of_kept = _gradients(wanted, scale[at], features[at], weight, targets[at], p)
        if not wanted.features:
            return of_kept
        return torch.zeros_like(features).index_copy_(0, at, of_kept[0]), *of_kept[1:]
    gradients = list[Tensor]()
    if wanted.features:
        of_features = product(p, weight.t())[: len(targets)]
        gradients.append(of_features.sub_(weight[targets]).mul_(scale[:, None]))
    if wanted.weight:
        scaled = features * scale[:, None]
        inputs = padded(scaled, len(p) - len(targets))
        if wanted.rate is None:
            gradients.append(outer(p, inputs).index_add_(0, targets, scaled, alpha=-1.0))
        else:
            descend(weight, p, inputs, wanted.rate)
            weight.index_add_(0, targets, scaled, alpha=wanted.rate)
    if wanted.bias:
        gradients.append((scale @ p[: len(targets)]).index_add_(0, targets, scale, alpha=-1.0))
    return tuple(gradients)
