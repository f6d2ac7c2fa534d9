"""Convolutions over one dimension as products of gradients and patches of inputs, by place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.training.ghost.gradients import Product, UnknownUse
from uedp_bench.training.ghost.watched import HANDLERS, WatchedWeight, unknown


class _Shape(NamedTuple):
    """Moves of a kernel over positions.

    Attributes:
        kernel: number of positions that the kernel meets.
        stride: positions from one place of the kernel to the next.
        padding: zeros on either side of the inputs.
        dilation: positions between two that the kernel meets.
    """

    kernel: int
    stride: int
    padding: int
    dilation: int

    def patches(self, inputs: Tensor) -> Tensor:
        """(rows, places, channels * kernel) windows of inputs (rows, channels, n)."""
        padded = functional.pad(inputs, (self.padding, self.padding))
        reach = (self.kernel - 1) * self.dilation + 1
        met = padded.unfold(2, reach, self.stride)[..., :: self.dilation]
        return met.transpose(1, 2).flatten(2)


class _Convolution(torch.autograd.Function):
    """inputs (rows, a, n) under a kernel (b, a, k), plus a bias (b,): (rows, b, places)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, anchor: Tensor, weight: Tensor, bias: Tensor | None,
        shape: _Shape, record: Any,
    ) -> Tensor:  # fmt: skip
        ctx.save_for_backward(inputs, weight)
        ctx.shape, ctx.record = shape, record
        return torch.conv1d(inputs, weight, bias, *shape[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        ctx.record(inputs, gradients[0])
        inner: Tensor | None = None
        if ctx.needs_input_grad[0]:
            _, stride, padding, dilation = ctx.shape
            inner = torch.ops.aten.convolution_backward(
                gradients[0], inputs, weight, None, [stride], [padding], [dilation], False, [0], 1,
                [True, False, False],
            )[0]  # fmt: skip
        return inner, None, None, None, None, None


def _convolution(
    inputs: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    watched = [part for part in (weight, bias) if isinstance(part, WatchedWeight)]
    numbers = [_one(value) for value in (stride, padding, dilation)]
    if isinstance(inputs, WatchedWeight) or not watched or groups != 1 or None in numbers:
        raise unknown((inputs, weight, bias), "conv1d with options")
    tape, shape = watched[0].tape, _Shape(weight.shape[2], *(number or 0 for number in numbers))
    if inputs.dim() != 3 or inputs.shape[0] == 0 or inputs.shape[0] % tape.rows:
        raise UnknownUse(f"{watched[0].label} in conv1d of a tensor whose first dimension is not "
                         "that of rows")  # fmt: skip
    of_weight, of_bias = (
        part.tape.gradients_of(part) if isinstance(part, WatchedWeight) else None
        for part in (weight, bias)
    )

    def record(values: Tensor, gradient: Tensor) -> None:
        left = _by_row(gradient.transpose(1, 2), tape.rows)
        if of_weight is not None:
            of_weight.products.append(Product(left, _by_row(shape.patches(values), tape.rows)))
        if of_bias is not None:
            of_bias.add_whole(left.sum(dim=1))

    plain = (part.plain if isinstance(part, WatchedWeight) else part for part in (weight, bias))
    return _Convolution.apply(inputs, tape.anchor, *plain, shape, record)  # type: ignore[no-any-return, no-untyped-call]


def _by_row(tensor: Tensor, rows: int) -> Tensor:
    """(rows, tokens, size) of a tensor whose first dimension is `rows`, or a multiple of it."""
    return tensor.detach().reshape(rows, -1, tensor.shape[2])


def _one(value: int | str | Sequence[int]) -> int | None:
    """The number of an option that may be a sequence of one; None for padding by name."""
    if isinstance(value, str):
        return 0 if value == "valid" else None
    return value if isinstance(value, int) else int(value[0])


HANDLERS.update(dict.fromkeys((torch.conv1d, functional.conv1d), _convolution))
