"""Sampling of a round: its units, with the privacy event of their draw, and their rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from uedp_bench.accounting.events import FixedSizeSampled, Gaussian, PoissonSampled
from uedp_bench.contracts.learner import row_seeds
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.randomness import Stream

Sampled = Gaussian | PoissonSampled | FixedSizeSampled
"""Privacy event of a round: the sampling of its units, and the noise that hides them."""

RoundSampling = Callable[[Gaussian], Sampled]
"""Sampling of a round: builds the event of the round from its noise."""


class TakingPart(NamedTuple):
    """Units of one round.

    Attributes:
        units: (units taking part,) positions; may be empty.
        sampling: sampling that drew them.
    """

    units: IntArray
    sampling: RoundSampling


class Sampler(Protocol):
    """Policy: draws the units of a round."""

    def draw(self, rng: np.random.Generator) -> TakingPart:
        """The units of one round."""
        ...

    def event(self, gaussian: Gaussian) -> Sampled:
        """The event of a round that samples as planned and then adds noise."""
        ...


@dataclass(frozen=True)
class PoissonSampler:
    """Every one of `population` units takes part independently with probability `rate`.

    Formal guarantees: coins are independent across units and rounds; the number taking part is
    Binomial(population, rate), zero included.
    """

    population: int
    rate: float

    def draw(self, rng: np.random.Generator) -> TakingPart:
        """See `Sampler.draw`."""
        return TakingPart(np.flatnonzero(rng.random(self.population) < self.rate), self.event)

    def event(self, gaussian: Gaussian) -> PoissonSampled:
        """See `Sampler.event`."""
        return PoissonSampled(rate=self.rate, event=gaussian)


@dataclass(frozen=True)
class FixedSizeSampler:
    """Exactly `sample` of `population` units, uniformly, without replacement, afresh each round.

    Raises:
        InputError: if a round needs more units than there are.
    """

    population: int
    sample: int

    def __post_init__(self) -> None:
        if self.sample > self.population:
            raise InputError(  # how many there are is private
                f"a round needs {self.sample} users, but there are fewer in training; choose fewer"
            )

    def draw(self, rng: np.random.Generator) -> TakingPart:
        """See `Sampler.draw`."""
        chosen = rng.choice(self.population, size=self.sample, replace=False)
        return TakingPart(np.sort(chosen), self.event)

    def event(self, gaussian: Gaussian) -> FixedSizeSampled:
        """See `Sampler.event`."""
        return FixedSizeSampled(population=self.population, sample=self.sample, event=gaussian)


@dataclass(frozen=True)
class Participation:
    """Public facts about the rounds of one unit, independent of data.

    It takes the place of a sampling. A round by itself is then a sum in which
    any unit may be: its event is the noise alone.

    Attributes:
        separation: any two rounds of a unit are at least so far apart; 1 are neighbours.
        participations: rounds of a unit, at most.
        population: public number of units.
    """

    separation: int
    participations: int
    population: int

    def __call__(self, gaussian: Gaussian) -> Gaussian:
        """Event of one round by itself."""
        return gaussian


class CyclicCohorts:
    """Every unit belongs to one cohort; the cohorts take part in turns, in one order.

    Which cohort a unit belongs to must not depend on the data of others, so that nobody moves when
    somebody comes or goes: each draws its own.

    Args:
        cohort_of: (units,) in [0, cohorts).
        cohorts: number of cohorts.
    """

    def __init__(self, cohort_of: IntArray, cohorts: int) -> None:
        if len(cohort_of) and not 0 <= cohort_of.min() <= cohort_of.max() < cohorts:
            raise PrivacyError(f"a unit's cohort is not one of 0 to {cohorts - 1}")
        self._cohort_of, self._cohorts, self._turn = cohort_of, cohorts, 0

    def draw(self, rng: np.random.Generator) -> TakingPart:
        """See `Sampler.draw`: the next cohort; nothing is drawn."""
        units = np.flatnonzero(self._cohort_of == self._turn % self._cohorts)
        self._turn += 1
        return TakingPart(units, self.event)

    def event(self, gaussian: Gaussian) -> Gaussian:
        """See `Sampler.event`: any unit may be in any round."""
        return gaussian


class Guarded:
    """Holds any sampler to a schedule: a round that would break it is refused before it runs.

    What it tells is what it has enforced, and not what the sampler says of itself.

    Args:
        sampler: sampler of the units that take part.
        schedule: schedule that no unit may exceed.
        units: number of units.
    """

    def __init__(self, sampler: Sampler, schedule: Participation, units: int) -> None:
        self._sampler, self._schedule, self._turn = sampler, schedule, 0
        self._last = np.full(units, -schedule.separation, dtype=np.int64)
        self._times = np.zeros(units, dtype=np.int64)

    def draw(self, rng: np.random.Generator) -> TakingPart:
        """See `Sampler.draw`.

        Raises:
            PrivacyError: if a unit would take part twice, too soon after its last round, or once
                more than it may.
        """
        units = self._sampler.draw(rng).units
        schedule, turn = self._schedule, self._turn
        if len(np.unique(units)) < len(units):
            raise PrivacyError(f"round {turn}: a unit takes part twice")
        if (turn - self._last[units] < schedule.separation).any():
            raise PrivacyError(
                f"round {turn}: a unit takes part less than {schedule.separation} rounds after its "
                "last; correlated noise is only proven for units that stay that far apart"
            )
        self._last[units] = turn
        self._times[units] += 1
        if (self._times[units] > schedule.participations).any():
            raise PrivacyError(
                f"round {turn}: a unit takes part more than {schedule.participations} times"
            )
        self._turn += 1
        return TakingPart(units, schedule)

    def event(self, gaussian: Gaussian) -> Sampled:
        """See `Sampler.event`."""
        return self._schedule(gaussian)


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
