"""Units and rows of a round: all that is random about them, drawn at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from uedp_bench.contracts.learner import row_seeds
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.randomness.streams import Stream


class Place(NamedTuple):
    """A unit that draws for itself: a client that samples its rows and adds its own noise.

    Attributes:
        number: number of the unit.
        streams: secret, of this unit and this round alone.
    """

    number: int
    streams: Stream


RowWeights = Callable[[np.random.Generator], FloatArray]
"""Draws the (rows,) weights of a round; rows of weight 0 are not used."""


class Cohort(NamedTuple):
    """The rows of some units, padded: `rows` and `weights` (units, rows), weight 0 for padding.

    A unit is padded with its own first row: what it sends depends on its own data alone, even
    where a loss is not finite and no weight can silence it.

    `keys` (epochs, units, rows) decide the order of a unit's rows in each epoch, None where one
    step sees every row; `seeds` (epochs, units, rows) are those of their dropout. Both are drawn
    for all units of a round at once: which of them train side by side decides nothing.

    `places` are there where units draw for themselves. Such a unit may have no row at all: what it
    sends must not tell. Its padding is row 0 of the corpus, and nobody reads it.
    """

    rows: IntArray
    weights: FloatArray
    keys: FloatArray | None = None
    seeds: IntArray | None = None
    places: tuple[Place, ...] | None = None

    @property
    def seeds_of_rows(self) -> IntArray:
        """(epochs, units, rows).

        Raises:
            RuntimeError: if none were drawn.
        """
        if self.seeds is None:
            raise RuntimeError("a cohort needs seeds for its rows: call drawn()")
        return self.seeds

    @staticmethod
    def build(owner: IntArray, rows: IntArray, weights: FloatArray, units: int) -> Cohort:
        """Cohort of (unit position, row, weight) triples sorted by unit."""
        counts = np.bincount(owner, minlength=units)
        width = max(int(counts.max(initial=0)), 1)
        starts = np.cumsum(counts) - counts
        column = np.arange(len(owner)) - np.repeat(starts, counts)
        first = np.append(rows, 0)[starts]
        first[counts == 0] = 0
        padded = np.repeat(first[:, None], width, axis=1)
        padded[owner, column] = rows
        weight = np.zeros((units, width))
        weight[owner, column] = weights
        return Cohort(padded, weight)

    def take(self, units: IntArray) -> Cohort:
        """Some of the units, with no more padding than they need."""
        weights = self.weights[units]
        width = max(int(np.max((weights > 0).sum(axis=1), initial=0)), 1)
        keys = None if self.keys is None else self.keys[:, units, :width]
        seeds = self.seeds_of_rows[:, units, :width]
        places = None if self.places is None else tuple(self.places[at] for at in units.tolist())
        return Cohort(self.rows[units, :width], weights[:, :width], keys, seeds, places)

    def drawn(
        self,
        epochs: int,
        batch_size: int | None,
        order: np.random.Generator,
        dropout: np.random.Generator,
    ) -> Cohort:
        """Add a seed for each row, and an order for each epoch if batches are smaller."""
        shape = (epochs, *self.rows.shape)
        cohort = self._replace(seeds=row_seeds(dropout, shape))
        if batch_size is None or batch_size >= self.rows.shape[1]:
            return cohort
        return cohort._replace(keys=order.random(shape))
