"""GPT-2 with its gradients written out, for networks of `transformers`.

At the sizes that people train here, half of the library's time goes into calls: masks, caches,
classes of outputs, and a node of autograd for every operation. All blocks here are one function on
the library's own weights. It computes what the library computes, to rounding (a test compares).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as torch_module

from uedp_bench.models import fast
from uedp_bench.models.fast.products import current_rate, outer, product, sgd_moved, transformed

_SLOPE = 2.0 * math.sqrt(2.0 / math.pi)
_CUBE = 0.044715


class Attention(NamedTuple):
    """Constants of a block besides its weights.

    Attributes:
        heads: number of attention heads.
        scale: factor of products of queries and keys.
        eps: epsilons of both layer norms.
    """

    heads: int
    scale: float
    eps: tuple[float, float]


class Stack(NamedTuple):
    """Constants of a transformer besides its weights.

    Attributes:
        blocks: constants of each block.
        eps: epsilon of the last layer norm.
        rate: see `descent.current_rate`.
    """

    blocks: tuple[Attention, ...]
    eps: float
    rate: float | None = None


def features(transformer: Any, tokens: Tensor) -> Tensor | None:
    """(rows, length, size) outputs of a `GPT2Model` for ids (rows, length), without dropout.

    None where the network is not the library's GPT-2 as it is (adapters, hooks, another
    activation, weights that override torch's functions), elsewhere than on a CPU, under the
    transforms of `torch.func`, or with the room switched off: the library's own code serves there.
    """
    if tokens.device.type != "cpu" or not fast.is_on() or not _untouched(transformer):
        return None
    weights: list[Tensor] = [transformer.wte.weight, transformer.wpe.weight]
    blocks: list[Attention] = []
    for block in transformer.h:
        if (weights_and_facts := _block(block)) is None:
            return None
        weights += weights_and_facts[0]
        blocks.append(weights_and_facts[1])
    weights += transformer.ln_f._parameters.values()
    if not all(type(weight) in (Tensor, nn.Parameter) for weight in weights):
        return None
    # A weight of two blocks cannot be moved between them.
    rate = current_rate() if len({id(weight) for weight in weights}) == len(weights) else None
    stack = Stack(tuple(blocks), transformer.ln_f.eps, rate)
    out: Tensor = _Transformer.apply(tokens, stack, *weights)  # type: ignore[no-untyped-call]
    return out


def _untouched(transformer: Any) -> bool:
    from transformers import GPT2Model

    return (
        type(transformer) is GPT2Model
        and _bare(transformer)
        and _bare(transformer.wte, nn.Embedding)
        and _bare(transformer.wpe, nn.Embedding)
        and _bare(transformer.ln_f, nn.LayerNorm)
        and _bare(transformer.drop)
        and not transformer.config.add_cross_attention
        and not transformer.gradient_checkpointing
        and not torch_module._has_any_global_hook()  # type: ignore[no-untyped-call]
        and not transformed()
    )


def _bare(module: Any, kind: type | None = None) -> bool:
    """True if nothing was hung on a module of this kind, and it drops nothing."""
    own = module.__dict__
    return (kind is None or type(module) is kind) and not (
        own["training"]
        or own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
    )


def _block(block: Any) -> tuple[tuple[Tensor, ...], Attention] | None:
    """Weights of a block in the order of `_WEIGHTS`, and the rest; None if it is changed."""
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2Block
    from transformers.pytorch_utils import Conv1D

    if type(block) is not GPT2Block or not _bare(block):
        return None
    parts = block._modules  # at each step: modules by name as attributes are twice as slow
    attention, network, norms = parts["attn"], parts["mlp"], (parts["ln_1"], parts["ln_2"])
    if not (_bare(attention, GPT2Attention) and _bare(network, GPT2MLP)):
        return None
    inner, outer_ = attention._modules, network._modules
    products = (inner["c_attn"], inner["c_proj"], outer_["c_fc"], outer_["c_proj"])
    others = (outer_["dropout"], inner["attn_dropout"], inner["resid_dropout"])
    gelu = outer_["act"]
    if not (
        all(_bare(norm, nn.LayerNorm) for norm in norms)
        and all(_bare(layer, Conv1D) for layer in products)
        and all(_bare(other, nn.Dropout) for other in others)
        and _bare(gelu, nn.GELU)
        and gelu.approximate == "tanh"
    ):
        return None
    layers = (norms[0], *products[:2], norms[1], *products[2:])
    weights = tuple(layer._parameters[name] for layer in layers for name in ("weight", "bias"))
    return weights, Attention(attention.num_heads, attention.scaling, (norms[0].eps, norms[1].eps))


_WEIGHTS = 12
"""Weights of a block, each before its shift: norm, attention, its output, norm, wide, back."""


class _Transformer(torch.autograd.Function):
    """Arguments: tokens, `Stack`, tables of words and places, blocks, norm. No second derivative.

    One function for all blocks: a node of autograd for each took as long as one of their products.
    """

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, stack: Stack, *weights: Tensor) -> Tensor:
        rows, length = tokens.shape
        words, places = weights[:2]
        values = functional.embedding(tokens, words).add_(places[:length]).flatten(0, 1)
        kept: list[list[Tensor]] = []
        for number, of_block in enumerate(stack.blocks):
            first = 2 + _WEIGHTS * number
            values, inside = _forward(values, rows, of_block, weights[first : first + _WEIGHTS])
            kept.append(inside)
        norm, shift = weights[-2:]
        out, *stats = torch.native_layer_norm(values, [values.shape[1]], norm, shift, stack.eps)
        ctx.stack, ctx.rate = stack, stack.rate
        ctx.save_for_backward(tokens, *weights[2:])
        # Words are not read again: the output layer may have moved them by then.
        ctx.tables, ctx.kept, ctx.last = weights[:2], kept, (values, *stats)
        return out.view(rows, length, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (tokens, *read), stack, kept = ctx.saved_tensors, ctx.stack, ctx.kept
        weights = [*ctx.tables, *read]
        sums = _Gradients(ctx.needs_input_grad[2:], stack.rate, weights)
        through = gradients[0].reshape(ctx.last[0].shape)
        through = sums.norm(len(weights) - 2, through, *ctx.last)
        for number in range(len(stack.blocks) - 1, -1, -1):
            # Weights that were moved are not asked again: what a block kept makes room at once.
            inside = kept[number] if stack.rate is None else kept.pop()
            at = 2 + _WEIGHTS * number
            through = _backward(through, tokens.shape[0], stack.blocks[number], inside, (sums, at))
        sums.tables(tokens, through)
        return None, None, *sums.by_weight()


def _forward(
    values: Tensor, rows: int, attention: Attention, weights: Sequence[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """Values (rows * length, size) after a block, and the tensors that its gradient needs."""
    norm_1, shift_1, of_all, bias_all, of_out, bias_out = weights[:6]
    norm_2, shift_2, of_wide, bias_wide, of_back, bias_back = weights[6:]
    size = [values.shape[1]]
    normed, *stats_1 = torch.native_layer_norm(values, size, norm_1, shift_1, attention.eps[0])
    table = product(normed, of_all.t(), bias_all)
    mixed, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *_by_head(table, rows, attention.heads), 0.0, True, scale=attention.scale
    )
    mixed = mixed.transpose(1, 2).reshape(values.shape)
    middle = product(mixed, of_out.t(), bias_out).add_(values)
    again, *stats_2 = torch.native_layer_norm(middle, size, norm_2, shift_2, attention.eps[1])
    wide = product(again, of_wide.t(), bias_wide)
    gate = _gate(wide)
    out = product(wide * gate, of_back.t(), bias_back).add_(middle)
    return out, [
        values, normed, *stats_1, table, mixed, sums, middle, again, *stats_2, wide, gate
    ]  # fmt: skip


def _backward(
    of_values: Tensor, rows: int, attention: Attention, kept: Sequence[Tensor],
    place: tuple[_Gradients, int],
) -> Tensor:  # fmt: skip
    """Compute the gradient of a block's inputs from that of its outputs; add those of weights.

    Args:
        of_values: (rows * length, size) gradient of the outputs.
        rows: number of rows of the batch.
        attention: constants of the block.
        kept: see `_forward`.
        place: gradients, and the number of the block's first weight.
    """
    values, normed, mean_1, scale_1, table, mixed, sums = kept[:7]
    middle, again, mean_2, scale_2, wide, gate = kept[7:]
    all_, at = place
    _, _, of_all, _, of_out, _, _, _, of_wide, _, of_back, _ = all_.weights[at : at + _WEIGHTS]

    inner = _through_gelu(product(of_values, of_back), wide, gate)
    all_.product(at + 10, wide * gate, of_values)
    through = product(inner, of_wide)
    all_.product(at + 8, again, inner)
    of_middle = all_.norm(at + 6, through, middle, mean_2, scale_2).add_(of_values)
    of_mixed = product(of_middle, of_out).view(
        rows, -1, attention.heads, values.shape[1] // attention.heads
    )
    all_.product(at + 4, mixed, of_middle)
    parts = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        of_mixed.transpose(1, 2), *_by_head(table, rows, attention.heads),
        mixed.view_as(of_mixed).transpose(1, 2), sums, 0.0, True, scale=attention.scale,
    )  # fmt: skip
    of_table = torch.cat([p.transpose(1, 2).reshape(values.shape) for p in parts], dim=1)
    through = product(of_table, of_all)
    all_.product(at + 2, normed, of_table)
    return all_.norm(at, through, values, mean_1, scale_1).add_(of_middle)


class _Gradients:
    """Gradients of weights, or their moves. Nothing reads a weight after its gradient was added.

    Args:
        needed: True for each weight that is trained.
        rate: see `descent.current_rate`.
        weights: weights in the order of `_Transformer`.
    """

    def __init__(
        self, needed: Sequence[bool], rate: float | None, weights: Sequence[Tensor]
    ) -> None:
        self.weights = weights
        self._needed, self._rate = needed, rate
        self._all: list[Tensor | None] = [None] * len(weights)

    def product(self, at: int, inputs: Tensor, gradient: Tensor) -> None:
        """Add gradients of a product's weight and bias, from the gradient of its outputs."""
        moved = sgd_moved(self._needed[at], self._rate, self.weights[at], inputs, gradient)
        if self._needed[at] and not moved:
            self._all[at] = outer(inputs, gradient)
        if self._needed[at + 1]:
            self._all[at + 1] = gradient.sum(dim=0)

    def norm(
        self, at: int, gradient: Tensor, values: Tensor, mean: Tensor, scale: Tensor
    ) -> Tensor:
        """Add gradients of a layer norm's weights; return the gradient of its inputs."""
        through, of_norm, of_shift = torch.ops.aten.native_layer_norm_backward(
            gradient, values, [values.shape[1]], mean, scale, *self.weights[at : at + 2], [True] * 3
        )
        self._all[at], self._all[at + 1] = of_norm, of_shift
        of_inputs: Tensor = through
        return of_inputs

    def tables(self, tokens: Tensor, gradient: Tensor) -> None:
        """Add gradients of words and places, from that of their sums (rows * length, size)."""
        words, places = self.weights[:2]
        if self._needed[0]:
            if self._rate is None:
                self._all[0] = torch.ops.aten.embedding_dense_backward(
                    gradient, tokens.flatten(), len(words), -1, False
                )
            else:  # the rows that were read, and no others
                words.index_add_(0, tokens.flatten(), gradient, alpha=-self._rate)
        if self._needed[1]:
            of_places = gradient.view(*tokens.shape, -1).sum(dim=0)
            if self._rate is None:
                self._all[1] = functional.pad(of_places, (0, 0, 0, len(places) - len(of_places)))
            else:
                places[: len(of_places)].sub_(of_places, alpha=self._rate)

    def by_weight(self) -> list[Tensor | None]:
        """Gradients by weight; None where it is frozen, or was moved."""
        needed = [one if need else None for one, need in zip(self._all, self._needed, strict=True)]
        if self._rate is None:
            return needed
        small = [(w, one) for w, one in zip(self.weights, needed, strict=True) if one is not None]
        if small:
            weights, gradients = zip(*small, strict=True)
            torch._foreach_add_(weights, gradients, alpha=-self._rate)
        return [None] * len(needed)


def _by_head(table: Tensor, rows: int, heads: int) -> Sequence[Tensor]:
    """Queries, keys and values (rows, heads, length, size of a head) of one table of all three."""
    parts = table.view(rows, -1, 3, heads, table.shape[1] // 3 // heads)
    return parts.permute(2, 0, 3, 1, 4).unbind(0)


@cache
def _constant(value: float, dtype: torch.dtype) -> Tensor:
    """A number that operations add to products in one pass."""
    return torch.tensor(value, dtype=dtype)


def _gate(values: Tensor) -> Tensor:
    """Factor of GELU by tanh on its input: 0.5 (1 + tanh(u)), which is sigmoid(2 u)."""
    start = _constant(_SLOPE, values.dtype)
    gate = torch.addcmul(start, values, values, value=_SLOPE * _CUBE)
    return gate.mul_(values).sigmoid_()


def _through_gelu(gradient: Tensor, values: Tensor, gate: Tensor) -> Tensor:
    """The gradient of GELU's input; overwrites that of its output."""
    start = _constant(_SLOPE, values.dtype)
    slope = torch.addcmul(start, values, values, value=3.0 * _SLOPE * _CUBE).mul_(values)
    slope.mul_(gate)  # times (1 - gate), plus 1, times the gate
    slope.addcmul_(slope, gate, value=-1.0).add_(gate)
    return gradient.mul_(slope)
