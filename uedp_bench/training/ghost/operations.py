"""Known uses of weights: their computation, and their records on the tape.

Each computes its value without a graph to the weight; its backward pass gives the gradient of the
input, and writes down the two factors of the gradient of the weight, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast.products import product
from uedp_bench.training.ghost.gradients import Lookup, Product, UnknownUse, WeightGradients
from uedp_bench.training.ghost.watched import HANDLERS, Handler, WatchedWeight, unknown


def _handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register a handler that computes these torch functions of watched weights."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(functions, handler))
        return handler

    return register


def _by_row(tensor: Tensor, rows: int) -> Tensor:
    """(rows, tokens, size) of a tensor whose first dimension is `rows`, or a multiple of it."""
    return tensor.detach().reshape(rows, -1, tensor.shape[-1])


def _check_rows(inputs: Tensor, weight: WatchedWeight, operation: str) -> None:
    """Raise `UnknownUse` where the first dimension cannot be that of rows."""
    rows = weight.tape.rows
    if inputs.dim() < 2 or inputs.shape[0] == 0 or inputs.shape[0] % rows:
        raise UnknownUse(f"{weight.label} in {operation} of a tensor whose first dimension is not "
                         "that of rows")  # fmt: skip


class _Linear(torch.autograd.Function):
    """inputs (..., a) times the transpose of a weight (b, a), plus a bias (b,)."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, anchor: Tensor, weight: Tensor, bias: Tensor | None, record: Any
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.record = record
        flat = product(inputs.reshape(-1, inputs.shape[-1]), weight, bias)
        return flat.view(*inputs.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        ctx.record(inputs, gradients[0])
        inner: Tensor | None = None
        if ctx.needs_input_grad[0]:
            flat = gradients[0].reshape(-1, gradients[0].shape[-1])
            inner = product(flat, weight.t()).view_as(inputs)
        return inner, None, None, None, None


def _product(inputs: Any, weight: Any, bias: Any = None) -> Tensor:
    """Inputs (..., a) times the transpose of `weight` (b, a), plus a bias (b,)."""
    watched = isinstance(weight, WatchedWeight)
    if isinstance(inputs, WatchedWeight) or weight.dim() != 2:
        raise unknown((inputs, weight, bias), "a product")
    if not watched or (bias is not None and bias.dim() != 1):
        values = _product(inputs, weight) if watched else functional.linear(inputs, weight)
        return values if bias is None else values + bias
    _check_rows(inputs, weight, "a product")
    gradients, rows, turned = weight.tape.gradients_of(weight), weight.tape.rows, weight.turned
    of_bias = bias.tape.gradients_of(bias) if isinstance(bias, WatchedWeight) else None

    def record(values: Tensor, gradient: Tensor) -> None:
        left, right = _by_row(gradient, rows), _by_row(values, rows)
        gradients.products.append(Product(right, left) if turned else Product(left, right))
        if of_bias is not None:
            of_bias.add_whole(left.sum(dim=1))

    plain = bias.plain if isinstance(bias, WatchedWeight) else bias
    return _Linear.apply(inputs, weight.tape.anchor, weight.plain, plain, record)  # type: ignore[no-any-return, no-untyped-call]


_handles(functional.linear)(_product)


@_handles(torch.matmul, torch.mm, Tensor.matmul, Tensor.mm, Tensor.__matmul__)
def _matmul(inputs: Any, weight: Any) -> Tensor:
    if not isinstance(weight, WatchedWeight):
        raise unknown((inputs, weight), "matmul")
    return _product(inputs, _transposed(weight))


@_handles(Tensor.__rmatmul__)
def _reflected_matmul(weight: Any, inputs: Any) -> Tensor:
    return _product(inputs, _transposed(weight))


@_handles(torch.addmm, Tensor.addmm)
def _addmm(bias: Any, inputs: Any, weight: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if (beta, alpha) != (1, 1):
        raise unknown((bias, inputs, weight), "addmm with factors")
    turned = _transposed(weight) if isinstance(weight, WatchedWeight) else weight.t()
    return _product(inputs, turned, bias)


def _transposed(weight: Any) -> WatchedWeight:
    if weight.dim() != 2:
        raise unknown((weight,), "transpose")
    return WatchedWeight.watch(
        weight.plain.t(), weight.tape, weight.label, turned=not weight.turned
    )


_handles(Tensor.t, torch.t, *(getattr(Tensor, name).__get__ for name in ("T", "mT")))(_transposed)


@_handles(Tensor.transpose, torch.transpose)
def _transpose(weight: Any, first: int, second: int) -> WatchedWeight:
    if weight.dim() != 2 or {first % 2, second % 2} != {0, 1}:
        raise unknown((weight,), "transpose")
    return _transposed(weight)


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, anchor: Tensor, weight: Tensor, record: Any) -> Tensor:
        ctx.record = record
        return functional.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, None, None]:
        ctx.record(gradients[0])
        return None, None, None, None


@_handles(functional.embedding)
def _embedding(
    ids: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    rows = weight.tape.rows
    if max_norm is not None or scale_grad_by_freq or weight.turned:
        raise unknown((weight,), "an embedding with options")
    if ids.dim() == 2 and len(ids) == 1:
        ids = ids.expand(rows, -1)  # the same positions for every row
    if ids.dim() == 0 or ids.shape[0] == 0 or ids.shape[0] % rows:
        raise UnknownUse(f"{weight.label} in an embedding of ids that are not by row")
    gradients, width = weight.tape.gradients_of(weight), weight.shape[1]
    skipped = None if padding_idx is None else padding_idx % weight.shape[0]

    def record(gradient: Tensor) -> None:
        by_row, values = ids.reshape(rows, -1), gradient.reshape(rows, -1, width)
        if skipped is not None:  # torch gives the padding's row no gradient
            values = values.masked_fill((by_row == skipped)[:, :, None], 0.0)
        gradients.lookups.append(Lookup(by_row, values))

    return _Lookup.apply(ids, weight.tape.anchor, weight.plain, record)  # type: ignore[no-any-return, no-untyped-call]


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, anchor: Tensor, weight: Tensor, bias: Tensor | None, eps: float,
        record: Any,
    ) -> Tensor:  # fmt: skip
        shape = list(weight.shape)
        values, mean, scale = torch.native_layer_norm(inputs, shape, weight, bias, eps)
        ctx.save_for_backward(inputs, weight, bias, mean, scale)
        ctx.record, ctx.shape = record, shape
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, bias, mean, scale = ctx.saved_tensors
        ctx.record((inputs - mean) * scale, gradients[0])
        inner: Tensor | None = None
        if ctx.needs_input_grad[0]:
            inner = torch.ops.aten.native_layer_norm_backward(
                gradients[0], inputs, ctx.shape, mean, scale, weight, bias, [True, False, False]
            )[0]
        return inner, None, None, None, None, None


@_handles(functional.layer_norm)
def _layer_norm(
    inputs: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    if not isinstance(weight, WatchedWeight):
        values = functional.layer_norm(inputs, normalized_shape, weight, None, eps)
        return values if bias is None else values + bias
    if weight.dim() != 1 or isinstance(inputs, WatchedWeight):
        raise unknown((inputs, weight), "layer_norm over several dimensions")
    _check_rows(inputs, weight, "layer_norm")
    tape, rows = weight.tape, weight.tape.rows
    gradients = tape.gradients_of(weight)
    of_bias = tape.gradients_of(bias) if isinstance(bias, WatchedWeight) else None

    def record(normalised: Tensor, gradient: Tensor) -> None:
        by_row = _by_row(gradient, rows)
        gradients.add_whole((by_row * _by_row(normalised, rows)).sum(dim=1))
        if of_bias is not None:
            of_bias.add_whole(by_row.sum(dim=1))

    plain = bias.plain if isinstance(bias, WatchedWeight) else bias
    return _LayerNorm.apply(inputs, tape.anchor, weight.plain, plain, eps, record)  # type: ignore[no-any-return, no-untyped-call]


class _Copies(torch.autograd.Function):
    """A weight once for every row: (rows, 1, ..., 1, *shape), with ones in `between`."""

    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        weight: Tensor,
        rows: int,
        between: int,
        gradients: WeightGradients,
    ) -> Tensor:
        ctx.gradients = gradients
        ones = (1,) * between
        return weight.view(1, *ones, *weight.shape).expand(rows, *ones, *weight.shape)

    @staticmethod
    def backward(ctx: Any, *outer_gradients: Tensor) -> tuple[None, None, None, None, None]:
        gradients = ctx.gradients
        gradients.add_whole(outer_gradients[0].reshape(len(outer_gradients[0]), *gradients.shape))
        return None, None, None, None, None


_ELEMENTWISE = (
    [getattr(torch, name) for name in ("add", "sub", "mul", "div", "true_divide")]
    + [getattr(Tensor, name) for name in ("add", "sub", "mul", "div", "true_divide")]
    + [getattr(Tensor, f"__{name}__") for name in ("add", "sub", "mul", "truediv")]
    + [getattr(Tensor, f"__r{name}__") for name in ("add", "sub", "mul", "truediv")]
)


def _elementwise(function: Any) -> Handler:
    """An operation on one weight and one tensor of rows, number by number (a bias, a scale)."""

    def handler(first: Any, second: Any, **options: Any) -> Tensor:
        pair = (first, second)
        weights = [value for value in pair if isinstance(value, WatchedWeight)]
        others = [value for value in pair if not isinstance(value, WatchedWeight)]
        if len(weights) != 1 or not isinstance(others[0], Tensor) or "out" in options:
            raise unknown(pair, function.__name__)
        weight, other = weights[0], others[0]
        rows, between = weight.tape.rows, other.dim() - 1 - weight.dim()
        if between < 0 or weight.turned or other.shape[0] == 0 or other.shape[0] % rows:
            raise unknown(pair, f"{function.__name__} with a tensor whose first dimension is not "
                                "that of rows")  # fmt: skip
        gradients = weight.tape.gradients_of(weight)
        copies: Tensor = _Copies.apply(weight.tape.anchor, weight.plain, rows, between, gradients)  # type: ignore[no-untyped-call]
        if other.shape[0] > rows:
            copies = copies.repeat_interleave(other.shape[0] // rows, dim=0)
        replaced = (copies if value is weight else value for value in pair)
        return function(*replaced, **options)  # type: ignore[no-any-return]

    return handler


HANDLERS.update({function: _elementwise(function) for function in _ELEMENTWISE})
