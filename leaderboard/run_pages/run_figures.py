"""Figures of a run beside its attacks: the curve of a guarantee, training, diagnostics, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.contracts.results import LowerBound, Result
from uedp_bench.leaderboard.run_pages.detail_tables import ROWS, table, words
from uedp_bench.leaderboard.run_pages.figures import (
    Figure,
    axis,
    bars,
    colour,
    finite,
    layout,
    line,
    plain,
)

NOBODY = 0.4
"""Place of a spread of 0 on a log axis."""

_ONLY = "Simulation only: a real deployment could not print this."


def curves(result: Result) -> list[Figure]:
    """Epsilon against the spread of the entity, of all guarantees that have a curve."""
    with_curve = [guarantee for guarantee in result.guarantees if guarantee.curve]
    if not with_curve:
        return []
    data = []
    for at, guarantee in enumerate(with_curve):
        data += _curve(guarantee, at)
    bounds = [bound for bound in result.lower_bounds if bound.spread is not None]
    data += [_bounds(bounds)] if any(bound.epsilon > 0 for bound in bounds) else []
    spreads = sorted({point.spread for guarantee in with_curve for point in guarantee.curve})
    frame = layout(
        axis("spread (other users)", type="log",
             tickvals=[_place(spread) for spread in spreads],
             ticktext=[f"{spread:,}" for spread in spreads]),
        axis("ε", type="log", exponentformat="power", dtick=1),
    )  # fmt: skip
    rows = [(_name(guarantee), point.spread, _sentences(point), point.epsilon)
            for guarantee in with_curve for point in guarantee.curve]  # fmt: skip
    return [Figure(
        "ε by the spread of the entity",
        "What is promised to a user together with an entity that at most so many other users "
        "mention, on log axes. The large marker is the declared protected point; the last point "
        "is everybody. Where no line leads, ε is infinite.",
        {"data": data, "layout": frame},
        table("ε by spread", ("guarantee", "spread", "sentences of others", "ε"), rows),
    )]  # fmt: skip


def _curve(guarantee: Guarantee, at: int) -> list[dict[str, Any]]:
    points = [(_place(point.spread), _drawn(point.epsilon)) for point in guarantee.curve]
    labels = [
        f"spread {point.spread:,}, {_sentences(point)} sentences" for point in guarantee.curve
    ]
    traces = [line(points, _name(guarantee), at, text=labels, mode="lines+markers",
                   hovertemplate="ε %{y:.4g}, %{text}")]  # fmt: skip
    if (
        guarantee.protected is not None
        and guarantee.epsilon > 0
        and math.isfinite(guarantee.epsilon)
    ):
        traces.append({
            "type": "scatter", "mode": "markers", "name": "protected point",
            "x": [_place(guarantee.protected.spread)], "y": [guarantee.epsilon],
            "marker": {"symbol": "circle-open", "size": 16, "color": colour(at),
                       "line": {"width": 3}},
            "hovertemplate": "ε %{y:.4g}<extra>protected point</extra>",
        })  # fmt: skip
    return traces


def _bounds(bounds: Sequence[LowerBound]) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "markers", "name": "at least (attacks)",
        "x": [_place(bound.spread or 0) for bound in bounds],
        "y": [finite(_drawn(bound.epsilon)) for bound in bounds],
        "text": [plain(bound.attack) for bound in bounds],
        "marker": {"symbol": "triangle-up", "size": 11, "color": "var(--ink)"},
        "hovertemplate": "ε at least %{y:.4g} (%{text})<extra></extra>",
    }  # fmt: skip


def _place(spread: int) -> float:
    return spread if spread > 0 else NOBODY


def _drawn(epsilon: float) -> float:
    """The value if a log axis can show it; infinity is a gap."""
    return epsilon if epsilon > 0 else math.inf


def _name(guarantee: Guarantee) -> str:
    return f"{guarantee.kind}, {guarantee.unit} ({guarantee.accountant})"


def _sentences(point: CurvePoint) -> str:
    return "any number" if point.sentences is None else f"{point.sentences:,}"


# ----------------------------------------------------------------------------------------- training


def training(result: Result) -> list[Figure]:
    """Series over rounds or epochs: losses together, everything else by itself."""
    losses = {name: points for name, points in result.series.items() if "loss" in name and points}
    groups = [losses] if losses else []
    groups += [{name: points} for name, points in result.series.items()
               if points and name not in losses]  # fmt: skip
    return [_series(group, simulated(result)) for group in groups]


def simulated(result: Result) -> set[str]:
    """Names of what a real deployment could not print, as diagnostics give them."""
    named = result.diagnostics.get("simulation_only")
    return {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()


def _series(group: Mapping[str, Sequence[tuple[int, float]]], only: set[str]) -> Figure:
    names = [words(name) for name in group]
    title = "Losses of training" if len(group) > 1 else names[0].capitalize()
    data = [line(points, words(name), at) for at, (name, points) in enumerate(group.items())]
    unit = "loss (nats)" if all("loss" in name for name in group) else names[0]
    read = {name: dict(points) for name, points in group.items()}
    steps = list(dict.fromkeys(step for points in group.values() for step, _ in points))
    rows = [(step, *(values.get(step) for values in read.values())) for step in steps]
    frame = layout(axis("round or epoch"), axis(plain(unit)), showlegend=len(group) > 1)
    hidden = [name for name in group if f"series.{name}" in only]
    return Figure(
        title,
        f"{', '.join(names)} at every round or epoch of training.",
        {"data": data, "layout": frame},
        table(title, ("step", *names), rows),
        note=_ONLY if hidden else "",
    )


# ----------------------------------------------------------------------------- diagnostics and cost


def diagnostics(result: Result) -> list[Figure]:
    """A figure for each diagnostic that is several numbers by name: a line by number, else bars."""
    only = simulated(result)
    return [_by_name(words(name), values, _ONLY if name in only else "")
            for name, values in drawable(result.diagnostics).items()]  # fmt: skip


def drawable(values: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The diagnostics that are several numbers by name."""
    return {
        name: part
        for name, part in values.items()
        if isinstance(part, dict) and 1 < len(part) <= ROWS
        and all(isinstance(one, int | float) and not isinstance(one, bool) for one in part.values())
    }  # fmt: skip


def _by_name(title: str, values: Mapping[str, float], note: str) -> Figure:
    try:
        points = [(float(key), value) for key, value in values.items()]
    except ValueError:
        figure = bars(list(values), list(values.values()), plain(title))
    else:
        frame = layout(axis(""), axis(plain(title)), showlegend=False)
        figure = {"data": [line(sorted(points), title, 0)], "layout": frame}
    rows = list(values.items())
    return Figure(title.capitalize(), f"{title.capitalize()}, as training reported it.", figure,
                  table(title, ("", title), rows), note)  # fmt: skip


def cost(result: Result) -> list[Figure]:
    """Seconds by phase."""
    seconds = {name.removesuffix("_seconds"): value
               for name, value in result.cost.model_dump().items()
               if name.endswith("_seconds") and isinstance(value, int | float)}  # fmt: skip
    if not any(finite(value) for value in seconds.values()):
        return []
    return [Figure(
        "Seconds by phase",
        "Wall time of each phase of the run; “reference” is of models that attacks asked for, as "
        "if none were shared.",
        bars([words(name) for name in seconds], list(seconds.values()), "seconds"),
        table("seconds by phase", ("phase", "seconds"), list(seconds.items())),
    )]  # fmt: skip
