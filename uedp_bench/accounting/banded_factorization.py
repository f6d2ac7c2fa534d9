"""Rounds whose noise is correlated by a banded matrix (docs/proofs.md, section 13)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from uedp_bench.accounting.event_contract import Adjacency, Count, Event, Neighbours, PrivacyUnit
from uedp_bench.accounting.events import Gaussian, GroupRound


class BandedFactorization(Event):
    """All rounds of a training whose noise is correlated by a banded lower-triangular matrix.

    Round t releases the sum of unit vectors x_t plus `noise_multiplier` times row t of C^-1 Z,
    where Z has independent standard normal entries and C (rounds, rounds) is the lower-triangular
    Toeplitz matrix whose first column begins with `coefficients` and is 0 after them. A unit takes
    part in at most `participations` rounds, any two of them at least `separation` apart, and which
    they are does not depend on the data; everybody may know. `population` is the public number of
    units: where they are users, the largest spread of an entity is `population - 1`.
    """

    source: ClassVar[str] = (
        "Denisov et al. 2022 (arXiv:2202.08312), Choquette-Choo et al. 2023 (arXiv:2306.08153)"
    )
    draws_gaussian: ClassVar[bool] = True
    kind: Literal["banded-factorization"] = "banded-factorization"
    rounds: Count
    coefficients: tuple[float, ...] = Field(min_length=1, max_length=10_000)
    noise_multiplier: float = Field(ge=0.0)
    separation: Count
    participations: Count
    population: Count

    @field_validator("coefficients")
    @classmethod
    def _invertible(cls, coefficients: tuple[float, ...]) -> tuple[float, ...]:
        if not all(map(math.isfinite, coefficients)) or coefficients[0] <= 0.0:
            raise ValueError("coefficients are finite, and the first of them is above 0")
        return coefficients

    @property
    def gaussian_rounds(self) -> int:
        """See `Event.gaussian_rounds`."""
        return self.rounds

    @property
    def sensitivity(self) -> float:
        """Largest move of C X (Frobenius norm) if one unit comes or goes: see `sensitivity_of`."""
        return sensitivity_of(self.coefficients, self.rounds, self.separation, self.participations)

    def reach(self, neighbours: Neighbours) -> float:
        """Largest move of C X between neighbours.

        All of the group take part in the same rounds, and each moves as far as it may. One unit
        comes or goes. One that is replaced leaves its rounds, and another joins those of its own.
        Where the unit is a user with an entity, everybody else who mentions that entity changes
        from one vector to another.
        """
        moves = 2.0 if neighbours.adjacency == "replace-one" else 1.0
        others = min(neighbours.point.spread, self.population - 1)
        return (moves + 2.0 * others) * self.sensitivity

    def as_gaussian(self, neighbours: Neighbours) -> Gaussian:
        """One Gaussian mechanism of sensitivity 1 that is worth as much as all rounds."""
        return Gaussian(noise_multiplier=self.noise_multiplier / self.reach(neighbours))

    def refusal(self, adjacency: Adjacency) -> str:
        """Refuse bands that reach from one round of a unit to its next."""
        if len(self.coefficients) <= self.separation:
            return ""
        return (
            f"noise is correlated over {len(self.coefficients)} rounds, but rounds of one unit are "
            f"only known to be {self.separation} apart: nothing is proven of such columns"
        )

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """A user together with an entity may be added or removed, and not replaced."""
        if unit == "entity" or (unit == "user-entity" and adjacency != "add-or-remove"):
            return f"rounds of users with correlated noise do not speak of {unit} under {adjacency}"
        return ""

    def assumptions_of(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """The schedule, which takes the place of trusted sampling."""
        return (
            "the rounds in which a unit takes part do not depend on any data, and may be known to "
            "everybody: nothing rests on secret sampling",
        )

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about participation and correlated noise."""
        return (
            f"in {self.rounds:,} rounds, each {unit} takes part at most {self.participations:,} "
            f"times, at least {self.separation:,} rounds apart; sums of clipped vectors are "
            f"released with Gaussian noise that is correlated over {len(self.coefficients):,} "
            f"rounds, of {self.noise_multiplier:g} times the clip bound before it is correlated"
        )


WithCurve = GroupRound | BandedFactorization
"""Events whose epsilon is a curve over who else mentions the entity."""


def sensitivity_of(
    coefficients: Sequence[float], rounds: int, separation: int, participations: int
) -> float:
    """Sensitivity of a banded lower-triangular Toeplitz matrix with one row for each round.

    Where columns that far apart do not overlap, the squared norms of a unit's columns add up. They
    only fall towards the end, so that nothing exceeds the rounds 0, separation, 2 separation, ...
    (docs/proofs.md, section 13; Choquette-Choo et al. 2023, section 4).

    Args:
        coefficients: first entries of the first column; no more than `separation`.
        rounds: rows of the matrix.
        separation: least distance of two rounds of one unit.
        participations: most rounds of one unit.
    """
    starts = range(0, rounds, separation)[:participations]
    # Those that end with the last round are cut off; all others are alike.
    alike = len(range(0, max(rounds - len(coefficients) + 1, 0), separation)[:participations])
    cut = (coefficients[: rounds - start] for start in starts[alike:])
    squares = math.fsum(c * c for c in coefficients)
    return math.sqrt(math.fsum([alike * squares, *(c * c for column in cut for c in column)]))
