"""Figures of scores: ROC curves of members, and canaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.components.component import Number
from uedp_bench.leaderboard.run_pages.detail_tables import Details, Metrics, shaped, table
from uedp_bench.leaderboard.run_pages.figures import (
    SYMBOLS,
    Figure,
    Points,
    axis,
    colour,
    finite,
    layout,
    line,
    plain,
    stack,
    vertical,
)

_LIMITS = {0.01: "1 %", 0.001: "0.1 %"}
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
    marks = [vertical(x, f"{label} FPR", log=True) for x, label in _LIMITS.items() if x > floor]
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
    dash = ("solid", "dash", "dashdot", "longdash", "longdashdot")[at % 5]
    return line(shown, name, at, mode="lines",
                line={"color": colour(at), "dash": dash, "width": 2, "shape": "hv"},
                hovertemplate="FPR %{x:.3g}, TPR %{y:.3g}")  # fmt: skip


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


class _Canary(BaseModel):
    text: str
    exposure: float
    kind: str = "canary"
    loss: Number | None = None


class _References(BaseModel):
    canary: str
    loss: Number | None
    edges: list[float]
    counts: list[int]


_CANARIES = TypeAdapter(list[_Canary])
_REFERENCES = TypeAdapter(_References)


def exposures(details: Details, metrics: Metrics) -> list[Figure]:
    """The canaries by exposure, beside how many a mechanism that leaks nothing would have."""
    canaries = shaped(_CANARIES, details.get("canaries"))
    if not canaries or not all(math.isfinite(one.exposure) for one in canaries):
        return []
    limit = metrics["exposure_limit"].value if "exposure_limit" in metrics else None
    most = max(1, math.ceil(max(one.exposure for one in canaries)), math.ceil(limit or 0.0))
    if most > 64:
        return []  # no rank among references; the table has the numbers
    kinds = list(dict.fromkeys(one.kind for one in canaries))
    counts = {kind: [0] * most for kind in kinds}
    for one in canaries:
        counts[one.kind][_bin(one.exposure, most)] += 1
    expected = [len(canaries) * share for share in _null_shares(most, limit)]
    centres = [at + 0.5 for at in range(most)]
    data: list[dict[str, Any]] = [stack(f"{kind} canaries", centres, counts[kind], at)
                                  for at, kind in enumerate(kinds)]  # fmt: skip
    steps = list(enumerate([*expected, expected[-1]]))
    null = line(steps, "expected where nothing leaks", 2, mode="lines",
                line={"color": "var(--ink)", "dash": "dash", "shape": "hv", "width": 2},
                hovertemplate="%{y:.3g} expected<extra></extra>")  # fmt: skip
    frame = layout(
        axis("exposure (bits)", range=[0, most], dtick=1 if most <= 16 else None),
        axis("canaries", rangemode="tozero"), barmode="stack", bargap=0.06,
    )  # fmt: skip
    rows = [
        (f"{at} to {at + 1}", *(counts[kind][at] for kind in kinds), expected[at])
        for at in range(most)
    ]
    return [Figure(
        "Exposure of the canaries",
        "Bars: canaries by exposure, stacked by kind. Dashed: how many of them are expected at "
        "each exposure where nothing leaks, for then ranks are uniform"
        + (f"; {limit:.4g} bits is the most that a rank can show." if limit else "."),
        {"data": [*data, null], "layout": frame},
        table("canaries by exposure", ("bits", *kinds, "expected where nothing leaks"), rows),
    )]  # fmt: skip


def _bin(exposure: float, most: int) -> int:
    """Bin of an exposure in bits; the ends hold values beyond them. Logarithms are not exact."""
    return min(max(int(exposure + 1e-9), 0), most - 1)


def _null_shares(most: int, limit: float | None) -> list[float]:
    """Share of canaries in each bin of a bit whose rank among the references is uniform.

    With R references ranks go from 1 to R + 1 and exposure is log2(R / rank); the first bin has
    the last rank, whose exposure is just below 0, and the last bin the first rank. Without a limit
    there are so many references that exposure is exponential.
    """
    if limit is None or limit > 40:
        return [2.0**-at - 2.0 ** -(at + 1) for at in range(most)]
    references = round(2.0**limit)
    ends = [references + 1, *(references // 2**at for at in range(1, most)), 0]
    return [(a - b) / ends[0] for a, b in pairwise(ends)]


def references(details: Details, metrics: Metrics) -> list[Figure]:
    """Losses of one canary's random references, and of the canaries themselves."""
    losses = shaped(_REFERENCES, details.get("reference_losses"))
    if losses is None or len(losses.edges) != len(losses.counts) + 1 or not losses.counts:
        return []
    edges, top = losses.edges, max(losses.counts)
    if not all(map(math.isfinite, edges)):
        return []
    middle = [(a + b) / 2 for a, b in pairwise(edges)]
    data: list[dict[str, Any]] = [{
        "type": "bar", "name": "its references", "x": middle, "y": losses.counts,
        "width": [b - a for a, b in pairwise(edges)],
        "marker": {"color": "var(--strong-line)", "opacity": 0.55},
        "hovertemplate": "%{y} references<extra></extra>",
    }]  # fmt: skip
    canaries = shaped(_CANARIES, details.get("canaries")) or []
    for at, kind in enumerate(dict.fromkeys(one.kind for one in canaries)):
        data.append(_rug(kind, [one for one in canaries if one.kind == kind], top, at))
    loss = finite(losses.loss)
    marks = [] if loss is None else [vertical(loss, "this canary")]
    frame = layout(
        axis("loss of the secret part (nats)"), axis("references", rangemode="tozero"), bargap=0,
        shapes=[shape for shape, _ in marks], annotations=[note for _, note in marks],
        margin={"l": 56, "r": 16, "t": 28, "b": 48},
    )  # fmt: skip
    rows = [(f"{a:.4g} to {b:.4g}", count)
            for a, b, count in zip(edges, edges[1:], losses.counts, strict=False)]  # fmt: skip
    return [Figure(
        "The most exposed canary among its references",
        f"Bars: losses of the random references of “{losses.canary}”; dotted: its own loss. A "
        "canary that was memorised lies left of its references. Markers: losses of all canaries, "
        "whose own references are others.",
        {"data": data, "layout": frame},
        table("reference losses", ("nats", "references"), rows),
        draws=("reference_losses",),
    )]  # fmt: skip


def _rug(kind: str, canaries: Sequence[_Canary], top: int, at: int) -> dict[str, Any]:
    shown = [one for one in canaries if finite(one.loss) is not None]
    return {
        "type": "scatter", "mode": "markers", "name": f"{plain(kind)} canaries",
        "x": [one.loss for one in shown], "y": [top * (1.06 + 0.07 * at)] * len(shown),
        "text": [plain(one.text) for one in shown],
        "hovertemplate": "%{text}: %{x:.4g}<extra></extra>",
        "marker": {"color": colour(at), "symbol": SYMBOLS[at % len(SYMBOLS)], "size": 8},
    }  # fmt: skip
