"""ROC curves on log axes: what matters is who is found at few false alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.leaderboard.run_pages.detail_shapes import Details, Metrics, shaped
from uedp_bench.leaderboard.run_pages.detail_tables import table
from uedp_bench.leaderboard.run_pages.figures import (
    Figure,
    Points,
    axis,
    colour,
    layout,
    line,
    vertical,
)

LIMITS = {0.01: "1 %", 0.001: "0.1 %"}
"""False positive rates at which tables report the true ones."""

_LEAST = 1e-5


class _Score(BaseModel):
    roc: list[tuple[float, float]]


_SCORES = TypeAdapter(dict[str, _Score])
_ROC = TypeAdapter(list[tuple[float, float]])


def rocs(details: Details, metrics: Metrics) -> list[Figure]:
    """ROC curves of all scores of an attack, and of users."""
    figures = []
    scores = shaped(_SCORES, details.get("scores")) or {}
    main, strongest = details.get("main_score"), details.get("strongest_score")
    roles = {main: "main", strongest: "strongest"}
    if main == strongest:
        roles = {main: "main and strongest"}
    curves = {f"{name} ({roles[name]})" if name in roles else name: score.roc
              for name, score in scores.items() if score.roc}  # fmt: skip
    if curves:
        marked = _reported(metrics, "tpr_at")
        figures.append(_roc("ROC of records, by score", "records", curves, marked, "roc"))
    users = shaped(_ROC, details.get("roc_user"))
    if users:
        curves, marked = {str(main or "score"): users}, _reported(metrics, "tpr_user_at")
        figures.append(_roc("ROC of users", "users", curves, marked, "roc_user"))
    return figures


def _reported(metrics: Metrics, name: str) -> list[tuple[float, float]]:
    """Points whose rates are metrics."""
    limits = {0.01: f"{name}_1pct_fpr", 0.001: f"{name}_0.1pct_fpr"}
    return [(at, metrics[rate].value) for at, rate in limits.items() if rate in metrics]


def _roc(title: str, unit: str, curves: Mapping[str, Points], marked: Points, key: str) -> Figure:
    floor = _floor(curves)
    data = [_curve(points, name, at, floor) for at, (name, points) in enumerate(curves.items())]
    data.append(_chance(floor))
    reported = [(x, y) for x, y in marked if floor <= x and y > 0]
    if reported:
        data.append(_marks(reported))
    marks = [vertical(x, f"{label} FPR", log=True) for x, label in LIMITS.items() if x > floor]
    ends = [math.log10(floor), 0.04]
    frame = layout(
        axis("false positive rate", type="log", range=ends, dtick=1, exponentformat="power"),
        axis("true positive rate", type="log", range=ends, dtick=1, exponentformat="power"),
        shapes=[shape for shape, _ in marks],
        annotations=[note for _, note in marks],
        margin={"l": 60, "r": 16, "t": 28, "b": 48},
        height=460,
    )
    return Figure(
        title,
        f"Share of the training {unit} that are found (true positives) against the share of other "
        f"{unit} that are taken for them (false positives), on log axes. Dotted diagonal: chance. "
        "Above it, membership leaks. The left edge stands for no false alarm at all.",
        {"data": data, "layout": frame},
        _numbers(title, curves),
        draws=(key,),
    )


def _floor(curves: Mapping[str, Points]) -> float:
    """Start of the axes, below the least rate that is not 0."""
    rates = [rate for points in curves.values() for point in points for rate in point]
    least = min((rate for rate in rates if _LEAST < rate <= 1), default=0.1)
    return max(_LEAST, min(least, 0.1) / 1.5)


def _curve(points: Points, name: str, at: int, floor: float) -> dict[str, Any]:
    shown = [(max(x, floor), y) for x, y in points if y > 0]
    return line(shown, name, at, mode="lines",
                line={"color": colour(at), "dash": _dash(at), "width": 2, "shape": "hv"},
                hovertemplate="FPR %{x:.3g}, TPR %{y:.3g}")  # fmt: skip


def _dash(at: int) -> str:
    return ("solid", "dash", "dashdot", "longdash", "longdashdot")[at % 5]


def _chance(floor: float) -> dict[str, Any]:
    return line([(floor, floor), (1.0, 1.0)], "chance", 0, mode="lines", hoverinfo="skip",
                line={"color": "var(--muted)", "dash": "dot", "width": 2})  # fmt: skip


def _marks(points: Points) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": "as reported",
        "x": [x for x, _ in points], "y": [y for _, y in points],
        "marker": {"symbol": "diamond-open", "size": 12, "color": "var(--ink)",
                   "line": {"width": 2}},
        "hovertemplate": "TPR %{y:.3g} at FPR %{x:.3g}<extra>as reported</extra>",
    }  # fmt: skip


_GRID = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


def _numbers(title: str, curves: Mapping[str, Points]) -> Any:
    """True positive rates at some false positive rates."""
    rows = [
        (f"{limit:g}", *(_rate_at(points, limit) for points in curves.values())) for limit in _GRID
    ]
    return table(f"{title}: TPR at no more than this FPR", ("FPR", *curves), rows)


def _rate_at(points: Sequence[tuple[float, float]], limit: float) -> float:
    return max((y for x, y in points if x <= limit), default=0.0)
