"""Metrics of a stored result, computed again from the scores and curves that it keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from uedp_bench.api import Estimate
from uedp_bench.errors import shown
from uedp_bench.statistics.roc import areas

Points = list[tuple[float, float]]

SLACK = 1e-9
"""Difference that sums of floats may make."""


class _Loose(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Score(_Loose):
    auc: Estimate
    auc_user: Estimate
    roc: Points


class _Membership(_Loose):
    main_score: str
    strongest_score: str
    scores: dict[str, _Score]
    roc_user: Points


def contradictions(
    metrics: Mapping[str, Estimate], stored: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Metrics that are not those of the main score; see `Attack.contradictions`."""
    details = _Membership.model_validate(stored)
    for name in ("main_score", "strongest_score"):
        if getattr(details, name) not in details.scores:
            what = f"{shown(getattr(details, name))} is none of its scores"
            yield f"details.{name}", what
            return
    main = details.scores[details.main_score]
    for name, value in (("auc", main.auc.value), ("auc_user", main.auc_user.value)):
        if name in metrics and not _close(metrics[name].value, value):
            of = f"the score {shown(details.main_score)}"
            what = f"{shown(metrics[name].value)} is not the {shown(value)} of {of}"
            yield f"leakage.{name}.value", what
    if "auc_user" in metrics and details.roc_user:
        least, most = areas(details.roc_user)
        if not least - SLACK <= metrics["auc_user"].value <= most + SLACK:
            what = f"is not the area between {least:.9g} and {most:.9g} below the curve of users"
            yield "leakage.auc_user.value", what
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
                yield f"leakage.{name}.value", f"{shown(value)} is on {of}"


def _on(roc: Sequence[tuple[float, float]], limit: float, value: float) -> bool:
    """True if a rate may be that at a limit: curves grow between the points that are kept."""
    least = max((y for x, y in roc if x <= limit + SLACK), default=0.0)
    most = min((y for x, y in roc if x > limit + SLACK), default=1.0)
    return least - SLACK <= value <= most + SLACK


def _close(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=1e-6, abs_tol=SLACK)
