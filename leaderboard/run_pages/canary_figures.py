"""Figures of canaries: their exposure against the null, and a loss among its references."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.components.component import Number
from uedp_bench.leaderboard.run_pages.detail_shapes import Details, Metrics, shaped
from uedp_bench.leaderboard.run_pages.detail_tables import table
from uedp_bench.leaderboard.run_pages.figures import (
    SYMBOLS,
    Figure,
    axis,
    colour,
    finite,
    layout,
    line,
    plain,
    stack,
    vertical,
)


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
