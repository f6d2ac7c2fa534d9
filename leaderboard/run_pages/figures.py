"""Figures as plain values of Plotly: data and layout, without Plotly's own slow objects.

Colours and fonts are names of the page's CSS variables, which its script resolves, so that a figure
follows the theme. Colour never alone tells lines or points apart: dashes, symbols and hatching
differ too. Plotly reads some markup in texts; what comes from results goes through `plain`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.leaderboard.run_pages.detail_tables import Table

Trace = dict[str, Any]
Points = Sequence[tuple[float, float]]

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down")
HATCHES = ("", "/", "x", ".", "\\", "-", "|", "+")
MOST = 1000
"""Points of a line at most: more are no sharper on a screen."""


@dataclass(frozen=True)
class Figure:
    """A figure and its numbers.

    Attributes:
        title: title in a few words.
        about: description and way of reading, which screen readers say, too.
        figure: `data` and `layout` as Plotly takes them.
        table: numbers of the figure.
        note: further remarks for readers.
        draws: keys of details that the figure shows, so that tables need not.
    """

    title: str
    about: str
    figure: dict[str, Any]
    table: Table
    note: str = ""
    draws: tuple[str, ...] = ()


def colour(at: int) -> str:
    """The colour of the series at a place."""
    return f"var(--series-{at % 8 + 1})"


def plain(text: object) -> str:
    """Text for Plotly, which reads some markup and fills in %{templates}: none of it is left."""
    escaped = str(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return escaped.replace("%{", "%&#123;")


def finite(value: float | None) -> float | None:
    """Value that Plotly can draw; None for infinities."""
    return value if value is not None and math.isfinite(value) else None


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis in the colours of the page."""
    return {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "var(--line)",
        "linecolor": "var(--strong-line)",
        "zeroline": False,
        "automargin": True,
        **more,
    }


def layout(x: dict[str, Any], y: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The frame of a figure: no background, the legend below."""
    return {
        "xaxis": x,
        "yaxis": y,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--ink)", "family": "var(--text)", "size": 13},
        "hoverlabel": {
            "bgcolor": "var(--raised)",
            "bordercolor": "var(--strong-line)",
            "font": {"color": "var(--ink)", "family": "var(--text)"},
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "y": -0.22,
            "yanchor": "top",
            "traceorder": "normal",
        },
        "margin": {"l": 56, "r": 16, "t": 16, "b": 48},
        "height": 380,
        **more,
    }


def line(points: Points, name: str, at: int, **more: Any) -> Trace:
    """A line; values that are not finite leave a gap."""
    shown = thinned(points)
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(shown) <= 30 else "lines",
        "name": plain(name),
        "x": [finite(x) for x, _ in shown],
        "y": [finite(y) for _, y in shown],
        "line": {"color": colour(at), "dash": DASHES[at % len(DASHES)], "width": 2},
        "marker": {"symbol": SYMBOLS[at % len(SYMBOLS)], "size": 6},
        **more,
    }


def thinned(points: Points, most: int = MOST) -> Points:
    """At most about so many of the points, evenly, the last one among them."""
    if len(points) <= most:
        return points
    step = math.ceil(len(points) / most)
    return [*points[:-1:step], points[-1]]


def vertical(x: float, label: str, *, log: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """A dotted line across the figure, and its label; `log` on a log axis."""
    stroke = {"color": "var(--muted)", "dash": "dot", "width": 1.5}
    shape = {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": stroke}
    note = {
        # Where an axis is logarithmic, shapes take values and annotations exponents.
        "x": math.log10(x) if log else x, "y": 1, "yref": "paper", "yanchor": "bottom",
        "showarrow": False, "text": plain(label), "font": {"size": 11, "color": "var(--muted)"},
    }  # fmt: skip
    return shape, note


def stack(name: str, centres: Sequence[float], counts: Sequence[int], at: int) -> Trace:
    """Bars of one group of a histogram; groups differ in hatching too."""
    return {
        "type": "bar",
        "name": plain(name),
        "x": list(centres),
        "y": list(counts),
        "marker": {
            "color": colour(at),
            "pattern": {
                "shape": HATCHES[at % len(HATCHES)],
                "fillmode": "overlay",
                "fgcolor": "var(--paper)",
                "solidity": 0.25,
            },
        },
        "hovertemplate": "%{y} canaries<extra>%{fullData.name}</extra>",
    }


def bars(names: Sequence[str], values: Sequence[float], unit: str) -> dict[str, Any]:
    """Horizontal bars, the first one on top."""
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [plain(name) for name in names],
        "x": [finite(value) for value in values],
        "marker": {"color": colour(0)},
        "hovertemplate": "%{y}: %{x}<extra></extra>",
    }
    frame = layout(
        axis(unit, rangemode="tozero"),
        axis("", type="category", autorange="reversed"),
        height=max(180, 90 + 34 * len(names)),
        bargap=0.35,
        showlegend=False,
    )
    return {"data": [trace], "layout": frame}


@dataclass(frozen=True)
class Interval:
    """A value with its interval, None and None where there is none."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


def intervals(groups: dict[str, list[Interval]], unit: str) -> dict[str, Any]:
    """Dots with intervals, one line a label; groups after the first are what it is held against."""
    labels = list(dict.fromkeys(one.label for group in groups.values() for one in group))
    traces = [_dots(name, group, at) for at, (name, group) in enumerate(groups.items())][::-1]
    frame = layout(
        axis(unit),
        axis("", type="category", autorange="reversed", categoryorder="array",
             categoryarray=[plain(label) for label in labels]),
        height=max(220, 130 + 36 * len(labels)),
        showlegend=len(groups) > 1,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
    )  # fmt: skip
    return {"data": traces, "layout": frame}


def _dots(name: str, group: Sequence[Interval], at: int) -> Trace:
    ends = [
        (one.value - one.low, one.high - one.value)
        if one.low is not None and one.high is not None
        else (0.0, 0.0)
        for one in ([] if at else group)
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "y": [plain(one.label) for one in group],
        "x": [finite(one.value) for one in group],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [finite(above) for _, above in ends],
            "arrayminus": [finite(below) for below, _ in ends],
            "color": colour(at),
        },
        "marker": {
            "color": colour(at),
            "symbol": SYMBOLS[at % len(SYMBOLS)] + ("-open" if at else ""),
            "size": 15 if at else 9,
            "line": {"width": 2},
        },
    }
