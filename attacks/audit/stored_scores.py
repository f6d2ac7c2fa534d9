"""Bounds and metrics of a stored audit, compared with those that its scores give."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from uedp_bench.api import Estimate, LowerBound, StoredLeakage
from uedp_bench.bounds.audits import Sides, Trials
from uedp_bench.errors import shown

MOST_SCORES = 10_000
"""Scores of a side from which bounds are computed again."""

_SOLVED = ("epsilon", "strict_epsilon")
_NAMES = ("method", "attack")
"""Fields of bounds that are numbers solved for, and fields that name their origin."""


class _Scores(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    members: tuple[float, ...] = Field(min_length=1, max_length=MOST_SCORES)
    nonmembers: tuple[float, ...] = Field(min_length=1, max_length=MOST_SCORES)

    def sides(self) -> Sides:
        return Sides(np.array(self.members), np.array(self.nonmembers))


class _Retrainings(_Scores):
    included: tuple[bool, ...] | None = None

    @model_validator(mode="after")
    def _coin_for_each(self) -> _Retrainings:
        sides = (len(self.members), len(self.nonmembers))
        coins = self.included
        if coins is not None and (sum(coins), len(coins) - sum(coins)) != sides:
            raise ValueError("included has not one coin for each score of members and nonmembers")
        return self

    def trials(self) -> Trials:
        if self.included is None:
            return Trials(self.sides())
        included = np.array(self.included)
        scores = np.empty(len(included))
        scores[included], scores[~included] = self.members, self.nonmembers
        return Trials.in_order(scores, included, early=True)


class StoredAudit(BaseModel):
    """Scores and counts in the details of a stored audit."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    canaries: int
    included: int
    delta: float = Field(gt=0.0, lt=1.0)
    scores: _Scores
    retrainings: _Retrainings | None = None

    def faults(self, *, delta: float, early: bool) -> Iterator[tuple[str, str]]:
        """Yield places and errors where counts, coins or delta are not those of the run.

        Args:
            delta: delta that the spec asks for.
            early: True if retrainings may stop early.
        """
        members, others = len(self.scores.members), len(self.scores.nonmembers)
        for name, value in (("canaries", members + others), ("included", members)):
            if getattr(self, name) != value:
                what = f"{getattr(self, name)} is not the number of its scores, {value}"
                yield f"details.{name}", what
        if self.retrainings is not None and early != (self.retrainings.included is not None):
            what = "must have the coins of retrainings that stop early, and of no others"
            yield "details.retrainings.included", what
        if self.delta != delta:
            what = f"{shown(self.delta)} is not the delta that the spec asks for"
            yield "details.delta", what


def compare(
    stored: StoredLeakage, metrics: Mapping[str, Estimate], bounds: tuple[LowerBound, ...]
) -> Iterator[tuple[str, str]]:
    """Yield places and errors where a stored audit differs from what its scores give.

    Args:
        stored: metrics and bounds of the result.
        metrics: metrics computed again.
        bounds: bounds computed again, in the order in which the audit gives them.
    """
    if len(stored.lower_bounds) != len(bounds):
        what = f"has {len(stored.lower_bounds)} bounds of the audit, and its scores give "
        yield "lower_bounds", f"{what}{len(bounds)}"
        return
    for (number, bound), again in zip(stored.lower_bounds.items(), bounds, strict=True):
        for name, value in again:
            stored_value = getattr(bound, name)
            same = _near if name in _SOLVED else operator.eq
            if name not in _NAMES and not same(stored_value, value):
                what = f"{shown(stored_value)} is not the {shown(value)} that its scores give"
                yield f"lower_bounds.{number}.{name}", what
    for name, estimate in metrics.items():
        where = f"leakage.{name}"
        if name not in stored.metrics:
            yield where, "is missing: the audit measures it"
        elif not _near(value := stored.metrics[name].value, estimate.value):
            what = f"{shown(value)} is not the {shown(estimate.value)} of its scores"
            yield f"{where}.value", what


def _near(a: float | None, b: float | None) -> bool:
    """True if two numbers are equal up to the tolerance of what solves for them, near zero too."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3)
