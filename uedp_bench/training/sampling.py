"""Who takes part in a round. Each sampler knows the privacy event of what it really does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from uedp_bench.accounting.events import FixedSizeSampled, Gaussian, PoissonSampled
from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError


class Sampler(Protocol):
    """Draws the units of a round."""

    def draw(self, rng: np.random.Generator) -> IntArray:
        """Positions (units taking part,) of the units of one round; may be empty."""
        ...

    def event(self, gaussian: Gaussian) -> PoissonSampled | FixedSizeSampled:
        """The event of one round that samples like this and then adds noise."""
        ...


@dataclass(frozen=True)
class PoissonSampler:
    """Every one of `population` units takes part independently with probability `rate`.

    Formal guarantees: coins are independent across units and rounds; the number taking part is
    Binomial(population, rate), zero included.
    """

    population: int
    rate: float

    def draw(self, rng: np.random.Generator) -> IntArray:
        """See `Sampler.draw`."""
        return np.flatnonzero(rng.random(self.population) < self.rate)

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

    def draw(self, rng: np.random.Generator) -> IntArray:
        """See `Sampler.draw`."""
        return np.sort(rng.choice(self.population, size=self.sample, replace=False))

    def event(self, gaussian: Gaussian) -> FixedSizeSampled:
        """See `Sampler.event`."""
        return FixedSizeSampled(population=self.population, sample=self.sample, event=gaussian)
