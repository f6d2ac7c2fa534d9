"""Guarantees and lower bounds of runs that differ in the seed only: those that hold for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.bounds.consistency import STRICT_ERROR
from uedp_bench.contracts.results import LowerBound


def worst_guarantees(runs: Sequence[Sequence[Guarantee]]) -> tuple[Guarantee, ...]:
    """The largest epsilon, then the largest delta, of any run, for each kind of guarantee.

    A proof, or what is stated, that some run does not have is refused.
    """
    kept: dict[tuple[str, ...], Guarantee] = {}
    for g in (guarantee for run in runs for guarantee in run):
        key = (g.kind, g.notion, g.unit, g.adjacency, g.accountant, g.source)
        if key not in kept or _weight(g) > _weight(kept[key]):
            kept[key] = g
    of_all = [{_protects(g) for g in run if g.kind != "claimed"} for run in runs]
    without = {_protects(g) for g in kept.values() if math.isinf(g.epsilon)}
    out: dict[tuple[Any, ...], Guarantee] = {}
    for g in kept.values():
        if g.kind != "claimed" and math.isfinite(g.epsilon):
            if _protects(g) in without:
                continue
            have = sum(_protects(g) in proven for proven in of_all)
            if have < len(runs):
                g = _missing(g, f"{g.kind} of {have} of {len(runs)} seeds only")
        out[(g.kind, g.notion, g.unit, g.adjacency, g.accountant, g.source)] = g
    return tuple(out.values())


def _protects(guarantee: Guarantee) -> tuple[str, str, str]:
    return guarantee.kind, guarantee.unit, guarantee.adjacency


def _missing(guarantee: Guarantee, reason: str) -> Guarantee:
    """Takes the place of a proof that some run does not have."""
    return Guarantee(
        kind=guarantee.kind, notion="none", unit=guarantee.unit, adjacency=guarantee.adjacency,
        epsilon=math.inf, delta=guarantee.delta, accountant="none", status="refused", reason=reason,
    )  # fmt: skip


def _weight(guarantee: Guarantee) -> tuple[bool, float, float]:
    return guarantee.status == "refuted", guarantee.epsilon, guarantee.delta


def same_point(bound: LowerBound) -> tuple[Any, ...]:
    """A key of the guarantees that a bound is about, without their delta."""
    return bound.unit, bound.adjacency, bound.spread, bound.sentences


def highest_bounds(bounds: Sequence[LowerBound]) -> tuple[LowerBound, ...]:
    """One bound for each epsilon that is bounded: see `_combined`."""
    groups: dict[tuple[Any, ...], list[LowerBound]] = {}
    for bound in bounds:
        groups.setdefault((*same_point(bound), bound.delta), []).append(bound)
    return tuple(_combined(group) for group in groups.values())


def _combined(bounds: Sequence[LowerBound]) -> LowerBound:
    """The largest of several bounds on one epsilon; the errors of all of them add up.

    Bounds that rest on assumptions count only where no other does. Of so many that little
    confidence is left, the largest of the strict bounds; where not all have one, the first bound,
    which nobody chose by its value.
    """
    bounds = [bound for bound in bounds if not bound.assumptions] or bounds
    left = 1.0 - sum(1.0 - bound.confidence for bound in bounds)
    strict = [bound.strict_epsilon for bound in bounds if bound.strict_epsilon is not None]
    highest = max(bounds, key=lambda bound: bound.epsilon)
    most = max(strict, default=None)
    if left >= _LEAST_CONFIDENCE:
        return highest.model_copy(update={"confidence": round(left, 9), "strict_epsilon": most})
    if len(strict) < len(bounds):
        return bounds[0]
    loudest = max(bounds, key=lambda bound: bound.strict_epsilon or 0.0)
    surely = 1.0 - STRICT_ERROR * len(bounds)
    return loudest.model_copy(update={"epsilon": most, "confidence": surely})


_LEAST_CONFIDENCE = 0.8
