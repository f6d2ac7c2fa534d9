"""Lower bounds of audits against the scores of canaries that they follow from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from uedp_bench.contracts.results import LowerBound, Result
from uedp_bench.leaderboard.validation.components import Named, components
from uedp_bench.leaderboard.validation.proofs import close
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, shown

AUDIT = "audit"
MOST_SCORES = 10_000
"""Scores of a side from which bounds are computed again."""


class _Sides(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    members: tuple[float, ...] = Field(min_length=1, max_length=MOST_SCORES)
    nonmembers: tuple[float, ...] = Field(min_length=1, max_length=MOST_SCORES)


class _Retrainings(_Sides):
    included: tuple[bool, ...] | None = None

    @model_validator(mode="after")
    def _coin_for_each(self) -> _Retrainings:
        sides = (len(self.members), len(self.nonmembers))
        coins = self.included
        if coins is not None and (sum(coins), len(coins) - sum(coins)) != sides:
            raise ValueError("included has not one coin for each score of members and nonmembers")
        return self


class _Details(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    canaries: int
    included: int
    delta: float = Field(gt=0.0, lt=1.0)
    scores: _Sides
    retrainings: _Retrainings | None = None


def check_audit(result: Result) -> Iterator[Problem]:
    """Problems where bounds or metrics of an audit are not what its scores give.

    An audit that left no scores behind (the release lacked what it needs) has no metrics either.
    """
    metrics = result.leakage.get(AUDIT, {})
    at = [n for n, bound in enumerate(result.lower_bounds) if bound.attack == AUDIT]
    named = next((one for one in components(result.spec) if _is_audit(one)), None)
    if named is None or not (metrics or at):
        return
    try:
        details = _Details.model_validate(result.details.get(AUDIT, {}))
    except ValidationError as wrong:
        for each in wrong.errors(include_url=False, include_context=False)[:5]:
            yield error(place(("details", AUDIT, *each["loc"])), each["msg"])
        return
    yield from _counts(result, details, named)
    if named.component is None:
        yield note("lower_bounds", "not computed again: no such audit is installed")
        return
    again = _again(result, details, named, at)
    metrics_again = _metrics(details, again)
    if _version(result) != named.component.version:
        yield note("lower_bounds", "those with assumptions are not computed again: the audit is "
                   "of another version")  # fmt: skip
        at = [number for number in at if not result.lower_bounds[number].assumptions]
        again = tuple(_older(bound) for bound in again if not bound.assumptions)
        metrics_again = {name: metrics_again[name] for name in ("epsilon_lower_bound", "auc")}
    if len(at) != len(again):
        what = f"has {len(at)} bounds of the audit, and its scores give {len(again)}"
        yield error("lower_bounds", what)
        return
    for number, expected in zip(at, again, strict=True):
        yield from _same(f"lower_bounds.{number}", result.lower_bounds[number], expected)
    for name, value in metrics_again.items():
        where = f"leakage.{AUDIT}.{name}"
        if name not in metrics:
            yield error(where, "is missing: the audit measures it")
        elif not _near(metrics[name].value, value):
            what = f"{shown(metrics[name].value)} is not the {shown(value)} of its scores"
            yield error(f"{where}.value", what)


def _older(bound: LowerBound) -> LowerBound:
    """The bound as the first version gives it: the coins' bound is the same, and stands alone."""
    return bound.model_copy(update={"evidence": None})


def _is_audit(named: Named) -> bool:
    return named.where.startswith("spec.attacks") and named.ref.name == AUDIT


def _version(result: Result) -> Any:
    """The version of the audit that a result records; None where it does not."""
    recorded = result.provenance.get("identity")
    parts = recorded.get("attacks", []) if isinstance(recorded, dict) else []
    return next((part[1] for part in parts if part[:1] == [AUDIT]), None)


def _counts(result: Result, details: _Details, named: Named) -> Iterator[Problem]:
    members, others = len(details.scores.members), len(details.scores.nonmembers)
    for name, value in (("canaries", members + others), ("included", members)):
        if getattr(details, name) != value:
            what = f"{getattr(details, name)} is not the number of its scores, {value}"
            yield error(f"details.{AUDIT}.{name}", what)
    early = named.ref.params.get("stop") == "early"
    if details.retrainings is not None and early != (details.retrainings.included is not None):
        what = "must have the coins of retrainings that stop early, and of no others"
        yield error(f"details.{AUDIT}.retrainings.included", what)
    wanted = named.ref.params.get("delta")
    if details.delta != (result.spec.delta if wanted is None else wanted):
        what = f"{shown(details.delta)} is not the delta that the spec asks for"
        yield error(f"details.{AUDIT}.delta", what)


def _sides(sides: _Sides) -> Any:
    import numpy as np

    from uedp_bench.bounds.audits import Sides

    return Sides(np.array(sides.members), np.array(sides.nonmembers))


def _trials(retrainings: _Retrainings) -> Any:
    import numpy as np

    from uedp_bench.bounds.audits import Trials

    if retrainings.included is None:
        return Trials(_sides(retrainings))
    included = np.array(retrainings.included)
    scores = np.empty(len(included))
    scores[included], scores[~included] = retrainings.members, retrainings.nonmembers
    return Trials.in_order(scores, included, early=True)


def _again(
    result: Result, details: _Details, named: Named, at: list[int]
) -> tuple[LowerBound, ...]:
    """The bounds that the scores give, in the order in which the audit gives them."""
    from uedp_bench.bounds.audits import Target, lower_bounds

    params: Any = named.component.create(named.ref.params).params if named.component else None
    if params.canary == "entity":
        spread = params.spread or 0
        targets = [Target("user-entity", "add-or-remove", spread, spread * params.sentences)]
    else:
        targets = [Target("user", params.adjacency)]
        # Whether a canary is one row is known to the run alone; a bound for records follows it.
        if any(result.lower_bounds[number].unit == "record" for number in at):
            targets.append(Target("record", params.adjacency))
    trials = None if details.retrainings is None else _trials(details.retrainings)
    normal = params.canary == "update"
    return lower_bounds(_sides(details.scores), trials, targets, details.delta, normal=normal)


def _same(where: str, stored: LowerBound, again: LowerBound) -> Iterator[Problem]:
    for name in ("unit", "adjacency", "delta", "spread", "sentences", "confidence", "assumptions"):
        stored_value, own_value = getattr(stored, name), getattr(again, name)
        if stored_value != own_value:
            what = f"{shown(stored_value)} is not the {shown(own_value)} that the audit bounds"
            yield error(f"{where}.{name}", what)
    for name in ("epsilon", "strict_epsilon"):
        stored_value, own_value = getattr(stored, name), getattr(again, name)
        if (stored_value is None) != (own_value is None) or (
            stored_value is not None and not _near(stored_value, own_value)
        ):
            what = f"{shown(stored_value)} is not the {shown(own_value)} that its scores give"
            yield error(f"{where}.{name}", what)
    if stored.evidence != again.evidence:
        yield error(f"{where}.evidence", "is not what its scores give")


def _near(a: float, b: float) -> bool:
    """Bounds are solved for to a tolerance, near zero too."""
    return close(a, b) or math.isclose(a, b, abs_tol=1e-3)


def _metrics(details: _Details, bounds: tuple[LowerBound, ...]) -> dict[str, float]:
    from uedp_bench.bounds.lower_bounds import epsilon_of_auc
    from uedp_bench.statistics.roc import auc

    areas = {"auc": auc(details.scores.members, details.scores.nonmembers)}
    if details.retrainings is not None:
        areas["auc_retrainings"] = auc(details.retrainings.members, details.retrainings.nonmembers)
    named = {f"epsilon_{b.method.replace('-', '_')}": b.epsilon for b in bounds if b.assumptions}
    of_auc = {f"epsilon_of_{name}": epsilon_of_auc(x, details.delta) for name, x in areas.items()}
    return {"epsilon_lower_bound": bounds[0].epsilon, **areas, **named, **of_auc}
