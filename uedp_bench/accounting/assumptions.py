"""Assumptions of every proven guarantee, beside the conditions of its own analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from uedp_bench.accounting.event_contract import Adjacency, PrivacyUnit


@dataclass(frozen=True)
class Condition:
    """Condition of guarantees beside their events: of the data, or of public choices about units.

    Attributes:
        text: the condition; where it is broken, what breaks it.
        units: units whose guarantees need it; None for all units but a computation.
        adjacency: adjacency whose guarantees need it; None for any.
        broken: True if nothing is proven; else the guarantee states it among its assumptions.
    """

    text: str
    units: frozenset[PrivacyUnit] | None = None
    adjacency: Adjacency | None = None
    broken: bool = False

    def concerns(self, unit: PrivacyUnit, adjacency: Adjacency) -> bool:
        """True if a guarantee of this unit and adjacency needs it."""
        if self.adjacency not in (None, adjacency):
            return False
        return unit != "computation" if self.units is None else unit in self.units


NoiseSource = Literal["seed", "os"]
"""Source of the numbers that protect: the run's seed, or the operating system."""

REAL_VALUED = (
    "noise and arithmetic are those of real numbers: rounding in floating point is not analysed"
)

FRESH = "every run draws fresh randomness, independent of all others on the same data"

SECRET: dict[NoiseSource, str] = {
    "seed": "the seed stays secret: whoever has it can draw the noise again and take it off",
    "os": "the randomness is that of the operating system's generator, and nobody has recorded it",
}
"""Assumption by noise source that nobody can draw the noise again."""

_ALWAYS = (REAL_VALUED, FRESH, *SECRET.values())


def general(source: NoiseSource = "seed", notion: str = "dp") -> tuple[str, ...]:
    """The assumptions of every proven guarantee.

    Args:
        source: source of the numbers that protect.
        notion: meaning of epsilon; a simulation computes with integers, not with real numbers.
    """
    always = (FRESH, SECRET[source])
    return always if notion == "simulation" else (REAL_VALUED, *always)


def missing(
    stated: Sequence[str], source: NoiseSource = "seed", notion: str = "dp"
) -> tuple[str, ...]:
    """General assumptions that a guarantee does not state."""
    return tuple(text for text in general(source, notion) if text not in stated)


def states_none(stated: Sequence[str]) -> bool:
    """True if no general assumption is stated, as in results of older versions."""
    return not any(text in stated for text in _ALWAYS)
