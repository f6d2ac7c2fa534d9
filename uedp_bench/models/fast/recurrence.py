"""LSTM and CIFG recurrences over a whole sequence, with the gradient written out.

Autograd keeps a node for every operation of every time step, and makes and adds as many gradients
of the weights as there are steps. Here the loops run on preallocated tables (`recurrence_tables`),
and the gradient of each weight is one product over all time steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from uedp_bench.models import fast
from uedp_bench.models.fast.recurrence_tables import (
    CellWeights,
    ForwardTables,
    Sequences,
    State,
    backward_tables,
    forward_tables,
    last_cells,
    weight_gradients,
)


def recurrence(
    inputs: Tensor, state: State, weights: CellWeights, mask: Tensor | None, *, coupled: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor, State]:  # fmt: skip
    """Outputs (rows, T, outputs) and last state of inputs (rows, T, inputs).

    It works under `torch.func.grad` and `vmap` and has no second derivative. Tensors that override
    torch's functions override this one as well (`torch.overrides`).

    Args:
        inputs: inputs of all time steps.
        state: state before the first.
        weights: weights of the layer.
        mask: (rows, outputs) multiplies the recurrent output at every step, or None.
        coupled: input gate = 1 - forget gate (CIFG, Greff et al. 2017).
        lengths: (rows,) steps of each row that count. Outputs after them and the last state mean
            nothing then, and must not be used.
    """
    relevant = (inputs, *weights)
    if has_torch_function(relevant):
        overridden: tuple[Tensor, State] = handle_torch_function(
            recurrence, relevant, inputs, state, weights, mask, coupled=coupled, lengths=lengths
        )
        return overridden
    if not fast.is_on():
        return by_steps(inputs, state, weights, mask, coupled=coupled)
    outputs, cells, *_ = _Recurrence.apply(  # type: ignore[no-untyped-call]
        inputs.transpose(0, 1), *state, mask, *weights, lengths, coupled
    )
    return outputs.transpose(0, 1), (outputs[-1], cells)


def by_steps(
    inputs: Tensor, state: State, weights: CellWeights, mask: Tensor | None, *, coupled: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor, State]:  # fmt: skip
    """Compute `recurrence` operation by operation, with torch's own derivatives.

    All steps of all rows are computed, whatever `lengths` says.
    """
    recurrent, cells = state
    outputs = []
    for gates in (inputs @ weights.input.t() + weights.bias).unbind(1):
        seen = recurrent if mask is None else recurrent * mask
        parts = (gates + seen @ weights.recurrent.t()).chunk(3 if coupled else 4, dim=1)
        forget, out, candidate = parts[0].sigmoid(), parts[1].sigmoid(), parts[2].tanh()
        if coupled:
            cells = candidate + forget * (cells - candidate)
        else:
            cells = forget * cells + torch.sigmoid(parts[3]) * candidate
        recurrent = out * torch.tanh(cells)
        if weights.projection is not None:
            recurrent = recurrent @ weights.projection.t()
        outputs.append(recurrent)
    return torch.stack(outputs, dim=1), (recurrent, cells)


class _Recurrence(torch.autograd.Function):
    """Arguments: inputs (time first), two of the state, mask, four weights, lengths, coupled."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        inputs, recurrent, cells, mask, *kept, lengths, coupled = arguments
        weights = _of_all(kept)
        read = Sequences.read(inputs, (recurrent, cells), mask, weights, lengths)
        tables = forward_tables(read, weights, coupled=coupled)
        return read.padded(tables.outputs), last_cells(tables, read), *tables[1:]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs[:-1], output[0], *output[2:])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        inputs, recurrent, cells, mask, *kept = ctx.saved_tensors  # read once: it may gather them
        weights, lengths, kept = kept[:4], kept[4], kept[5:]
        of_outputs, of_cells = gradients[:2]
        if of_outputs is None:
            of_outputs = torch.zeros_like(kept[0])
        through = _Backward.apply(  # type: ignore[no-untyped-call]
            of_outputs, of_cells, inputs, recurrent, cells, mask, *weights, *kept, lengths
        )
        of_inputs, of_recurrent, before, *of_weights = through
        if weights[3] is None:
            of_weights[3] = None
        return of_inputs, of_recurrent, before, None, *of_weights, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        units = info.batch_size  # which compute all steps: their rows end in different places
        data = _with_units(units, zip(arguments[:4], in_dims[:4], (1, 0, 0, 0), strict=True))
        weights = _with_units(units, zip(arguments[4:8], in_dims[4:8], (0,) * 4, strict=True))
        outputs = _Recurrence.apply(*data, *weights, None, arguments[9])  # type: ignore[no-untyped-call]
        return outputs, (1, 0, 1, 1, 1)


class _Backward(torch.autograd.Function):
    """The gradient as a function of its own, so that users side by side have one each."""

    @staticmethod
    def forward(*arguments: Any) -> tuple[Tensor, ...]:
        of_outputs, of_cells, inputs, recurrent, cells, mask, *rest, lengths = arguments
        weights, tables = _of_all(rest[:4]), ForwardTables(*rest[4:])
        read = Sequences.read(inputs, (recurrent, cells), mask, weights, lengths)
        tables = tables._replace(outputs=read.pack(tables.outputs))
        back = backward_tables(read.pack(of_outputs), of_cells, tables, read, weights)
        of_weights = weight_gradients(tables, back, read, weights)
        down = back.inputs.new_empty(*of_weights.bias.shape[:-1], 0)
        down = down if of_weights.projection is None else of_weights.projection
        before, memory = back.state
        of_state = (read.of_rows(before), read.of_rows(memory))
        return read.padded(back.inputs), *of_state, *of_weights[:3], down

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        raise RuntimeError("a recurrence has no second derivative")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        units, at = info.batch_size, (1, 0, 1, 0, 0, 0)
        data = _with_units(units, zip(arguments[:6], in_dims[:6], at, strict=True))
        weights = _with_units(units, zip(arguments[6:10], in_dims[6:10], (0,) * 4, strict=True))
        tables = _with_units(units, zip(arguments[10:14], in_dims[10:14], (1,) * 4, strict=True))
        gradients = _Backward.apply(*data, *weights, *tables, None)  # type: ignore[no-untyped-call]
        return gradients, (1, 0, 0, 0, 0, 0, 0)


def _with_units(units: int, parts: Any) -> list[Tensor | None]:
    """Tensors with the dimension of units where `forward_tables` wants it."""
    tensors: list[Tensor | None] = []
    for value, dim, wanted in parts:
        if value is None:
            tensors.append(None)
        elif dim is None:
            tensors.append(value.unsqueeze(wanted).expand(
                *value.shape[:wanted], units, *value.shape[wanted:]
            ))  # fmt: skip
        else:
            tensors.append(value.movedim(dim, wanted))
    return tensors


def _of_all(weights: Sequence[Tensor | None]) -> CellWeights:
    """The weights; once, where units were given copies of one that take no memory."""
    first = weights[0]
    if first is None or first.dim() == 2 or any(w is not None and w.stride(0) for w in weights):
        return CellWeights(*weights)  # type: ignore[arg-type]
    return CellWeights(*(None if weight is None else weight[0] for weight in weights))  # type: ignore[arg-type]
