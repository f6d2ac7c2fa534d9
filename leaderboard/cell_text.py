"""Numbers, guarantees and lower bounds as the text of one cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.bounds.consistency import STRICT_ERROR
from uedp_bench.contracts.results import LowerBound
from uedp_bench.leaderboard.rows import Row, Stat

NONE = "–"


def number(value: float) -> str:
    """Three figures, or four where they are whole; extreme ones with an exponent; infinity is ∞."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.2e}" if _extreme(value) else f"{value:,.{_decimals(value)}f}"


def _extreme(value: float) -> bool:
    """True if a number is too large, or too small, to be read with all its zeros."""
    return _LARGE <= abs(value) < math.inf or 0.0 < abs(value) < _SMALL


_LARGE, _SMALL = 1e15, 5e-7


def _decimals(value: float) -> int:
    size = abs(value)
    if size >= 100 or size == 0:
        return 0
    return 1 if size >= 10 else 2 if size >= 0.1 else min(6, 1 - math.floor(math.log10(size)))


def stat_text(
    stat: Stat | None,
    scale: float = 1.0,
    plain: bool = False,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> str:
    """Mean and interval over seeds; the mean alone where there is none, or `plain`.

    Args:
        stat: value over seeds; None for a dash.
        scale: scale of the numbers that are printed.
        plain: True to leave the interval out.
        limits: limits of the metric; an interval that reaches from one to the other says nothing.

    Returns:
        Half of the interval after ±; its ends where the mean is not in its middle.
    """
    if stat is None:
        return NONE
    value = stat.value * scale
    if plain or stat.low is None or stat.high is None or math.isinf(value):
        return number(value)
    if stat.low <= limits[0] and stat.high >= limits[1]:
        return f"{number(value)} ({FEW_SEEDS})"
    low, high = stat.low * scale, stat.high * scale
    half = (high - low) / 2
    if _extreme(value) or half >= _LARGE:
        return f"{number(value)} ±{number(half)}"
    if abs((low + high) / 2 - value) > max(0.01 * half, 1e-9 * abs(value)):
        return f"{number(value)} ({number(low)} to {number(high)})"
    return f"{number(value)} ±{half:,.{_decimals(value)}f}"


def counted_text(text: str, stat: Stat, seeds: int) -> str:
    """The text of a mean, with the number of its seeds where they are fewer than so many."""
    return f"{text} (n = {stat.n})" if stat.n < seeds else text


FEW_SEEDS = "too few seeds"
"""Stands in place of an interval that holds every possible value."""


def seeds_text(row: Row) -> str:
    """Numbers of finished and of failed seeds."""
    failed = f" ({len(row.failed)} failed)" if row.failed else ""
    return f"{len(row.seeds)}{failed}"


def guarantees_text(row: Row, kind: str) -> str:
    """All guarantees of a kind, a line each; a dash for none."""
    texts = [guarantee_text(g) for g in row.guarantees if g.kind == kind]
    if any(g.notion == "metric-dp" for g in row.guarantees if g.kind == kind):
        texts += [f"({text})" for text in at_distances(row.epsilon_at)]
    return "\n".join(dict.fromkeys(texts)) or NONE


def guarantee_text(g: Guarantee) -> str:
    """Epsilon, its unit and the point of its curve; or that it was refused."""
    if g.status == "refused":
        return f"refused ({g.unit})"
    point = ""
    if g.protected is not None and g.curve:
        spread = g.protected.spread
        at = next((p for p in g.curve if (p.spread, p.epsilon) == (spread, g.epsilon)), None)
        point = f" ({_others(spread, g.protected.sentences if at is None else at.sentences)})"
    distance = f", {PER_DISTANCE}" if g.notion == "metric-dp" else ""
    if g.notion == "simulation":
        return f"{g.unit}: simulated"
    declared = f", {DECLARED}" if g.accountant == DECLARED else ""
    refuted = ", refuted" if g.status == "refuted" else ""
    return f"{number(g.epsilon)} {g.unit}{point}{distance}{_at_delta_zero(g)}{declared}{refuted}"


def _at_delta_zero(g: Guarantee) -> str:
    """Marks an epsilon at delta 0, which compares with none at another delta, or gives it too."""
    if g.pure is not None:
        return f" ({number(g.pure)} at δ = 0)"
    return " (δ = 0)" if g.delta == 0.0 and g.notion == "dp" and 0.0 < g.epsilon < math.inf else ""


PER_DISTANCE = "per unit of distance"
"""Says what an epsilon of metric DP is: it compares with no other."""


def at_distances(epsilons: Mapping[str, Stat]) -> list[str]:
    """Epsilon of metric DP between words that are as far apart as the median pairs of each kind."""
    return [
        f"{number(stat.value)} at the median {name.removesuffix(_MEDIAN)}"
        for name, stat in epsilons.items()
        if name.endswith(_MEDIAN)
    ]


_MEDIAN = ", 50th percentile"


def _others(spread: int, sentences: int | None) -> str:
    """A point of the curve: who else may mention the entity."""
    if spread == 0:
        return "no others"
    if sentences is None:
        return f"{spread} other{'s' * (spread > 1)}"
    if sentences == spread:
        return "1 other's sentence" if spread == 1 else f"{spread} others' sentences"
    return f"{spread} other{'s' * (spread > 1)}, {sentences} sentences"


def bounds_text(row: Row) -> str:
    """All lower bounds, a line each; a dash for none."""
    texts = [bound_text(bound, row.guarantees) for bound in row.bounds]
    return "\n".join(dict.fromkeys(texts)) or NONE


def bound_text(bound: LowerBound, guarantees: Sequence[Guarantee] = ()) -> str:
    """Epsilon, its unit and point, and the confidence with which it is at least that.

    Args:
        bound: lower bound from an attack.
        guarantees: guarantees of the same row. Where a claim among them is refuted, the text has
            the bound that refutes it, at the confidence that no chance may fail.
    """
    point = "" if bound.spread is None else f"{_others(bound.spread, bound.sentences)}; "
    assumed = "; assumed" if bound.assumptions else ""
    confidence = f"{100.0 * bound.confidence:.6g} %"
    text = f"{number(bound.epsilon)} {bound.unit} ({point}{confidence}{assumed})"
    strict = bound.strict_epsilon
    if strict is None or confidence == SURE or not any(_refuted(g, bound) for g in guarantees):
        return text
    return f"{text}, {number(strict)} ({SURE})"


SURE = f"{100.0 * (1.0 - STRICT_ERROR):.6g} %"
"""Confidence of what refutes claims."""


def _refuted(claim: Guarantee, bound: LowerBound) -> bool:
    """True if a bound may be what refuted a claim."""
    strict = bound.strict_epsilon or 0.0
    return (
        claim.status == "refuted" and claim.adjacency == bound.adjacency and strict > claim.epsilon
    )


def strictest_against(claim: Guarantee, bounds: Sequence[LowerBound]) -> LowerBound | None:
    """The bound that most surely refutes a claim, at the confidence that no chance may fail.

    A bound for users speaks of claims for users with an entity, too. None where no bound does.
    """
    refuting = [
        bound
        for bound in bounds
        if _refuted(claim, bound)
        and (bound.unit == claim.unit or (bound.unit, claim.unit) == ("user", "user-entity"))
    ]
    return max(refuting, key=lambda bound: bound.strict_epsilon or 0.0, default=None)
