"""Maps of released representations in two dimensions, coloured by private attribute and label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.leaderboard.run_pages.detail_shapes import Details, Metrics, shaped
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table
from uedp_bench.leaderboard.run_pages.figures import (
    SYMBOLS,
    Figure,
    axis,
    colour,
    finite,
    layout,
    plain,
    thinned,
)

_NAMES = {"pca": "PCA", "tsne": "t-SNE"}


class _Classes(BaseModel):
    classes: list[str]
    labels: list[int]


class _Projection(BaseModel):
    method: str
    points: list[tuple[float, float]]
    attributes: dict[str, _Classes] = {}
    labels: _Classes | None = None
    explained_variance: list[float] = []
    perplexity: float | None = None


_PROJECTION = TypeAdapter(_Projection)


def projections(details: Details, metrics: Metrics) -> list[Figure]:
    """One map for each attribute, and one for the label of the main task."""
    found = shaped(_PROJECTION, details.get("projection"))
    if found is None:
        return []
    colours = dict(found.attributes)
    maps = [_map(found, f"private attribute {name}", one) for name, one in colours.items()]
    if found.labels is not None:
        maps.append(_map(found, "label of the main task", found.labels))
    return [one for one in maps if one is not None]


def _map(found: _Projection, by: str, classes: _Classes) -> Figure | None:
    if len(classes.labels) != len(found.points) or not found.points:
        return None
    method = _NAMES.get(found.method, found.method)
    groups: dict[int, list[tuple[float, float]]] = {}
    for point, code in zip(found.points, classes.labels, strict=True):
        groups.setdefault(code if 0 <= code < len(classes.classes) else -1, []).append(point)
    ordered = sorted(groups, key=lambda code: (code < 0, code))
    names = {code: "unknown" if code < 0 else classes.classes[code] for code in ordered}
    data = [_class(names[code], groups[code], code) for code in ordered]
    shares = found.explained_variance
    ends = [f"{method} {at + 1}" + (f" ({100 * shares[at]:.3g} % of the variance)"
                                    if len(shares) == 2 else "") for at in range(2)]  # fmt: skip
    perplexity = "" if found.perplexity is None else f" (perplexity {found.perplexity:g})"
    return Figure(
        f"{method} by {by}",
        f"{method}{perplexity} of the released representations of {len(found.points):,} test rows, "
        f"by {by}. Classes that lie apart can be told apart; where they are mixed here, an "
        "attacker who sees all coordinates may still tell them apart.",
        {"data": data, "layout": layout(
            axis(plain(ends[0]), showticklabels=False), axis(plain(ends[1]), showticklabels=False),
            height=440)},
        _centres(by, [(names[code], groups[code]) for code in ordered]),
        draws=("projection",),
    )  # fmt: skip


def _class(name: str, points: Sequence[tuple[float, float]], code: int) -> dict[str, Any]:
    shown = thinned(points, 5000)
    tint = "var(--muted)" if code < 0 else colour(code)
    return {
        "type": "scatter", "mode": "markers", "name": plain(name),
        "x": [finite(x) for x, _ in shown], "y": [finite(y) for _, y in shown],
        "marker": {"color": tint, "symbol": SYMBOLS[code % len(SYMBOLS)], "size": 6,
                   "opacity": 0.75},
        "hovertemplate": "%{fullData.name}<extra></extra>",
    }  # fmt: skip


def _centres(by: str, groups: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> Table:
    rows = [
        (name, len(points), *(sum(end) / len(points) for end in zip(*points, strict=True)))
        for name, points in groups
    ]
    return table(f"classes on the map, by {by}", ("class", "rows", "centre x", "centre y"), rows)
