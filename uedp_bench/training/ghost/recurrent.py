"""LSTM and CIFG layers as one use of their weights: one product over all time steps for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from uedp_bench.models.fast.recurrence import recurrence
from uedp_bench.models.fast.recurrence_tables import (
    BackwardTables,
    CellWeights,
    ForwardTables,
    Sequences,
    backward_tables,
    forward_tables,
    hidden_cells,
    last_cells,
    seen_outputs,
)
from uedp_bench.training.ghost.gradients import Product, UnknownUse
from uedp_bench.training.ghost.watched import HANDLERS, WatchedWeight, unknown

State = tuple[Tensor, Tensor]


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


HANDLERS[recurrence] = _recurrence
