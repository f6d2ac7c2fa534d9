"""Epsilon as a parameter: the noise is the least that proves it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import Field, model_validator

from uedp_bench.accounting.ledger import proven_at
from uedp_bench.accounting.noise_search import at_least, smallest_noise
from uedp_bench.api import CorpusStats, Events, InputError, Params, TrainingMechanism, equals
from uedp_bench.api.events import Protected

DELTA = 1e-5
"""Delta of a target outside of runs, where none is given."""


class TargetParams(Params):
    """Noise, or the epsilon that chooses it."""

    epsilon: float | None = Field(
        default=None, gt=0,
        description="epsilon that must be proven for the mechanism's own unit; the noise is then "
        "the smallest that does, in place of noise_multiplier",
        exclude_if=equals(None),
    )  # fmt: skip
    delta: float | None = Field(
        default=None, gt=0, lt=1,
        description="delta of this epsilon; default: that of the run",
        exclude_if=equals(None),
    )  # fmt: skip
    noise_multiplier: float | None = Field(default=1.0, ge=0, description="noise over the bound")

    @model_validator(mode="before")
    @classmethod
    def _epsilon_takes_the_place_of_noise(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if values.get("epsilon") is not None:
            return {"noise_multiplier": None, **values}
        return {name: value for name, value in values.items() if name != "delta"}

    @model_validator(mode="after")
    def _one_decides(self) -> TargetParams:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError(
                f"epsilon is {self.epsilon} and noise_multiplier {self.noise_multiplier}; give one "
                "of them, and null for the other. For lists of both, list the mechanism twice: "
                "once with epsilon, once with noise_multiplier"
            )
        return self


P = TypeVar("P", bound=TargetParams)


class TargetMechanism(TrainingMechanism[P]):
    """A mechanism whose noise is given, or chosen for a target epsilon from public sizes."""

    takes_delta = True

    @abstractmethod
    def planned(self, stats: CorpusStats, noise: float) -> Events:
        """Events at this noise multiplier, whatever the parameters say of it."""

    def noise(self, stats: CorpusStats) -> float:
        """The noise multiplier: as given, or the smallest that proves `epsilon` at `delta`.

        Rounded up to five digits.

        Raises:
            InputError: if no noise proves it.
        """
        p = self.params
        if p.noise_multiplier is not None:
            return p.noise_multiplier
        if p.epsilon is None:  # the parameters refuse it
            raise TypeError("neither noise nor a target epsilon")
        events, delta = self.planned(stats, 1.0), DELTA if p.delta is None else p.delta
        try:
            return _least(_Target(events, p.epsilon, delta, lambda z: self.planned(stats, z)))
        except InputError:
            raise InputError(
                f"{self.name}.epsilon is {p.epsilon:g}, but no noise proves it at delta "
                f"{delta:g}; choose a larger epsilon, or fewer rounds"
            ) from None


@dataclass(frozen=True)
class _Target:
    """Key of a search: the events at noise 1 stand for sizes and parameters."""

    events: Events
    epsilon: float
    delta: float
    planned: Callable[[float], Events] = field(compare=False)


@lru_cache(maxsize=256)
def _least(target: _Target) -> float:
    first = target.events[0]

    def epsilon_of(noise: float) -> float:
        return proven_at(
            target.planned(noise),
            unit=first.unit,
            adjacency=first.adjacency,
            delta=target.delta,
            point=Protected(spread=0),
        )

    return at_least(smallest_noise(epsilon_of, target.epsilon))
