"""The loops over time of LSTM and CIFG recurrences, forward and backward, on preallocated tables.

Gates in order: forget, output, candidate, and (where not coupled) input. All tables have time as
their first dimension. Everything but the weights may have a further dimension of units after time
(of a state and a mask: as their first), and then the weights may have it too: so do users compute
side by side, each with its own weights. Nothing here has a gradient of its own: `recurrence` does.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from uedp_bench.models.networks.products import outer, product

State = tuple[Tensor, Tensor]
"""Recurrent output (rows, outputs) and memory cells (rows, units)."""


class CellWeights(NamedTuple):
    """Weights of a layer.

    Attributes:
        input: (gates * units, inputs).
        recurrent: (gates * units, outputs).
        bias: (gates * units,).
        projection: (outputs, units), or None where cells recur as they are.
    """

    input: Tensor
    recurrent: Tensor
    bias: Tensor
    projection: Tensor | None


class ForwardTables(NamedTuple):
    """What the loop over time computes, and its gradient needs; T time steps.

    Attributes:
        outputs: (T, rows, outputs) recurrent outputs, before any mask.
        gates: (T, rows, gates * units) after their activations.
        cells: (T, rows, units) memory cells.
        squashed: (T, rows, units) their tanh.
    """

    outputs: Tensor
    gates: Tensor
    cells: Tensor
    squashed: Tensor


class BackwardTables(NamedTuple):
    """Gradients of all time steps; each weight's is a product with the table beside it.

    With `seen` from `seen_outputs` and `hidden` from `hidden_cells`, the gradients are
    `gates^T inputs` (input), `gates^T seen` (recurrent), the sum of `gates` (bias), and
    `outputs^T hidden` (projection), each over all rows and time steps.

    Attributes:
        gates: (T, rows, gates * units) of what enters the activations of the gates.
        outputs: (T, rows, outputs) of the recurrent outputs, what comes back from later steps
            included.
        inputs: (T, rows, inputs) of the inputs.
        state: of the state before the first step.
    """

    gates: Tensor
    outputs: Tensor
    inputs: Tensor
    state: State


def forward_tables(
    inputs: Tensor, state: State, weights: CellWeights, mask: Tensor | None, *, coupled: bool
) -> ForwardTables:
    """The loop over time, without a gradient; arguments as those of `recurrence`, time first."""
    if inputs.dim() == 4 and weights.input.dim() == 2:
        return _unfolded(forward_tables(
            _folded(inputs, 1), (_folded(state[0]), _folded(state[1])), weights,
            None if mask is None else _folded(mask), coupled=coupled,
        ), inputs.shape[1])  # fmt: skip
    units = weights.recurrent.shape[-2] // (3 if coupled else 4)
    # In the order of time: products of a step write to one block, or torch makes them one by one.
    gates = _products(inputs, weights.input, weights.bias).contiguous()
    cells = gates.new_empty(*gates.shape[:-1], units)
    squashed = torch.empty_like(cells)
    multiply_add = torch.addmm if inputs.dim() == 3 else torch.baddbmm
    recurrent_t = weights.recurrent.transpose(-1, -2)
    down = None if weights.projection is None else weights.projection.transpose(-1, -2)
    outputs = squashed.new_empty(*squashed.shape[:-1], weights.recurrent.shape[-1])
    hidden = None if down is None else torch.empty_like(squashed[0])
    seen, before = state
    # Views of all time steps at once: a view made in the loop costs as much as a small product.
    tables = (gates, gates[..., : 2 * units], *torch.split(gates, units, dim=-1))
    for t, (now, both, forget, out, candidate, *rest) in enumerate(
        zip(*(table.unbind(0) for table in tables), strict=True)
    ):
        if mask is not None:
            seen = seen * mask
        multiply_add(now, seen, recurrent_t, out=now)
        both.sigmoid_()
        candidate.tanh_()
        cell = cells[t]
        if coupled:
            torch.lerp(candidate, before, forget, out=cell)
        else:
            rest[0].sigmoid_()
            torch.mul(forget, before, out=cell).addcmul_(rest[0], candidate)
        before = cell
        torch.tanh(cell, out=squashed[t])
        seen = outputs[t]
        if hidden is None or down is None:
            torch.mul(out, squashed[t], out=seen)
        else:
            torch.matmul(torch.mul(out, squashed[t], out=hidden), down, out=seen)
    return ForwardTables(outputs, gates, cells, squashed)


def seen_outputs(tables: ForwardTables, state: State, mask: Tensor | None) -> Tensor:
    """(T, rows, outputs) recurrent outputs as the next step sees them, from the state on."""
    before = torch.cat([state[0][None], tables.outputs[:-1]])
    return before if mask is None else before * mask


def hidden_cells(tables: ForwardTables) -> Tensor:
    """(T, rows, units) what the projection is applied to."""
    units = tables.cells.shape[-1]
    return tables.gates[..., units : 2 * units] * tables.squashed


def backward_tables(
    gradient: Tensor,
    last_cells: Tensor | None,
    tables: ForwardTables,
    state: State,
    weights: CellWeights,
    mask: Tensor | None,
) -> BackwardTables:
    """The loop back over time.

    Args:
        gradient: (T, rows, outputs) of the outputs.
        last_cells: (rows, units) gradient of the last memory cells, None for 0.
        tables: of `forward_tables`.
        state: that it began from.
        weights: that it computed with.
        mask: that it computed with.
    """
    if gradient.dim() == 4 and weights.input.dim() == 2:
        units = gradient.shape[1]
        back = backward_tables(
            _folded(gradient, 1), None if last_cells is None else _folded(last_cells),
            ForwardTables(*(_folded(table, 1) for table in tables)),
            (_folded(state[0]), _folded(state[1])), weights,
            None if mask is None else _folded(mask),
        )  # fmt: skip
        gates, outputs, inputs = (_unfold(part, units, 1) for part in back[:3])
        return BackwardTables(gates, outputs, inputs, (
            _unfold(back.state[0], units), _unfold(back.state[1], units)
        ))  # fmt: skip
    factors, through = _factors(tables, state[1]), _through(tables)
    units = tables.cells.shape[-1]
    blocks = factors.view(*factors.shape[:-1], -1, units)
    # What the gradient of the cells multiplies: all gates but the second, the output gate.
    coupled = blocks.shape[-2] == 3
    of_cells = [blocks[..., ::2, :]] if coupled else [blocks[..., :1, :], blocks[..., 2:, :]]
    outputs = gradient.clone(memory_format=torch.contiguous_format)
    views = (outputs, through, tables.gates[..., :units], factors, blocks[..., 1, :], *of_cells)
    carried = torch.zeros_like(state[1]) if last_cells is None else last_cells
    later: Tensor | None = None
    for now, factor, forget, gates, of_out, *others in reversed(
        list(zip(*(view.unbind(0) for view in views), strict=True))
    ):
        if later is not None:
            _add_product(now, later, weights.recurrent, mask)
        hidden = now if weights.projection is None else now @ weights.projection
        cell = torch.addcmul(carried, hidden, factor)
        of_out.mul_(hidden)
        for other in others:
            other.mul_(cell.unsqueeze(-2))
        carried, later = cell * forget, gates
    before = torch.zeros_like(state[0])
    if later is not None:
        _add_product(before, later, weights.recurrent, mask)
    inputs = _products(factors, weights.input.transpose(-1, -2), None)
    return BackwardTables(factors, outputs, inputs, (before, carried))


def _through(tables: ForwardTables) -> Tensor:
    """(T, rows, units) derivatives of hidden cells by memory cells."""
    units = tables.cells.shape[-1]
    found = torch.mul(tables.squashed, tables.squashed).neg_().add_(1.0)
    return found.mul_(tables.gates[..., units : 2 * units])


def _factors(tables: ForwardTables, first_cells: Tensor) -> Tensor:
    """(T, rows, gates * units) derivatives of cells, or of hidden cells, by the gates' inputs."""
    units = tables.cells.shape[-1]
    forget, out, candidate, *rest = torch.split(tables.gates, units, dim=-1)
    found = torch.empty_like(tables.gates)
    of_forget, of_out, of_candidate, *of_rest = torch.split(found, units, dim=-1)
    before = torch.cat([first_cells[None], tables.cells[:-1]])
    _slope(out, of_out).mul_(tables.squashed)
    torch.mul(candidate, candidate, out=of_candidate).neg_().add_(1.0)
    if rest:
        _slope(forget, of_forget).mul_(before)
        of_candidate.mul_(rest[0])
        _slope(rest[0], of_rest[0]).mul_(candidate)
    else:
        _slope(forget, of_forget).mul_(before.sub_(candidate))
        of_candidate.addcmul_(of_candidate, forget, value=-1.0)
    return found


def _slope(gate: Tensor, to: Tensor) -> Tensor:
    """The derivative of a sigmoid from its value."""
    return torch.mul(gate, gate, out=to).neg_().add_(gate)


def _add_product(to: Tensor, gates: Tensor, weight: Tensor, mask: Tensor | None) -> None:
    if mask is not None:
        to.addcmul_(gates @ weight, mask)
    elif to.dim() == 2:
        to.addmm_(gates, weight)
    else:
        to.baddbmm_(gates, weight)


def weight_gradients(
    inputs: Tensor,
    tables: ForwardTables,
    back: BackwardTables,
    state: State,
    weights: CellWeights,
    mask: Tensor | None,
) -> CellWeights:
    """Gradients of the weights, each one product over all time steps.

    Where there is a dimension of units, each has a gradient of its own.
    """
    gates = back.gates
    down = None
    if weights.projection is not None:
        down = _outers(back.outputs, hidden_cells(tables))
    return CellWeights(
        _outers(gates, inputs),
        _outers(gates, seen_outputs(tables, state, mask)),
        gates.sum(dim=(0, -2)),
        down,
    )


def _products(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(T, ..., rows, outputs) of x (T, ..., rows, inputs); not contiguous with units."""
    if x.dim() == 3:
        return product(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)
    first = x.transpose(0, 1).reshape(x.shape[1], -1, x.shape[-1])
    weight_t = weight.transpose(-1, -2)
    found = first @ weight_t if bias is None else torch.baddbmm(bias.unsqueeze(-2), first, weight_t)
    return found.view(x.shape[1], x.shape[0], x.shape[2], -1).transpose(0, 1)


def _outers(gradients: Tensor, inputs: Tensor) -> Tensor:
    """(..., outputs, inputs) sums over time and rows of outer products."""
    if inputs.dim() == 3:
        return outer(
            gradients.reshape(-1, gradients.shape[-1]), inputs.reshape(-1, inputs.shape[-1])
        )
    left, right = (
        table.transpose(0, 1).reshape(table.shape[1], -1, table.shape[-1])
        for table in (gradients, inputs)
    )
    return left.transpose(-1, -2) @ right


def _folded(table: Tensor, dim: int = 0) -> Tensor:
    """Units and rows as one dimension."""
    return table.reshape(*table.shape[:dim], -1, table.shape[-1])


def _unfold(table: Tensor, units: int, dim: int = 0) -> Tensor:
    return table.reshape(*table.shape[:dim], units, -1, table.shape[-1])


def _unfolded(tables: ForwardTables, units: int) -> ForwardTables:
    return ForwardTables(*(_unfold(table, units, 1) for table in tables))
