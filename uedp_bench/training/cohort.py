"""Units and rows of a round: all that is random about them, drawn at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.contracts.learner import row_seeds
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.randomness.streams import Stream

if TYPE_CHECKING:
    from uedp_bench.training.federation import Federation


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


def draw_cohort(
    federation: Federation, taking_part: IntArray, round_stream: Stream, step: int = 0
) -> tuple[Cohort, FloatArray]:
    """Draw the rows of units that take part and have rows to use, and their unit weights.

    Units that draw for themselves stay with or without rows. All else that is random
    about the local work of a round is drawn as well, for all of its units at once: which of them
    compute side by side, and where, decides nothing.

    Args:
        federation: federation of the units.
        taking_part: (units,) positions of units that take part.
        round_stream: secret streams of the round.
        step: number of the round, for rows that only one round uses.
    """
    rng = round_stream.rng("rows")
    owner, rows = federation.units.take(taking_part)
    weights = np.ones(len(rows))
    if federation.row_weights is not None:
        weights = federation.row_weights(rng)[rows]
    keep = weights > 0
    if federation.round_of_row is not None:
        keep &= federation.round_of_row[rows] == step
    owner, rows, weights = owner[keep], rows[keep], weights[keep]
    if federation.rows_per_unit is not None:
        order = np.lexsort((rng.random(len(owner)), owner))
        counts = np.bincount(owner, minlength=len(taking_part))
        rank = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = np.sort(order[rank < federation.rows_per_unit])
        owner, rows, weights = owner[chosen], rows[chosen], weights[chosen]
    present, position = np.unique(owner, return_inverse=True)
    places = None
    if federation.own_draws:
        present, position = np.arange(len(taking_part)), owner
        places = tuple(
            Place(unit, round_stream.child("unit", unit)) for unit in taking_part.tolist()
        )
    built = Cohort.build(position, rows, weights, len(present))._replace(places=places)
    local = federation.local
    cohort = built.drawn(local.epochs, local.batch_size, rng, round_stream.rng("dropout"))
    of_unit = np.ones(len(present))
    if federation.unit_weights is not None:
        of_unit = federation.unit_weights[taking_part[present]]
    return cohort, of_unit
