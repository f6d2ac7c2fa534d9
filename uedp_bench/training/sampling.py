"""Samplers of the units of a round. Each reports the privacy event of what it really did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from uedp_bench.accounting.events import FixedSizeSampled, Gaussian, PoissonSampled
from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError

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
