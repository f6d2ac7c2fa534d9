"""Known uses of weights: their computation, and their records on the tape.

Each computes its value without a graph to the weight; its backward pass gives the gradient of the
input, and writes down the two factors of the gradient of the weight, row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast.products import product
from uedp_bench.models.fast.recurrence import recurrence
from uedp_bench.models.fast.recurrence_tables import (
    BackwardTables,
    CellWeights,
    ForwardTables,
    Sequences,
    State,
    backward_tables,
    forward_tables,
    hidden_cells,
    last_cells,
    seen_outputs,
)
from uedp_bench.training.ghost.gradients import (
    HANDLERS,
    Handler,
    Lookup,
    Product,
    UnknownUse,
    WatchedWeight,
    WeightGradients,
    unknown,
)


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


@_handles(torch.conv1d, functional.conv1d)
def _convolution(
    inputs: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    watched = [part for part in (weight, bias) if isinstance(part, WatchedWeight)]
    numbers = [_one(value) for value in (stride, padding, dilation)]
    strange = groups != 1 or None in numbers or inputs.dim() != 3
    if isinstance(inputs, WatchedWeight) or not watched or strange:
        raise unknown((inputs, weight, bias), "conv1d with options")
    _check_rows(inputs, watched[0], "conv1d")
    tape, shape = watched[0].tape, _Shape(weight.shape[2], *(number or 0 for number in numbers))
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


def _one(value: int | str | Sequence[int]) -> int | None:
    """The number of an option that may be a sequence of one; None for padding by name."""
    if isinstance(value, str):
        return 0 if value == "valid" else None
    return value if isinstance(value, int) else int(value[0])


class _Recurrent(torch.autograd.Function):
    """Arguments as those of `recurrence`, with time first; the state and weights one by one."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        inputs, recurrent, cells, _, mask, weights, lengths, coupled, record = arguments
        read = Sequences.read(inputs, (recurrent, cells), mask, weights, lengths)
        tables = forward_tables(read, weights, coupled=coupled)
        ctx.save_for_backward(inputs, recurrent, cells, mask, lengths, *weights, *tables)
        ctx.record = record
        ctx.set_materialize_grads(False)
        return read.padded(tables.outputs), last_cells(tables, read)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # read once: it may gather them
        inputs, recurrent, cells, mask, lengths, *kept = saved
        weights, tables = CellWeights(*kept[:4]), ForwardTables(*kept[4:])
        read = Sequences.read(inputs, (recurrent, cells), mask, weights, lengths)
        of_outputs = gradients[0]
        outer = torch.zeros_like(tables.outputs) if of_outputs is None else read.pack(of_outputs)
        back = backward_tables(outer, gradients[1], tables, read, weights)
        ctx.record(tables, back, read)
        before, memory = back.state
        of_state = (read.of_rows(before), read.of_rows(memory))
        return read.padded(back.inputs), *of_state, *(None,) * 6


@_handles(recurrence)
def _recurrence(
    inputs: Any, state: State, weights: CellWeights, mask: Tensor | None, *, coupled: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor, State]:  # fmt: skip
    watched = {
        field: weight
        for field, weight in weights._asdict().items()
        if isinstance(weight, WatchedWeight)
    }
    first = next(iter(watched.values()), None)
    if (
        first is None
        or isinstance(inputs, WatchedWeight)
        or any(w.turned for w in watched.values())
    ):
        raise unknown((inputs, *weights), "recurrence")
    rows = first.tape.rows
    if inputs.shape[0] != rows:
        raise UnknownUse(f"{first.label} in a recurrence whose first dimension is not that of rows")

    def record(tables: ForwardTables, back: BackwardTables, read: Sequences) -> None:
        for field, weight in watched.items():
            gradients = weight.tape.gradients_of(weight)
            if field == "bias":
                gradients.add_whole(read.padded(back.gates).sum(dim=0))
                continue
            left = back.outputs if field == "projection" else back.gates
            if field == "input":
                right = read.inputs.detach()
            elif field == "recurrent":
                right = seen_outputs(tables, read)
            else:
                right = hidden_cells(tables)
            factors = (read.padded(table).transpose(0, 1) for table in (left, right))
            gradients.products.append(Product(*factors))

    plain = weights._replace(**{field: weight.plain for field, weight in watched.items()})
    outputs, cells = _Recurrent.apply(  # type: ignore[no-untyped-call]
        inputs.transpose(0, 1), *state, first.tape.anchor, mask, plain, lengths, coupled, record
    )
    return outputs.transpose(0, 1), (outputs[-1], cells)
