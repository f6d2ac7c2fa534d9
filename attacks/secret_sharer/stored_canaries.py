"""Metrics of a stored result, computed again from the canaries that it keeps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from uedp_bench.api import Estimate
from uedp_bench.errors import shown

SLACK = 1e-9
"""Difference that sums of floats may make."""


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


def contradictions(
    metrics: Mapping[str, Estimate], stored: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Metrics and exposures that are not those of the canaries; see `Attack.contradictions`."""
    details = _Canaries.model_validate(stored)
    limit = metrics.get("exposure_limit")
    if limit is not None:
        for at, canary in enumerate(details.canaries):
            bits = limit.value - math.log2(canary.rank) if canary.rank >= 1 else math.nan
            if not abs(canary.exposure - bits) <= SLACK:
                what = f"{shown(canary.exposure)} does not follow from rank {canary.rank}"
                yield f"details.canaries.{at}.exposure", what
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
        if name not in metrics or value is None:
            continue
        if not math.isclose(metrics[name].value, value, rel_tol=1e-6, abs_tol=SLACK):
            what = f"{shown(metrics[name].value)} is not the {shown(value)} of its canaries"
            yield f"leakage.{name}.value", what


def _mean(values: Iterator[float] | Any) -> float | None:
    numbers = [float(value) for value in values]
    return math.fsum(numbers) / len(numbers) if numbers else None
