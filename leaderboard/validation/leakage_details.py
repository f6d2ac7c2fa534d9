"""Leakage against the details that it is computed from: canaries, ranks and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.leaderboard.validation.ranges import SLACK, check_area
from uedp_bench.leaderboard.validation.report import Problem, error, place, shown
from uedp_bench.results import Estimate, Result

Points = list[tuple[float, float]]


class _Loose(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Canary(_Loose):
    kind: str
    rank: int
    exposure: float
    spread: int | None = None
    beam_search: bool | None = None
    layout: str | None = None
    copies: int | float | None = None
    occurrences: int = 0


class _Canaries(_Loose):
    canaries: tuple[_Canary, ...]


class _Score(_Loose):
    auc: Estimate
    auc_user: Estimate
    roc: Points


class _Membership(_Loose):
    main_score: str
    strongest_score: str
    scores: dict[str, _Score]
    roc_user: Points


def check_backing(result: Result) -> Iterator[Problem]:
    """Problems where numbers of attacks do not follow from what the file keeps of them.

    Attacks that left nothing behind (what they need was not there) have no metrics either.
    """
    for attack, (model, check) in _KNOWN.items():
        metrics = result.leakage.get(attack, {})
        if not metrics:
            continue
        try:
            details = model.model_validate(result.details.get(attack, {}))
        except ValidationError as wrong:
            for each in wrong.errors(include_url=False, include_context=False)[:5]:
                yield error(place(("details", attack, *each["loc"])), each["msg"])
            continue
        yield from check(metrics, details)


# ---------------------------------------------------------------------------- secret-sharer


def _canaries(metrics: Mapping[str, Estimate], details: _Canaries) -> Iterator[Problem]:
    limit = metrics.get("exposure_limit")
    if limit is not None:
        for at, canary in enumerate(details.canaries):
            bits = limit.value - math.log2(canary.rank) if canary.rank >= 1 else math.nan
            if not abs(canary.exposure - bits) <= SLACK:
                what = f"{shown(canary.exposure)} does not follow from rank {canary.rank}"
                yield error(f"details.secret-sharer.canaries.{at}.exposure", what)
    words = [canary for canary in details.canaries if canary.kind == "word"]
    names = [canary for canary in details.canaries if canary.kind != "word"]
    expected = {
        "exposure_mean": _mean(canary.exposure for canary in details.canaries),
        "exposure_entity": _mean(canary.exposure for canary in names),
        "extracted_random_sampling": _mean(canary.rank == 1 for canary in words),
        "extracted_beam_search": _mean(canary.beam_search is True for canary in words),
    }
    for spread in {canary.spread for canary in details.canaries} - {None}:
        these = (canary.exposure for canary in details.canaries if canary.spread == spread)
        expected[f"exposure_entity_spread_{spread}"] = _mean(these)
    gaps = [canary for canary in details.canaries if canary.layout is not None]
    expected["extracted_filling"] = _mean(each.rank == 1 for each in gaps if each.occurrences)
    for layout, copies in {(each.layout, each.copies) for each in gaps}:
        these = (each.exposure for each in gaps if (each.layout, each.copies) == (layout, copies))
        expected[f"exposure_{layout}_{copies}"] = _mean(these)
    for name, value in expected.items():
        if name in metrics and value is not None:
            yield from _same("secret-sharer", name, metrics[name].value, value, "its canaries")


def _mean(values: Iterator[float] | Any) -> float | None:
    found = [float(value) for value in values]
    return math.fsum(found) / len(found) if found else None


def _same(attack: str, name: str, value: float, expected: float, of: str) -> Iterator[Problem]:
    if not math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-9):
        what = f"{shown(value)} is not the {shown(expected)} of {of}"
        yield error(f"leakage.{attack}.{name}.value", what)


# ---------------------------------------------------------------------------- membership


def _membership(metrics: Mapping[str, Estimate], details: _Membership) -> Iterator[Problem]:
    for name in ("main_score", "strongest_score"):
        if getattr(details, name) not in details.scores:
            what = f"{shown(getattr(details, name))} is none of its scores"
            yield error(f"details.membership.{name}", what)
            return
    main = details.scores[details.main_score]
    for name, value in (("auc", main.auc.value), ("auc_user", main.auc_user.value)):
        if name in metrics:
            of = f"the score {shown(details.main_score)}"
            yield from _same("membership", name, metrics[name].value, value, of)
    if "auc_user" in metrics and details.roc_user:
        where = "leakage.membership.auc_user.value"
        yield from check_area(where, details.roc_user, metrics["auc_user"].value)
    best = details.scores[details.strongest_score]
    curves = (
        ("tpr", (main.roc, best.roc), "no ROC curve of the main and the strongest score"),
        ("tpr_user", (details.roc_user,), "no ROC curve of users"),
    )
    for rate, rocs, of in curves:
        for name, limit in ((f"{rate}_at_1pct_fpr", 0.01), (f"{rate}_at_0.1pct_fpr", 0.001)):
            if name not in metrics:
                continue
            value = metrics[name].value
            if not any(_on(roc, limit, value) for roc in rocs):
                yield error(f"leakage.membership.{name}.value", f"{shown(value)} is on {of}")


def _on(roc: Sequence[tuple[float, float]], limit: float, value: float) -> bool:
    """True if a rate may be that at a limit: curves grow between the points that are kept."""
    least = max((y for x, y in roc if x <= limit + SLACK), default=0.0)
    most = min((y for x, y in roc if x > limit + SLACK), default=1.0)
    return least - SLACK <= value <= most + SLACK


_KNOWN: dict[str, tuple[type[_Loose], Callable[..., Iterator[Problem]]]] = {
    "secret-sharer": (_Canaries, _canaries),
    "membership": (_Membership, _membership),
}
