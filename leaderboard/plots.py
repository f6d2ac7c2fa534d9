"""Choices and axes of the plots of a set, as values of Plotly.

Zero has no place on Plotly's logarithmic axes, and infinity on none: both get a labelled place of
their own at the end. An axis is that of all rows of the set, whatever filters leave of them, so
pictures of the same set compare. The page's script puts the rows on the axes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.comparisons import references
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.run_pages.figures import axis, colour, layout, plain

Column = Mapping[str, Any]

FRAME = layout(
    axis("", showline=True, ticks="outside", tickcolor="var(--strong-line)", nticks=9),
    axis("", showline=True, ticks="outside", tickcolor="var(--strong-line)", nticks=9),
    paper_bgcolor="var(--paper)", plot_bgcolor="var(--paper)",
    margin={"l": 50, "r": 12, "t": 10, "b": 40}, height=None, hovermode="closest",
    legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0,
            "xanchor": "left", "bgcolor": "rgba(0,0,0,0)"},
)  # fmt: skip
"""The layout of every plot."""


def looks(rows: Iterable[tuple[str, int]]) -> dict[str, dict[str, str]]:
    """Colour and symbol of every mechanism, the same in all plots.

    Mechanisms that share a set differ; those of most sets come first.

    Args:
        rows: label and set of every row.
    """
    sets: dict[str, set[int]] = {}
    for label, at in rows:
        sets.setdefault(label, set()).add(at)
    numbers: dict[str, int] = {}
    for label in sorted(sets, key=lambda one: (-len(sets[one]), one)):
        taken = {numbers[other] for other in numbers if sets[other] & sets[label]}
        numbers[label] = next(at for at in range(len(numbers) + 1) if at not in taken)
    return {label: {"color": colour(at), "symbol": _SYMBOLS[at % len(_SYMBOLS)]}
            for label, at in numbers.items()}  # fmt: skip


_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star")


def _cross(symbol: str, size: int, ink: str) -> dict[str, Any]:
    return {"symbol": symbol, "size": size, "color": ink, "line": {"width": 2, "color": ink}}


MARKS = (
    ("dimmed", "open: dominated", _cross("circle-open", 10, "var(--muted)")),
    ("idle", "thin cross: learned nothing", _cross("cross-thin-open", 16, "var(--ink)")),
    ("one", "dot: one seed, no interval", {
        "symbol": "circle-dot", "size": 10, "color": "var(--muted)"}),
    ("refuted", "claim refuted by an attack", _cross("x-thin", 18, "var(--bad)")),
    ("protected", "declared protected point", _cross("circle-open", 15, "var(--muted)")),
    ("bound", "lower bound of an audit", _cross("arrow-bar-up", 12, "var(--muted)")),
)  # fmt: skip
"""Meanings of marks: their points, the words of the legend, and the marker."""


# ---------------------------------------------------------------------------------------- budgets


def budget(guarantee: Guarantee) -> str:
    """Unit, notion and adjacency: epsilons of other ones are never on one axis."""
    return f"{guarantee.unit}:{guarantee.notion}:{guarantee.adjacency}"


def epsilons(row: Row, budgets: Sequence[str]) -> dict[str, list[int | None]]:
    """Number of the guarantee that is a row's epsilon for each budget, by kind.

    -1 stands for infinity: the row promises nothing for the budget. None: nothing is known, for
    the row has guarantees of other units only.
    """
    return (
        {kind: [_epsilon(row, kind, key) for key in budgets] for kind in KINDS} if budgets else {}
    )


def _epsilon(row: Row, kind: str, key: str) -> int | None:
    unit, _, adjacency = key.split(":")
    mine = {at: one for at, one in enumerate(row.guarantees) if one.unit != "computation"}
    ours = {at: one for at, one in mine.items() if one.kind == kind}
    exact = [at for at, one in ours.items() if budget(one) == key and one.epsilon < math.inf]
    if exact:
        # All that is proven holds, so the least does; of claims the most cautious counts.
        pick = min if kind == "proven" else max
        return pick(exact, key=lambda at: row.guarantees[at].epsilon)
    refused = any((one.unit, one.adjacency, one.epsilon) == (unit, adjacency, math.inf)
                  for one in ours.values())  # fmt: skip
    proven = [one.epsilon for one in mine.values() if one.kind == "proven"]
    nothing = bool(proven) and min(proven) == math.inf
    if refused or (nothing and all(one.epsilon == math.inf for one in ours.values())):
        return -1
    return None


KINDS = ("proven", "claimed", "stated")


def finite_budgets(rows: Iterable[Row], kind: str = "") -> Counter[str]:
    """Number of rows with a finite epsilon, by budget."""
    return Counter(
        key
        for row in rows
        for key in dict.fromkeys(
            budget(one) for one in row.guarantees
            if one.unit != "computation" and one.epsilon < math.inf and kind in ("", one.kind)
        )
    )  # fmt: skip


def _label(key: str) -> str:
    unit, notion, adjacency = key.split(":")
    return f"{unit}, {adjacency}" + ("" if notion == "dp" else f", {notion}")


# ------------------------------------------------------------------------------------------- sets


def plots(board: Sequence[Row], columns: Sequence[Column]) -> dict[str, Any]:
    """Choices of the plots of a board, their defaults, and their axes.

    Args:
        board: rows whose utility compares.
        columns: columns of the table; see `table_columns.metric_columns`.
    """
    # A metric that nobody knows may have a direction, too.
    drawn = [column for column in columns if column["better"] or not column["about"]]
    stats = {column["key"]: _stats(board, column) for column in drawn}
    offers: dict[str, Any] = {
        kind: [c["key"] for c in drawn if c["kind"] == kind and stats[c["key"]]]
        for kind in ("utility", "leakage", "cost")
    }
    units = sorted(finite_budgets(board))
    stated = bool(finite_budgets(board, "stated"))
    offers |= {"unit": units, "kind": [*KINDS[: 2 + stated]] if units else []}
    start: dict[str, Any] = {kind: _first(offers[kind]) for kind in offers}
    ranked = f"utility.{headline(board[0])[0]}"
    start["utility"] = ranked if ranked in offers["utility"] else start["utility"]
    start["leakage"] = _main_leakage(board, [c for c in drawn if c["key"] in offers["leakage"]])
    if "cost.train_seconds" in offers["cost"]:
        start["cost"] = "cost.train_seconds"
    if units and not finite_budgets(board, "proven"):
        start["kind"] = "claimed"
    start["units"] = {
        kind: _first([key for key, _ in finite_budgets(board, kind).most_common()]) or start["unit"]
        for kind in offers["kind"]
    }
    axes = {c["key"]: _of_metric(board, c, stats[c["key"]]) for c in drawn if stats[c["key"]]}
    axes |= dict(_of_budgets(board, units, offers["kind"]))
    return {"offers": offers, "start": start, "units": {key: _label(key) for key in units},
            "axes": axes, "spread": spread(board)}  # fmt: skip


def _first(names: Sequence[str]) -> str:
    return names[0] if names else ""


def _stats(board: Sequence[Row], column: Column) -> list[Stat]:
    groups = (
        row.leakage.get(column["attack"], {}) if column["kind"] == "leakage"
        else getattr(row, column["kind"]) for row in board
    )  # fmt: skip
    return [group[column["name"]] for group in groups if column["name"] in group]


def _main_leakage(board: Sequence[Row], offered: Sequence[Column]) -> str:
    """The main metric of the attack that most rows have."""
    counts = Counter(attack for row in board for attack in dict.fromkeys(row.leakage))
    most = max((c["attack"] for c in offered), key=lambda one: counts[one], default="")
    mine = [c for c in offered if c["attack"] == most]
    main = [c for c in mine if c["main"]]
    return max(main or mine[:1], key=lambda c: len(_stats(board, c)), default={"key": ""})["key"]


def _of_metric(board: Sequence[Row], column: Column, stats: Sequence[Stat]) -> dict[str, Any]:
    by = 100.0 if column["percent"] else 1.0
    floors = [] if column["no_leak"] is None else [("where nothing leaks", [column["no_leak"]])]
    if column["key"] == f"utility.{headline(board[0])[0]}":
        floors += [(one.label, sorted({one.low, one.high})) for one in references(board)]
    low, high = float(column["low"]), float(column["high"])
    # No interval reaches further than honest values of its metric go.
    ends = [
        end * by
        for one in stats
        if one.low is not None and one.high is not None
        for end in (max(one.low, min(low, one.value)), min(one.high, max(high, one.value)))
    ]
    lines = [(name, end * by) for name, values in floors for end in values if math.isfinite(end)]
    shown = scale([*(one.value * by for one in stats), *(end for _, end in lines)],
                 log=column["kind"] != "leakage" and not column["percent"], ends=ends)  # fmt: skip
    texts = {name: between(min(values), max(values), by) for name, values in floors}
    named = [{"name": name, "text": texts[name], "value": _short(end)} for name, end in lines]
    return shown | ({"floors": named} if named else {})


def between(low: float, high: float, by: float) -> str:
    """A floor as text, from the least to the largest where rows have several."""
    return " to ".join(dict.fromkeys((number(low * by), number(high * by))))


def _of_budgets(
    board: Sequence[Row], units: Sequence[str], kinds: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in kinds:
        for key in units:
            chosen = [(row, _epsilon(row, kind, key)) for row in board]
            values = [math.inf if at < 0 else row.guarantees[at].epsilon
                      for row, at in chosen if at is not None]  # fmt: skip
            if min(values, default=math.inf) < math.inf:
                yield f"{kind}:{key}", scale(values, log=True, zero=True)


# ----------------------------------------------------------------------------------------- spread


def curve_budget(guarantee: Guarantee) -> str:
    """Kind and budget of a curve.

    Nothing may be promised for everybody's entity and yet much for one that few mention.
    """
    notion = "dp" if guarantee.notion == "none" else guarantee.notion
    return f"{guarantee.kind}:{guarantee.unit}:{notion}:{guarantee.adjacency}"


def spread(board: Sequence[Row]) -> dict[str, Any]:
    """Axes of the curves of user-entity guarantees, by kind and budget, the most frequent first."""
    curves: dict[str, list[Guarantee]] = {}
    for row in board:
        for one in row.guarantees:
            if one.curve:
                curves.setdefault(curve_budget(one), []).append(one)
    axes = {}
    for key, drawn in sorted(curves.items(), key=lambda one: -len(one[1])):
        bounds = [
            one
            for row in board
            for one in row.bounds
            if one.adjacency == key.rpartition(":")[2] and one.unit.startswith("user")
        ]
        x = [float(p.spread) for one in drawn for p in one.curve]
        y = [p.epsilon for one in drawn for p in one.curve] + [one.epsilon for one in bounds]
        enough = [one for one in y if one <= ENOUGH]
        y = y if math.inf in y or not enough else enough
        x += [float(one.spread or 0) for one in bounds]
        axes[key] = {"x": scale(x, log=True, zero=True), "y": scale(y, log=True)}
    return axes


ENOUGH = 1000.0
"""e to the power of so much promises nothing."""


# ------------------------------------------------------------------------------------------ scales


def scale(
    values: Sequence[float], *, log: bool, zero: bool = False, ends: Sequence[float] = ()
) -> dict[str, Any]:
    """An axis for values and the ends of their intervals.

    Args:
        values: values of the rows, finite or not.
        log: True if the axis may be logarithmic; it is where positive values span over a decade.
        zero: True to begin a linear axis at zero.
        ends: ends of intervals; they get room, but never so much that the values huddle.

    Returns:
        `frame`: Plotly's axis; `edges`: places of the values that have none, by value; `wall`:
        place where infinity begins; `least`: end of a logarithmic axis; `cut`: True if some
        interval leaves the axis.
    """
    positive = [one for one in values if 0.0 < one < math.inf]
    logarithmic = (
        log and min(values, default=-1.0) >= 0.0 and bool(positive)
        and max(positive) > 10.0 * min(positive)
    )  # fmt: skip

    def places(numbers: Iterable[float]) -> list[float]:
        # Far from what no float can be: axes end beyond their values.
        kept = [max(-_FAR, min(one, _FAR)) for one in numbers if math.isfinite(one)]
        if logarithmic:
            return [math.log10(max(one, 1.0 / _FAR)) for one in kept if one > 0.0]
        return kept

    def back(place: float) -> float:
        return 10.0 ** max(-300.0, min(place, 300.0)) if logarithmic else place

    low, high, cut = _extent(places([*values, *([0.0] if zero else [])]), places(ends))
    wide = high - low > 1e-6 * max(abs(low), abs(high))
    gap = 0.12 * (high - low if wide else abs(high) or 1.0)
    bottom, top = back(low - gap), back(high + gap)
    edges = {
        name: (bottom if value <= 0.0 else top, text)
        for value, name, text in _EDGES if value in values and (value != 0.0 or logarithmic)
    }  # fmt: skip
    sides = {place for place, _ in edges.values()}
    frame: dict[str, Any] = {
        "type": "log" if logarithmic else "linear",
        # Of logarithmic axes these are exponents.
        "range": [_short(low - gap * (1.5 if bottom in sides else 0.5)),
                  _short(high + gap * (1.5 if top in sides else 0.5))],
    }  # fmt: skip
    if edges or logarithmic:  # Plotly's own crowd on a logarithmic axis
        inner = back(low - gap / 2), back(high + gap / 2)
        ticks = _powers(*inner) if logarithmic else _steps(low, inner[1])
        own = [(one, _tick(one)) for one in ticks]
        own += [(place, f"<b>{text}</b>") for place, text in edges.values()]
        frame |= {"tickmode": "array", "tickvals": [_short(place) for place, _ in own],
                  "ticktext": [text for _, text in own]}  # fmt: skip
    return {
        "frame": frame,
        **({"edges": {name: _short(place) for name, (place, _) in edges.items()}} if edges else {}),
        **({"wall": _short(back(high + gap / 2))} if "Infinity" in edges else {}),
        **({"least": _short(bottom)} if logarithmic else {}), **({"cut": True} if cut else {}),
    }  # fmt: skip


def _short(value: float) -> float:
    return float(f"{value:.9g}")


_FAR = 1e300

_EDGES = ((-math.inf, "-Infinity", "-∞"), (0.0, "0", "0"), (math.inf, "Infinity", "∞"))


def _extent(places: Sequence[float], ends: Sequence[float]) -> tuple[float, float, bool]:
    """Least and largest of numbers and of the ends of intervals; True if some end is outside."""
    if not places:
        return 0.0, 1.0, False
    low, high = min(places), max(places)
    room = 0.3 * (high - low) if high > low else math.inf
    least, largest = min(low, low, *ends), max(high, high, *ends)
    cut = least < low - room or largest > high + room
    return max(least, low - room), min(largest, high + room), cut


def _steps(low: float, high: float) -> list[float]:
    """Three to seven round numbers from low to high."""
    rough = (high - low) / 5 or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * next(one for one in (1, 2, 5, 10) if one * size >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [at * step for at in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, and their two- and fivefold where these are few."""
    decades = math.log10(high) - math.log10(low)
    digits = (1, 2, 5) if decades < 2.5 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1,
                   max(1, math.ceil(decades / 7)))  # fmt: skip
    inside = [
        digit * 10.0**power
        for power in powers
        for digit in digits
        if low * 0.999 <= digit * 10.0**power <= high * 1.001
    ]
    return inside if len(inside) > 1 else [low, high]


def _tick(value: float) -> str:
    """A tick's text; powers of ten above a million or below a thousandth as such."""
    power = math.log10(abs(value)) if value else 0.0
    if abs(power - round(power)) < 1e-6 and (power > 5.5 or power < -3.5):
        return f"10<sup>{round(power)}</sup>"
    text = plain(number(float(f"{value:.6g}")))
    return text.rstrip("0").rstrip(".") if "." in text else text
