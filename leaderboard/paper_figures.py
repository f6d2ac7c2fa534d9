"""Figures of a board for a paper: utility against epsilon, and leakage, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from uedp_bench.components.metric import Metric
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.leaderboard.boards import boards, labels, title
from uedp_bench.leaderboard.comparisons import references
from uedp_bench.leaderboard.rows import Row, Stat, headline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["utility-vs-epsilon", "leakage"]
KINDS: tuple[Kind, ...] = ("utility-vs-epsilon", "leakage")

ENDINGS = (".pdf", ".svg", ".png")

MANY_TIMES = 20.0
"""Values further apart than this stand on a logarithmic axis."""


def draw(rows: Sequence[Row], kind: Kind, out: Path, *, metric: str = "", unit: str = "") -> None:
    """Write one figure of one board; the same rows give the same bytes.

    Args:
        rows: rows of one board.
        kind: "utility-vs-epsilon": the headline against proven epsilon, with floors and baselines
            as lines, and rows that learned nothing hollow; "leakage": a metric of an attack for
            every row, with its value of no leak.
        out: file; its ending is the format.
        metric: metric of the vertical axis, `ATTACK.METRIC` of leakage; the main one by default.
        unit: unit whose proven epsilon is the horizontal axis; the one that most rows prove.

    Raises:
        InputError: if the rows stand on several boards, nothing can be drawn, or a name is unknown.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if out.suffix not in ENDINGS:
        raise InputError(f"--out {out}: the ending is one of {', '.join(ENDINGS)}")
    tables = boards(rows)
    if len(tables) != 1:
        names = "; ".join(title(board) for board in tables)
        raise InputError(
            f"{len(tables)} boards: choose one by --results, --task and --source: {names}"
        )
    with rc_context({"svg.hashsalt": "uedp-bench", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        if kind == "leakage":
            _leakage(figure, tables[0], metric)
        else:
            _utility(figure, tables[0], metric, unit)
        stamp = {".pdf": "CreationDate", ".svg": "Date"}.get(out.suffix)
        try:
            figure.savefig(out, dpi=300, metadata={stamp: None} if stamp else None)
        except OSError as error:
            raise InputError(f"--out {out}: {error.strerror}") from None


def _utility(figure: Figure, board: Sequence[Row], metric: str, unit: str) -> None:
    name = metric or headline(board[0])[0] or ""
    stats = [row.utility.get(name) for row in board]
    if not any(stats):
        raise UnknownNameError("metric of these rows", name, {n for r in board for n in r.utility})
    shown, epsilons = _epsilons(board, unit)
    finite = [epsilon for epsilon in epsilons if 0.0 < epsilon < math.inf]
    if not finite:
        raise InputError("no row has a finite proven epsilon above 0: draw leakage")
    low, high = min(finite), max(finite)
    gap = max(high / low, 10.0) ** 0.25
    before, beyond = low / gap, high * gap  # places of 0 and of infinity
    axes = figure.add_subplot()
    axes.set_xscale("log")
    values = [stat.value for stat in stats if stat is not None and 0.0 < stat.value < math.inf]
    if values and max(values) > MANY_TIMES * min(values):
        axes.set_yscale("log")
    for at, (row, label, stat, epsilon) in enumerate(
        zip(board, _titles(board), stats, epsilons, strict=True)
    ):
        if stat is not None and math.isfinite(stat.value):
            place = min(max(epsilon, before), beyond)
            hollow = row.learned is False
            _point(axes, at, (place, stat.value), label, errors=_ends(stat), hollow=hollow)
    if name == headline(board[0])[0]:
        for line in references(board):
            axes.axhline(line.low, color="0.6", linewidth=0.7, linestyle=":", zorder=0)
            axes.annotate(
                f"{line.kind}: {line.name}", (0.01, line.low), xycoords=("axes fraction", "data"),
                fontsize=6, color="0.4", va="bottom",
            )  # fmt: skip
    ticks = _apart(sorted({*finite}), math.log(beyond / low))
    ends = ([before] if 0.0 in epsilons else []), ([beyond] if math.inf in epsilons else [])
    axes.set_xticks(
        [*ends[0], *ticks, *ends[1]],
        [*("0" for _ in ends[0]), *(f"{tick:.3g}" for tick in ticks), *("∞" for _ in ends[1])],
    )
    axes.minorticks_off()
    deltas = ", ".join(f"{delta:g}" for delta in sorted({row.spec.delta for row in board}))
    axes.set_xlabel(f"proven ε, {shown} (δ = {deltas})")
    axes.set_ylabel(_axis_label(board[0].metrics.metric("utility", name)))
    figure.legend(loc="outside lower center", ncols=2, fontsize=6, frameon=False)


def _epsilons(board: Sequence[Row], unit: str) -> tuple[str, list[float]]:
    """The unit and its adjacencies, and each row's least proven epsilon; infinity for none."""
    units = [
        g.unit for row in board for g in row.guarantees
        if g.kind == "proven" and g.notion == "dp" and g.epsilon < math.inf
    ]  # fmt: skip
    if unit and unit not in units:
        raise UnknownNameError("proven unit of these rows", unit, set(units))
    wanted = unit or next((one for one, _ in Counter(units).most_common(1)), "")
    key = ("proven", wanted, "dp")
    proofs = [[g for g in row.guarantees if (g.kind, g.unit, g.notion) == key] for row in board]
    adjacencies = dict.fromkeys(g.adjacency for each in proofs for g in each)
    return f"{wanted}, {' and '.join(adjacencies)}", [
        min((g.epsilon for g in each), default=math.inf) for each in proofs
    ]


def _titles(board: Sequence[Row]) -> list[str]:
    """Names of rows, of which no sign is a formula and none hides its row from the legend."""
    return [f" {label}".replace("$", r"\$") for label in labels(board)]


def _apart(values: Sequence[float], width: float) -> list[float]:
    """Values whose labels have room on a logarithmic axis of this width."""
    kept: list[float] = []
    for value in values:
        if not kept or math.log(value / kept[-1]) > width / 12.0:
            kept.append(value)
    return kept


def _leakage(figure: Figure, board: Sequence[Row], metric: str) -> None:
    declared = {
        f"{attack}.{name}": row.metrics.metric("leakage", name, attack)
        for row in board
        for attack, stats in row.leakage.items()
        for name in stats
    }
    if not declared:
        raise InputError("no attack measured these rows")
    wanted = metric or next((n for n, m in declared.items() if m.main), next(iter(declared)))
    if wanted not in declared:
        raise UnknownNameError("leakage of these rows", wanted, set(declared))
    attack, _, name = wanted.partition(".")
    axes = figure.add_subplot()
    titles: list[str] = []
    for row, label in zip(board, _titles(board), strict=True):
        stat = row.leakage.get(attack, {}).get(name)
        if stat is not None and math.isfinite(stat.value):
            ends = _ends(stat)
            _point(axes, 0, (stat.value, float(len(titles))), "", errors=ends, level=True)
            titles.append(label)
    if (chance := declared[wanted].no_leak) is not None:
        axes.axvline(chance, color="0.6", linewidth=0.7, linestyle=":", zorder=0)
    axes.set_yticks(range(len(titles)), titles)
    axes.invert_yaxis()
    axes.set_xlabel(f"{attack}: {_axis_label(declared[wanted])}")


def _axis_label(metric: Metric) -> str:
    label = metric.label or metric.name
    return f"{label} ({metric.unit})" if metric.unit else label


def _ends(stat: Stat) -> tuple[float, float] | None:
    """Lengths of the interval's arms; None where it has no finite ends."""
    if stat.low is None or stat.high is None or math.isinf(stat.low) or math.isinf(stat.high):
        return None
    return max(stat.value - stat.low, 0.0), max(stat.high - stat.value, 0.0)


def _point(
    axes: Axes, at: int, place: tuple[float, float], label: str,
    *, errors: tuple[float, float] | None, level: bool = False, hollow: bool = False,
) -> None:  # fmt: skip
    arms = None if errors is None else [[errors[0]], [errors[1]]]
    axes.errorbar(
        *place, xerr=arms if level else None, yerr=None if level else arms,
        fmt="osD^vX*P"[at % 8], color=f"C{at % 10}", fillstyle="none" if hollow else "full",
        capsize=2, markersize=4, linewidth=0.8, label=label or None,
    )  # fmt: skip
