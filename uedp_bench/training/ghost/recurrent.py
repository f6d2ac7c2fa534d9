"""LSTM and CIFG layers as one use of their weights: one product over all time steps for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from uedp_bench.models.networks.recurrence import recurrence
from uedp_bench.models.networks.recurrence_tables import (
    BackwardTables,
    CellWeights,
    ForwardTables,
    backward_tables,
    forward_tables,
    hidden_cells,
    seen_outputs,
)
from uedp_bench.training.ghost.gradients import Product, UnknownUse
from uedp_bench.training.ghost.watched import HANDLERS, WatchedWeight, unknown

State = tuple[Tensor, Tensor]


class _Recurrent(torch.autograd.Function):
    """Arguments as those of `recurrence`, with time first; the state and weights one by one."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> tuple[Tensor, Tensor]:
        inputs, recurrent, cells, _, mask, weights, coupled, record = given
        tables = forward_tables(inputs, (recurrent, cells), weights, mask, coupled=coupled)
        ctx.save_for_backward(inputs, recurrent, cells, mask, *weights, *tables)
        ctx.record = record
        ctx.set_materialize_grads(False)
        return tables.outputs, tables.cells[-1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        inputs, recurrent, cells, mask, *kept = ctx.saved_tensors  # read once: it may gather them
        weights, state, tables = (
            CellWeights(*kept[:4]),
            (recurrent, cells),
            ForwardTables(*kept[4:]),
        )
        outer = torch.zeros_like(tables.outputs) if gradients[0] is None else gradients[0]
        back = backward_tables(outer, gradients[1], tables, state, weights, mask)
        ctx.record(inputs, tables, back, state, mask)
        return back.inputs, *back.state, None, None, None, None, None


def _recurrence(
    inputs: Any, state: State, weights: CellWeights, mask: Tensor | None, *, coupled: bool
) -> tuple[Tensor, State]:
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

    def record(
        inputs: Tensor, tables: ForwardTables, back: BackwardTables, state: State,
        mask: Tensor | None,
    ) -> None:  # fmt: skip
        for field, weight in watched.items():
            found = weight.tape.of(weight)
            if field == "bias":
                found.add_whole(back.gates.sum(dim=0))
                continue
            left = back.outputs if field == "projection" else back.gates
            if field == "input":
                right = inputs.detach()
            elif field == "recurrent":
                right = seen_outputs(tables, state, mask)
            else:
                right = hidden_cells(tables)
            found.products.append(Product(left.transpose(0, 1), right.transpose(0, 1)))

    plain = weights._replace(**{field: weight.plain for field, weight in watched.items()})
    outputs, cells = _Recurrent.apply(  # type: ignore[no-untyped-call]
        inputs.transpose(0, 1), *state, first.tape.anchor, mask, plain, coupled, record
    )
    return outputs.transpose(0, 1), (outputs[-1], cells)


HANDLERS[recurrence] = _recurrence
