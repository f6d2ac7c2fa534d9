"""Figures of what attacks keep in the details of a result, known by the shape of the values.

An attack that nobody knows gets the same figures for values of the same shape; of any other shape
they stay in tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.contracts.results import Estimate
from uedp_bench.leaderboard.run_pages.detail_tables import Details, Metrics, Table, shaped, table
from uedp_bench.leaderboard.run_pages.figures import (
    SYMBOLS,
    Figure,
    Interval,
    axis,
    colour,
    finite,
    intervals,
    layout,
    line,
    plain,
    stack,
    thinned,
)
from uedp_bench.leaderboard.run_pages.score_figures import exposures, references, rocs

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
    projection = shaped(_PROJECTION, details.get("projection"))
    if projection is None:
        return []
    colours = dict(projection.attributes)
    maps = [_map(projection, f"private attribute {name}", one) for name, one in colours.items()]
    if projection.labels is not None:
        maps.append(_map(projection, "label of the main task", projection.labels))
    return [one for one in maps if one is not None]


def _map(projection: _Projection, by: str, classes: _Classes) -> Figure | None:
    if len(classes.labels) != len(projection.points) or not projection.points:
        return None
    method = _NAMES.get(projection.method, projection.method)
    groups: dict[int, list[tuple[float, float]]] = {}
    for point, code in zip(projection.points, classes.labels, strict=True):
        groups.setdefault(code if 0 <= code < len(classes.classes) else -1, []).append(point)
    ordered = sorted(groups, key=lambda code: (code < 0, code))
    names = {code: "unknown" if code < 0 else classes.classes[code] for code in ordered}
    data = [_class(names[code], groups[code], code) for code in ordered]
    shares = projection.explained_variance
    ends = [f"{method} {at + 1}" + (f" ({100 * shares[at]:.3g} % of the variance)"
                                    if len(shares) == 2 else "") for at in range(2)]  # fmt: skip
    perplexity = "" if projection.perplexity is None else f" (perplexity {projection.perplexity:g})"
    return Figure(
        f"{method} by {by}",
        f"{method}{perplexity} of the released representations of {len(projection.points):,} test "
        f"rows, by {by}. Classes that lie apart can be told apart; where they are mixed here, an "
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


class _Sides(BaseModel):
    members: list[float]
    nonmembers: list[float]


CURVES = 24
"""Lines of one figure at most: so many differ in colour or dash."""

_SIDES = TypeAdapter(_Sides)
_LOSSES = TypeAdapter(list[float])


def attack_figures(details: Details, metrics: Metrics) -> list[Figure]:
    """All figures of one attack's details and metrics, in the order in which pages show them."""
    makers: tuple[Callable[[Details, Metrics], list[Figure]], ...] = (
        rocs, exposures, references, _sides, _by_attribute, _by_class, _inference_errors,
        projections, _attackers,
    )  # fmt: skip
    return [figure for make in makers for figure in make(details, metrics)]


# ------------------------------------------------------------------------------------------ audit


def _sides(details: Details, metrics: Metrics) -> list[Figure]:
    """Scores of canaries that were in and of those that were out; of retrainings too."""
    titles = {"scores": "Scores of the audit's canaries", "retrainings": "Scores over retrainings"}
    histograms = []
    for key, title in titles.items():
        sides = shaped(_SIDES, details.get(key))
        if sides is None or not sides.members or not sides.nonmembers:
            continue
        values = [*sides.members, *sides.nonmembers]
        if math.isfinite(max(values) - min(values)):
            histograms.append(_histogram(title, sides, min(values), max(values)))
    return histograms


def _histogram(title: str, sides: _Sides, low: float, high: float) -> Figure:
    bins = 24
    width = (high - low) / bins or 1.0
    centres = [low + (at + 0.5) * width for at in range(bins)]
    named = {"included": sides.members, "excluded": sides.nonmembers}
    counts = {name: [0] * bins for name in named}
    for name, values in named.items():
        for value in values:
            counts[name][min(int((value - low) / width), bins - 1)] += 1
    data = [stack(name, centres, counts[name], at) for at, name in enumerate(named)]
    frame = layout(axis("score"), axis("canaries", rangemode="tozero"), barmode="group", bargap=0.1)
    rows = [(f"{low + at * width:.4g} to {low + (at + 1) * width:.4g}",
             *(counts[name][at] for name in named)) for at in range(bins)]  # fmt: skip
    return Figure(
        title,
        "How often the attacker gave which score to canaries that were in the training data and "
        "to those that a coin left out; the further apart, the larger the ε that is refuted.",
        {"data": data, "layout": frame},
        table("canaries by score", ("score", *named), rows),
    )


# -------------------------------------------------------------------------------------- inference


def _by_attribute(details: Details, metrics: Metrics) -> list[Figure]:
    names = [name.removeprefix("accuracy_") for name in metrics if name.startswith("accuracy_")]
    groups = {"attacker": _named(metrics, "accuracy_", names),
              "most frequent class": _named(metrics, "majority_", names)}  # fmt: skip
    if not groups["most frequent class"]:
        return []
    return [_dots(
        "What the attacker infers",
        "Accuracy of guessing each private attribute from what was released, with its 95 % "
        "interval, beside always guessing the most frequent class: right of it, something leaks.",
        groups, "accuracy",
    )]  # fmt: skip


class _Class(BaseModel):
    share: float
    accuracy: Estimate


class _Attribute(BaseModel):
    classes: list[str]
    rows: int
    confusion: list[list[int]]
    by_class: dict[str, _Class]


_ATTRIBUTES = TypeAdapter(dict[str, _Attribute])


def _by_class(details: Details, metrics: Metrics) -> list[Figure]:
    """A figure an attribute: its classes, the best recognised first."""
    attributes = shaped(_ATTRIBUTES, details.get("attributes")) or {}
    return [figure for name, one in attributes.items() for figure in _classes_of(name, one)]


def _classes_of(name: str, one: _Attribute) -> list[Figure]:
    size = len(one.classes)
    codes = {label: code for code, label in enumerate(one.classes)}
    square = len(one.confusion) == size and all(len(row) == size for row in one.confusion)
    # An attacker tells each of two classes apart as well as the other.
    if size < 3 or not square or len(codes) < size or not one.by_class.keys() <= codes.keys():
        return []
    rows = [sum(row) for row in one.confusion]
    guesses = [sum(column) for column in zip(*one.confusion, strict=True)]

    def mistaken(label: str) -> float:
        code = codes[label]
        others = sum(rows) - rows[code]
        return (guesses[code] - one.confusion[code][code]) / others if others else 0.0

    ordered = sorted(
        one.by_class, key=lambda each: mistaken(each) - one.by_class[each].accuracy.value
    )
    names = {each: f"{each} ({rows[codes[each]]:,} rows)" for each in ordered[:CURVES]}
    groups = {
        "read rightly": [_interval(names[each], one.by_class[each].accuracy) for each in names],
        "others taken for it": [Interval(names[each], mistaken(each)) for each in names],
    }
    return [_dots(
        f"Least protected: {name}",
        "Share of the rows of each class that the attacker reads rightly, with its 95 % interval, "
        "beside the share of all other rows that it takes for this class: as large where nothing "
        "leaks. The classes that it tells apart best come first; each interval is by itself, and "
        "of many classes some lie apart by chance.",
        groups, "share of rows",
    )]  # fmt: skip


_ADVERSARIES = {
    "inference_error": "drawn from the posterior",
    "inference_error_map": "most likely word",
    "inference_error_nearest": "nearest word",
    "inference_error_masked_lm": "masked language model",
    "inference_error_prior": "without looking",
}


def _inference_errors(details: Details, metrics: Metrics) -> list[Figure]:
    names = [name for name in metrics if name.startswith("inference_error")]
    if "inference_error_prior" not in names:
        return []
    group = [_interval(_ADVERSARIES.get(name, name), metrics[name]) for name in names]
    return [_dots(
        "How often words stay hidden",
        "Share of the words that each adversary gets wrong, with its 95 % interval. The less wrong "
        "than without looking, the more the release tells.",
        {"adversary": group}, "share of words guessed wrong",
    )]  # fmt: skip


def _dots(title: str, about: str, groups: dict[str, list[Interval]], unit: str) -> Figure:
    rows = [(one.label, name, {"value": one.value, "low": one.low, "high": one.high})
            for name, group in groups.items() for one in group]  # fmt: skip
    return Figure(title, about, intervals(groups, unit), table(title, ("", "who", unit), rows))


def _named(metrics: Metrics, prefix: str, names: Sequence[str]) -> list[Interval]:
    return [_interval(name, metrics[prefix + name]) for name in names if prefix + name in metrics]


def _interval(label: str, estimate: Estimate) -> Interval:
    return Interval(label, estimate.value, estimate.low, estimate.high)


# -------------------------------------------------------------------------------------- attackers


def _attackers(details: Details, metrics: Metrics) -> list[Figure]:
    """Validation losses of attackers that were trained, by epoch."""
    curves = dict(_loss_curves(details, ()))
    if not 0 < len(curves) <= CURVES:
        return []
    data = [line(list(enumerate(losses)), name, at)
            for at, (name, losses) in enumerate(curves.items())]  # fmt: skip
    frame = layout(
        axis("epoch of the attacker", rangemode="tozero"), axis("validation loss (nats)")
    )
    longest = max(map(len, curves.values()))
    rows = [(str(at), *(losses[at] if at < len(losses) else None for losses in curves.values()))
            for at in range(longest)]  # fmt: skip
    return [Figure(
        "How the attackers learnt",
        "Loss of each attacker on the valid split, by epoch; 0 is the prior, before training. A "
        "curve that does not fall below its start found nothing.",
        {"data": data, "layout": frame},
        table("validation losses", ("epoch", *curves), rows),
        draws=("valid_loss",),
    )]  # fmt: skip


def _loss_curves(value: Any, path: tuple[str, ...]) -> list[tuple[str, list[float]]]:
    """Lists under the key `valid_loss`, by the keys around it."""
    curves: list[tuple[str, list[float]]] = []
    if not isinstance(value, Mapping) or len(path) > 4:
        return curves
    for key, part in value.items():
        inside = part if isinstance(part, Mapping) else {"": part}
        if key == "valid_loss":
            for view, losses in inside.items():
                read = shaped(_LOSSES, losses)
                if read:
                    name = ", ".join(name for name in (*path, view) if name)
                    curves.append((name.removeprefix("attributes, ") or "attacker", read))
        else:
            curves += _loss_curves(part, (*path, str(key)))
    return curves
