"""The loops over time of LSTM and CIFG recurrences, forward and backward, on preallocated tables.

Gates in order: forget, output, candidate, and (where not coupled) input. All tables have time as
their first dimension. Everything but the weights may have a further dimension of units after time
(of a state and a mask: as their first), and then the weights may have it too: so do users compute
side by side, each with its own weights. Nothing here has a gradient of its own: `recurrence` does.

A batch is padded to its longest row, and padding costs a recurrent network as much as words. With a
`Packing` the rows are put in the order of their lengths, and all tables, the inputs among them,
have one entry for each word, step after step: those of the first step, of all rows; then those of
the second, of all rows but the ones of one word; and so on (the layout of
`torch.nn.utils.rnn.PackedSequence`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from uedp_bench.models.fast.products import outer, product

LARGE = 2**20
"""Recurrent weights of a layer from which on rows are packed. Smaller layers compute as they always
did, to the last bit."""

FULL = 0.8
"""Words per place of the padded table up to which it pays to leave padding out."""


@dataclass(frozen=True)
class Packing:
    """Positions of the N words of a padded table (T, rows, ...).

    Attributes:
        rows: (rows,) numbers of the rows, from the longest to the shortest.
        counts: number of rows with a word at each step, up to the end of the longest row.
        places: (N,) place of each word in the table, its first two dimensions as one.
        ranks: (N,) places, among `rows`, of the row of each word.
        before: (N - rows of the first step,) places, among the N, of the words one step earlier.
        shape: T and rows of the table.
    """

    rows: Tensor
    counts: list[int]
    places: Tensor
    ranks: Tensor
    before: Tensor
    shape: tuple[int, int]

    def pack(self, table: Tensor) -> Tensor:
        """(N, width) words of a table (T, rows, width)."""
        return table.reshape(-1, table.shape[-1])[self.places]

    def unpack(self, words: Tensor) -> Tensor:
        """(T, rows, width) table of words (N, width); 0 where there are none."""
        table = words.new_zeros(self.shape[0] * self.shape[1], words.shape[-1])
        table[self.places] = words
        return table.view(*self.shape, -1)

    def in_order(self, values: Tensor) -> Tensor:
        """Values (rows, width) of the rows that have words, from the longest to the shortest."""
        return values[self.rows[: self.counts[0]]]

    def of_words(self, values: Tensor) -> Tensor:
        """(N, width) values, as `in_order` gives them, of the row of each word."""
        return values[self.ranks]

    def of_rows(self, values: Tensor) -> Tensor:
        """Values as `in_order` gives them, as those of all rows; 0 for rows without words."""
        by_row = values.new_zeros(len(self.rows), values.shape[-1])
        by_row[self.rows[: self.counts[0]]] = values
        return by_row

    def shifted(self, first: Tensor, words: Tensor) -> Tensor:
        """(N, width) values of one step earlier: `first` (`in_order`), then the words."""
        return torch.cat([first, words[self.before]])

    def steps(self, words: Tensor) -> tuple[Tensor, ...]:
        """Views of the words (N, width) of each step."""
        return torch.split(words, self.counts)


def packing(lengths: Tensor | None, inputs: Tensor, recurrent: Tensor) -> Packing | None:
    """Plan a packing; None where it would not pay.

    Args:
        lengths: (rows,) words of each row; None where they are unknown.
        inputs: (T, rows, ...) table; with a dimension of units nothing is packed.
        recurrent: recurrent weight.
    """
    if lengths is None or inputs.dim() != 3 or inputs.device.type != "cpu":
        return None
    if recurrent.dim() != 2 or recurrent.numel() < LARGE:
        return None
    steps, rows = inputs.shape[:2]
    words = int(lengths.sum())
    if not 0 < words <= FULL * steps * rows:
        return None
    order = torch.argsort(lengths, descending=True, stable=True)
    going_on = lengths[order] > torch.arange(int(lengths.max()))[:, None]
    step, rank = going_on.nonzero(as_tuple=True)
    counts = going_on.sum(dim=1)
    first = int(counts[0])
    before = torch.arange(first, words) - counts[step[first:] - 1]
    places = step * rows + order[rank]
    return Packing(order, counts.tolist(), places, rank, before, (steps, rows))


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


class Sequences(NamedTuple):
    """Inputs of a recurrent layer.

    Attributes:
        inputs: (T, rows, inputs) inputs of all time steps.
        state: state before the first.
        mask: (rows, outputs) multiplies the recurrent output at every step, or None.
        packed: packing of the words, or None; with it `inputs` is (N, inputs), and the rows of
            `state` and `mask` are in its order.
    """

    inputs: Tensor
    state: State
    mask: Tensor | None
    packed: Packing | None = None

    @classmethod
    def read(
        cls, inputs: Tensor, state: State, mask: Tensor | None, weights: CellWeights,
        lengths: Tensor | None,
    ) -> Sequences:  # fmt: skip
        """Sequences that are packed where `lengths` (rows,) are known and that pays."""
        packed = packing(lengths, inputs, weights.recurrent)
        if packed is None:
            return cls(inputs, state, mask)
        first = (packed.in_order(state[0]), packed.in_order(state[1]))
        mask = None if mask is None else packed.in_order(mask)
        return cls(packed.pack(inputs), first, mask, packed)

    def pack(self, table: Tensor) -> Tensor:
        """A table (T, rows, width) as the layer's own tables are."""
        return table if self.packed is None else self.packed.pack(table)

    def padded(self, table: Tensor) -> Tensor:
        """(T, rows, width) of a table of the layer's; 0 where there are no words."""
        return table if self.packed is None else self.packed.unpack(table)

    def of_rows(self, values: Tensor) -> Tensor:
        """Values of the rows of the state as those of all rows."""
        return values if self.packed is None else self.packed.of_rows(values)

    def steps(self, table: Tensor) -> tuple[Tensor, ...]:
        """Views of a table's time steps."""
        return table.unbind(0) if self.packed is None else self.packed.steps(table)

    def shifted(self, first: Tensor, table: Tensor) -> Tensor:
        """The table one step earlier, `first` before it."""
        if self.packed is None:
            return torch.cat([first[None], table[:-1]])
        return self.packed.shifted(first, table)

    def folded(self) -> Sequences:
        """Units and rows as one dimension."""
        state = (_folded(self.state[0]), _folded(self.state[1]))
        mask = None if self.mask is None else _folded(self.mask)
        return Sequences(_folded(self.inputs, 1), state, mask)


class ForwardTables(NamedTuple):
    """Tables of the loop over T time steps, which its gradient needs.

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
        state: gradient of the state before the first step.
    """

    gates: Tensor
    outputs: Tensor
    inputs: Tensor
    state: State


def forward_tables(sequences: Sequences, weights: CellWeights, *, coupled: bool) -> ForwardTables:
    """The loop over time, without a gradient.

    Args:
        sequences: inputs of the layer.
        weights: weights of the layer.
        coupled: see `recurrence`.
    """
    inputs, (seen, before), mask, packed = sequences
    if inputs.dim() == 4 and weights.input.dim() == 2:
        tables = forward_tables(sequences.folded(), weights, coupled=coupled)
        return ForwardTables(*(_unfold(table, inputs.shape[1], 1) for table in tables))
    units = weights.recurrent.shape[-2] // (3 if coupled else 4)
    # In the order of time: products of a step write to one block, or torch makes them one by one.
    gates = _products(inputs, weights.input, weights.bias).contiguous()
    cells = gates.new_empty(*gates.shape[:-1], units)
    squashed = torch.empty_like(cells)
    multiply_add = torch.baddbmm if inputs.dim() == 4 else torch.addmm
    recurrent_t = weights.recurrent.transpose(-1, -2)
    down = None if weights.projection is None else weights.projection.transpose(-1, -2)
    outputs = squashed.new_empty(*squashed.shape[:-1], weights.recurrent.shape[-1])
    hidden = None if down is None else cells.new_empty(before.shape)
    # Views of all time steps at once: a view made in the loop costs as much as a small product.
    views = (cells, squashed, outputs, gates, gates[..., : 2 * units])
    for cell, through, after, gate, both, forget, out, candidate, *rest in zip(
        *(sequences.steps(view) for view in (*views, *torch.split(gates, units, dim=-1))),
        strict=True,
    ):
        if packed is not None and len(gate) < len(seen):
            seen, before = seen[: len(gate)], before[: len(gate)]
            mask = None if mask is None else mask[: len(gate)]
            hidden = None if hidden is None else hidden[: len(gate)]
        if mask is not None:
            seen = seen * mask
        multiply_add(gate, seen, recurrent_t, out=gate)
        both.sigmoid_()
        candidate.tanh_()
        if coupled:
            torch.lerp(candidate, before, forget, out=cell)
        else:
            rest[0].sigmoid_()
            torch.mul(forget, before, out=cell).addcmul_(rest[0], candidate)
        before, seen = cell, after
        torch.tanh(cell, out=through)
        if hidden is None or down is None:
            torch.mul(out, through, out=seen)
        else:
            torch.matmul(torch.mul(out, through, out=hidden), down, out=seen)
    return ForwardTables(outputs, gates, cells, squashed)


def last_cells(tables: ForwardTables, sequences: Sequences) -> Tensor:
    """(rows, units) memory cells after the last step; those of before the first where rows end."""
    if sequences.packed is None:
        return tables.cells[-1].clone()
    return sequences.of_rows(sequences.state[1])


def seen_outputs(tables: ForwardTables, sequences: Sequences) -> Tensor:
    """(T, rows, outputs) recurrent outputs as the next step sees them, from the state on."""
    before = sequences.shifted(sequences.state[0], tables.outputs)
    if sequences.mask is None:
        return before
    return before * (
        sequences.mask if sequences.packed is None else sequences.packed.of_words(sequences.mask)
    )


def hidden_cells(tables: ForwardTables) -> Tensor:
    """(T, rows, units) what the projection is applied to."""
    units = tables.cells.shape[-1]
    return tables.gates[..., units : 2 * units] * tables.squashed


def backward_tables(
    gradient: Tensor,
    last_cells: Tensor | None,
    tables: ForwardTables,
    sequences: Sequences,
    weights: CellWeights,
) -> BackwardTables:
    """The loop back over time.

    Args:
        gradient: (T, rows, outputs) gradient of the outputs.
        last_cells: (rows, units) gradient of the last memory cells, None for 0; always None where
            rows are packed.
        tables: tables of `forward_tables`.
        sequences: inputs of the layer.
        weights: weights of the layer.
    """
    _, state, mask, packed = sequences
    if packed is not None and last_cells is not None:
        raise RuntimeError("the last state of rows of different lengths has no gradient")
    if gradient.dim() == 4 and weights.input.dim() == 2:
        units = gradient.shape[1]
        back = backward_tables(
            _folded(gradient, 1), None if last_cells is None else _folded(last_cells),
            ForwardTables(*(_folded(table, 1) for table in tables)), sequences.folded(), weights,
        )  # fmt: skip
        gates, outputs, inputs = (_unfold(part, units, 1) for part in back[:3])
        return BackwardTables(gates, outputs, inputs, (
            _unfold(back.state[0], units), _unfold(back.state[1], units)
        ))  # fmt: skip
    factors, through = _factors(tables, sequences), _through(tables)
    units = tables.cells.shape[-1]
    blocks = factors.view(*factors.shape[:-1], -1, units)
    # Blocks that the gradient of the cells multiplies: all gates but the second, the output gate.
    coupled = blocks.shape[-2] == 3
    of_cells = [blocks[..., ::2, :]] if coupled else [blocks[..., :1, :], blocks[..., 2:, :]]
    outputs = gradient.clone(memory_format=torch.contiguous_format)
    views = (outputs, through, tables.gates[..., :units], factors, blocks[..., 1, :], *of_cells)
    if packed is not None:
        carried = state[1].new_zeros(packed.counts[-1], units)
    else:
        carried = torch.zeros_like(state[1]) if last_cells is None else last_cells
    later: Tensor | None = None
    for output, factor, forget, gates, of_out, *others in reversed(
        list(zip(*(sequences.steps(view) for view in views), strict=True))
    ):
        if packed is not None and len(carried) < len(output):  # nothing comes back to rows that end
            carried = functional.pad(carried, (0, 0, 0, len(output) - len(carried)))
        if later is not None:
            _add_product(output, later, weights.recurrent, mask)
        hidden = output if weights.projection is None else output @ weights.projection
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
    slopes = torch.mul(tables.squashed, tables.squashed).neg_().add_(1.0)
    return slopes.mul_(tables.gates[..., units : 2 * units])


def _factors(tables: ForwardTables, sequences: Sequences) -> Tensor:
    """(T, rows, gates * units) derivatives of cells, or of hidden cells, by the gates' inputs."""
    units = tables.cells.shape[-1]
    forget, out, candidate, *rest = torch.split(tables.gates, units, dim=-1)
    factors = torch.empty_like(tables.gates)
    of_forget, of_out, of_candidate, *of_rest = torch.split(factors, units, dim=-1)
    before = sequences.shifted(sequences.state[1], tables.cells)
    _slope(out, of_out).mul_(tables.squashed)
    torch.mul(candidate, candidate, out=of_candidate).neg_().add_(1.0)
    if rest:
        _slope(forget, of_forget).mul_(before)
        of_candidate.mul_(rest[0])
        _slope(rest[0], of_rest[0]).mul_(candidate)
    else:
        _slope(forget, of_forget).mul_(before.sub_(candidate))
        of_candidate.addcmul_(of_candidate, forget, value=-1.0)
    return factors


def _slope(gate: Tensor, to: Tensor) -> Tensor:
    """The derivative of a sigmoid from its value."""
    return torch.mul(gate, gate, out=to).neg_().add_(gate)


def _add_product(to: Tensor, gates: Tensor, weight: Tensor, mask: Tensor | None) -> None:
    if to.dim() == 2 and len(gates) < len(to):  # packed: fewer rows go on later
        to = to[: len(gates)]
    if mask is not None:
        to.addcmul_(gates @ weight, mask[: len(to)])
    elif to.dim() == 2:
        to.addmm_(gates, weight)
    else:
        to.baddbmm_(gates, weight)


def weight_gradients(
    tables: ForwardTables, back: BackwardTables, sequences: Sequences, weights: CellWeights
) -> CellWeights:
    """Gradients of the weights, each one product over all time steps.

    Where there is a dimension of units, each has a gradient of its own.
    """
    gates = back.gates
    down = None
    if weights.projection is not None:
        down = _outers(back.outputs, hidden_cells(tables))
    return CellWeights(
        _outers(gates, sequences.inputs),
        _outers(gates, seen_outputs(tables, sequences)),
        gates.sum(dim=0) if gates.dim() == 2 else gates.sum(dim=(0, -2)),
        down,
    )


def _products(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(T, ..., rows, outputs) of x (T, ..., rows, inputs); not contiguous with units."""
    if x.dim() < 4:
        return product(x.reshape(-1, x.shape[-1]), weight, bias).view(*x.shape[:-1], -1)
    first = x.transpose(0, 1).reshape(x.shape[1], -1, x.shape[-1])
    weight_t = weight.transpose(-1, -2)
    outputs = (
        first @ weight_t if bias is None else torch.baddbmm(bias.unsqueeze(-2), first, weight_t)
    )
    return outputs.view(x.shape[1], x.shape[0], x.shape[2], -1).transpose(0, 1)


def _outers(gradients: Tensor, inputs: Tensor) -> Tensor:
    """(..., outputs, inputs) sums over time and rows of outer products."""
    if inputs.dim() < 4:
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
