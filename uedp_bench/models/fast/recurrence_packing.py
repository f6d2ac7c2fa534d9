"""Rows of different lengths side by side: a time step computes on the rows that still go on.

A batch is padded to its longest row, and padding costs a recurrent network as much as words. Here
the rows are put in the order of their lengths, and all tables have one entry for each word, step
after step: those of the first step, of all rows; then those of the second, of all rows but the
ones of one word; and so on (the layout of `torch.nn.utils.rnn.PackedSequence`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
