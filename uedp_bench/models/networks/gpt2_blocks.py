"""The blocks of GPT-2 with their gradients written out, for networks of `transformers`.

At the sizes that people train here, half of the library's time goes into calls: masks, caches,
classes of outputs, and a node of autograd for every operation. A block here is one function on the
library's own weights. It computes what the library computes, to rounding (a test compares).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from uedp_bench.models.networks.descent import current_rate, lookup, sgd_moved
from uedp_bench.models.networks.products import outer, product, transformed

_SLOPE = 2.0 * math.sqrt(2.0 / math.pi)
_CUBE = 0.044715


class Attention(NamedTuple):
    """What a block knows besides its weights.

    Attributes:
        rows: of the batch; tokens are rows times length.
        heads: of attention.
        scale: that products of queries and keys are multiplied by.
        eps: of both layer norms.
        rate: see `descent.current_rate`.
    """

    rows: int
    heads: int
    scale: float
    eps: tuple[float, float]
    rate: float | None = None


def features(transformer: Any, tokens: Tensor) -> Tensor | None:
    """(rows, length, size) outputs of a `GPT2Model` for ids (rows, length), without dropout.

    None where the network is not the library's GPT-2 as it is (adapters, hooks, another
    activation, weights that override torch's functions), or elsewhere than on a CPU, or under the
    transforms of `torch.func`: the library's own code serves there.
    """
    if tokens.device.type != "cpu" or not _untouched(transformer):
        return None
    known = [_block(block) for block in transformer.h]
    ends = (transformer.wte.weight, transformer.wpe.weight, *transformer.ln_f.parameters(False))
    weights = [*ends, *(w for found in known if found for w in found[0])]
    if None in known or not all(type(w) in (Tensor, nn.Parameter) for w in weights):
        return None
    rows, length = tokens.shape
    positions = torch.arange(length, device=tokens.device).expand(rows, -1)
    values = lookup(tokens, transformer.wte.weight) + lookup(positions, transformer.wpe.weight)
    flat = values.view(rows * length, -1)
    # A weight of two blocks cannot be moved between them.
    rate = current_rate() if len({id(weight) for weight in weights}) == len(weights) else None
    for found in known:
        if found is not None:
            flat = _Block.apply(flat, *found[0], found[1]._replace(rows=rows, rate=rate))  # type: ignore[no-untyped-call]
    out: Tensor = transformer.ln_f(flat.view(rows, length, -1))
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
    return (kind is None or type(module) is kind) and not (
        module.training
        or module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__
    )


def _block(block: Any) -> tuple[tuple[Tensor, ...], Attention] | None:
    """Weights of a block in the order that `_Block` takes, and the rest; None if it is changed."""
    from transformers.models.gpt2.modeling_gpt2 import GPT2MLP, GPT2Attention, GPT2Block
    from transformers.pytorch_utils import Conv1D

    if type(block) is not GPT2Block or not _bare(block):
        return None
    attention, network = block.attn, block.mlp
    if not (_bare(attention, GPT2Attention) and _bare(network, GPT2MLP)):
        return None
    norms = (block.ln_1, block.ln_2)
    products = (attention.c_attn, attention.c_proj, network.c_fc, network.c_proj)
    gelu, others = network.act, (network.dropout, attention.attn_dropout, attention.resid_dropout)
    if not (
        all(_bare(norm, nn.LayerNorm) for norm in norms)
        and all(_bare(layer, Conv1D) for layer in products)
        and all(_bare(other, nn.Dropout) for other in others)
        and _bare(gelu, nn.GELU)
        and gelu.approximate == "tanh"
    ):
        return None
    first, second, third, fourth = ((p.weight, p.bias) for p in products)
    (one, two), (three, four) = ((norm.weight, norm.bias) for norm in norms)
    weights = (one, two, *first, *second, three, four, *third, *fourth)
    eps = (norms[0].eps, norms[1].eps)
    return weights, Attention(0, attention.num_heads, attention.scaling, eps)


class _Block(torch.autograd.Function):
    """Arguments: values (rows * length, size), 12 weights, `Attention`. No second derivative."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, *given: Any) -> Tensor:
        *weights, how = given
        norm_1, shift_1, of_all, bias_all, of_out, bias_out = weights[:6]
        norm_2, shift_2, of_wide, bias_wide, of_back, bias_back = weights[6:]
        size = [values.shape[1]]
        normed, *stats_1 = torch.native_layer_norm(values, size, norm_1, shift_1, how.eps[0])
        table = product(normed, of_all.t(), bias_all)
        mixed, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            *_by_head(table, how), 0.0, True, scale=how.scale
        )
        mixed = mixed.transpose(1, 2).reshape(values.shape)
        middle = product(mixed, of_out.t(), bias_out).add_(values)
        again, *stats_2 = torch.native_layer_norm(middle, size, norm_2, shift_2, how.eps[1])
        wide = product(again, of_wide.t(), bias_wide)
        gate = _gate(wide)
        ctx.how, ctx.rate = how, how.rate
        ctx.save_for_backward(
            *weights[::2], *weights[1::2], values, normed, *stats_1, table, mixed, sums,
            middle, again, *stats_2, wide, gate,
        )  # fmt: skip
        return product(wide * gate, of_back.t(), bias_back).add_(middle)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        norm_1, of_all, of_out, norm_2, of_wide, of_back = saved[:6]
        shift_1, shift_2 = saved[6], saved[9]
        values, normed, mean_1, scale_1, table, mixed, sums = saved[12:19]
        middle, again, mean_2, scale_2, wide, gate = saved[19:]
        how, size = ctx.how, [values.shape[1]]
        found = _Gradients(ctx.needs_input_grad[1:], how.rate, saved[:12])

        of_values = gradients[0]
        inner = _through_gelu(product(of_values, of_back), wide, gate)
        found.add(5, wide * gate, of_values)
        through = product(inner, of_wide)
        found.add(4, again, inner)
        of_middle, *ends = torch.ops.aten.native_layer_norm_backward(
            through, middle, size, mean_2, scale_2, norm_2, shift_2, [True] * 3
        )
        found.add_norm(3, *ends)
        of_middle += of_values
        of_mixed = product(of_middle, of_out).view(how.rows, -1, how.heads, size[0] // how.heads)
        found.add(2, mixed, of_middle)
        parts = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            of_mixed.transpose(1, 2), *_by_head(table, how),
            mixed.view_as(of_mixed).transpose(1, 2), sums, 0.0, True, scale=how.scale,
        )  # fmt: skip
        of_table = torch.cat([p.transpose(1, 2).reshape(values.shape) for p in parts], dim=1)
        through = product(of_table, of_all)
        found.add(1, normed, of_table)
        of_values, *ends = torch.ops.aten.native_layer_norm_backward(
            through, values, size, mean_1, scale_1, norm_1, shift_1, [True] * 3
        )
        found.add_norm(0, *ends)
        return (of_values.add_(of_middle), *found.all, None)


class _Gradients:
    """Gradients of a block's weights, or their moves.

    Args:
        needed: of the 12 weights, which are trained.
        rate: see `descent.current_rate`.
        weights: the six that multiply, and their six shifts.

    Attributes:
        all: by weight, in the order of `_Block`; None where it is frozen or was moved.
    """

    def __init__(
        self, needed: Sequence[bool], rate: float | None, weights: Sequence[Tensor]
    ) -> None:
        self._needed, self._rate, self._weights = needed, rate, weights
        self.all: list[Tensor | None] = [None] * 12

    def add(self, layer: int, inputs: Tensor, gradient: Tensor) -> None:
        """Those of a product and its bias; nothing reads the weight after this."""
        weight, needed = self._weights[layer], self._needed[2 * layer]
        if not sgd_moved(needed, self._rate, weight, inputs, gradient) and needed:
            self.all[2 * layer] = outer(inputs, gradient)
        self._shift(layer, gradient.sum(dim=0) if self._needed[2 * layer + 1] else gradient)

    def add_norm(self, layer: int, of_norm: Tensor, of_shift: Tensor) -> None:
        """Those of a layer norm."""
        needed = self._needed[2 * layer]
        if not sgd_moved(needed, self._rate, self._weights[layer], of_norm, None) and needed:
            self.all[2 * layer] = of_norm
        self._shift(layer, of_shift)

    def _shift(self, layer: int, gradient: Tensor) -> None:
        shift, needed = self._weights[6 + layer], self._needed[2 * layer + 1]
        if not sgd_moved(needed, self._rate, shift, gradient, None) and needed:
            self.all[2 * layer + 1] = gradient


def _by_head(table: Tensor, how: Attention) -> Iterator[Tensor]:
    """Queries, keys and values (rows, heads, length, size of a head) of one table of all three."""
    for part in table.view(how.rows, -1, 3, how.heads, table.shape[1] // 3 // how.heads).unbind(2):
        yield part.transpose(1, 2)


def _gate(values: Tensor) -> Tensor:
    """What GELU by tanh multiplies its input by: 0.5 (1 + tanh(u)), which is sigmoid(2 u)."""
    start = values.new_tensor(_SLOPE)
    gate = torch.addcmul(start, values, values, value=_SLOPE * _CUBE)
    return gate.mul_(values).sigmoid_()


def _through_gelu(gradient: Tensor, values: Tensor, gate: Tensor) -> Tensor:
    """The gradient of GELU's input; overwrites that of its output."""
    start = values.new_tensor(_SLOPE)
    slope = torch.addcmul(start, values, values, value=3.0 * _SLOPE * _CUBE).mul_(values)
    slope.mul_(gate)  # times (1 - gate), plus 1, times the gate
    slope.addcmul_(slope, gate, value=-1.0).add_(gate)
    return gradient.mul_(slope)
