"""Rules that draw findings from results. A rule that finds nothing says nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.cell_text import SURE, number, strictest_against
from uedp_bench.leaderboard.front.dot_plot import Dot, DotPlot, Mark, spread
from uedp_bench.leaderboard.front.finding import (
    Board,
    Finding,
    Rule,
    axis,
    dot,
    first_page,
    guarantees,
    leading,
    leading_metric,
    leading_text,
    names,
    strongest,
    unprotected,
    value_text,
    where,
)
from uedp_bench.leaderboard.glossary.words import FLOORS, UNITS
from uedp_bench.leaderboard.metrics import metric
from uedp_bench.leaderboard.rows import Row, headline
from uedp_bench.results import LowerBound

MOST_DOTS = 8
"""Rows that a plot shows."""

BUDGET = 8.0
"""A proven epsilon that counts as protection."""

NEAR = 1.0
"""Bits above what is expected where nothing leaks that still count as nothing, the interval
considered."""

_EXPOSURE = "exposure_max_repeats"
_SHARER = "secret-sharer"


def findings(boards: Sequence[Board]) -> list[Finding]:
    """The strongest finding of every rule that has one, in the order of the rules."""
    found = (strongest([one for board in boards for one in rule(board)]) for rule in RULES)
    return [one for one in found if one is not None]


# ------------------------------------------------------------------------------------------ claims


def refuted_claims(board: Board) -> Sequence[Finding]:
    """Claims below what an attack surely found: the larger the ratio, the stronger."""
    return [
        _refuted(board, row, claim, bound)
        for row in board
        for claim in row.guarantees
        if claim.kind == "claimed" and claim.status == "refuted"
        for bound in [strictest_against(claim, row.lower_bounds)]
        if bound is not None
    ]


def _refuted(board: Board, row: Row, claim: Guarantee, bound: LowerBound) -> Finding:
    sure = bound.strict_epsilon or 0.0
    page = first_page(row)
    dots = [Dot("claimed", claim.epsilon, number(claim.epsilon), page=page, tone="bad")]
    dots += [Dot(f"at least, {SURE} sure", sure, number(sure), page=page, tone="subject")]
    if bound.epsilon > sure:
        told = f"at least, {100.0 * bound.confidence:.6g} % sure"
        dots.append(Dot(told, bound.epsilon, number(bound.epsilon), page=page))
    dots += [
        Dot(f"proven for {UNITS[one.unit]}", one.epsilon, number(one.epsilon), page=page)
        for one in guarantees(row, "proven", claim.unit)
    ]
    return Finding(
        "refuted-claim",
        "A claim that does not hold",
        (
            f"{row.label} claims ε = ", number(claim.epsilon),
            f" for {UNITS[claim.unit]}{_by_whom(claim)}. The attack {bound.attack} shows that ε is "
            "at least ", number(sure), f" ({SURE} sure): the claim does not hold.",
        ),
        DotPlot(f"ε for {UNITS[claim.unit]}, lower is more protection", tuple(dots)),
        board,
        (row,),
        math.inf if claim.epsilon <= 0 else sure / claim.epsilon,
    )  # fmt: skip


def _by_whom(claim: Guarantee) -> str:
    """Says of a claim that it is no paper's, where that is so."""
    return f" ({DECLARED})" if claim.accountant == DECLARED else ""


# ---------------------------------------------------------------------------------------- exposure


def _floor() -> float:
    """Bits of exposure that are expected where nothing leaks."""
    return metric("leakage", _EXPOSURE).nothing or 0.0


def _exposure(row: Row) -> float:
    """Mean exposure of a row, in bits; infinite where it has none."""
    stat = row.leakage.get(_SHARER, {}).get(_EXPOSURE)
    return math.inf if stat is None else stat.value


def _exposed(row: Row) -> float | None:
    """The least exposure of a row that its interval leaves, in bits; None without an interval."""
    stat = row.leakage.get(_SHARER, {}).get(_EXPOSURE)
    return None if stat is None else stat.low


def _exposure_text(row: Row) -> str:
    known = metric("leakage", _EXPOSURE)
    return value_text(known, _exposure(row))


def _exposures(board: Board) -> dict[str, Dot]:
    """Exposure of the rows of a board, by group."""
    known, called = metric("leakage", _EXPOSURE), names(board)
    return {
        row.group: dot(row, called[row.group], row.leakage[_SHARER][_EXPOSURE], known)
        for row in board
        if math.isfinite(_exposure(row))
    }


def _exposure_plot(dots: dict[str, Dot], subject: Row, reference: Row) -> DotPlot:
    """Exposures of a board, the two that matter marked."""
    tones = {subject.group: "subject", reference.group: "bad"}
    floor = Mark("where nothing leaks", _floor(), number(_floor()))
    known = metric("leakage", _EXPOSURE)
    return DotPlot(axis(known), spread(_toned(dots, tones), MOST_DOTS), (floor,))


def _toned(dots: dict[str, Dot], tones: dict[str, str]) -> list[Dot]:
    """The dots, some of them marked: thousands are made once, and not for every finding."""
    return [replace(one, tone=tones[name]) if name in tones else one for name, one in dots.items()]


def exposure_at_the_floor(board: Board) -> Sequence[Finding]:
    """The best row with a proven epsilon whose exposure is surely near that of nothing."""
    bare = unprotected(board)
    if bare is None or (_exposed(bare) or 0.0) <= _floor() + NEAR:
        return []
    for row in board:  # the best utility first
        stat = row.leakage.get(_SHARER, {}).get(_EXPOSURE)
        proven = guarantees(row, "proven")
        quiet = stat is not None and stat.high is not None and stat.high <= _floor() + NEAR
        if row.learned and proven and quiet and leading(row) is not None:
            break
    else:
        return []
    known = leading_metric(row)
    parts = (
        f"{row.label} is the cheapest protection of {where(board)} that brings the exposure of "
        "planted canaries to where nothing leaks: ", _exposure_text(row),
        f" (proven ε = {number(proven[0].epsilon)} for {UNITS[proven[0].unit]}), where ordinary "
        "training has ", _exposure_text(bare), f". It costs {known.label} ", leading_text(row),
        f" instead of {leading_text(bare)}.",
    )  # fmt: skip
    drop = _exposure(bare) - _exposure(row)
    return [
        Finding("exposure-at-the-floor", "The cheapest protection that brings exposure down",
                parts, _exposure_plot(_exposures(board), row, bare), board, (row, bare), drop)
    ]  # fmt: skip


def deidentified_leaks(board: Board) -> Sequence[Finding]:
    """De-identified text of which a model still remembers canaries."""
    bare = unprotected(board)
    if bare is None or _exposed(bare) is None:
        return []
    dots = _exposures(board)
    return [
        _deidentified(board, row, bare, dots)
        for row in board
        if {part.name for part in row.spec.mechanism} - {"noiseless"} == {"deidentify"}
        and (_exposed(row) or 0.0) > _floor() + NEAR
    ]


def _deidentified(board: Board, row: Row, bare: Row, dots: dict[str, Dot]) -> Finding:
    parts = (
        f"After de-identification, a model of {where(board)} still remembers planted canaries: "
        "exposure ", _exposure_text(row), ", where ordinary training has ", _exposure_text(bare),
        f" and {number(_floor())} are expected where nothing leaks.",
    )  # fmt: skip
    strength = _exposure(row) - _floor()
    return Finding("de-identification-leaks", "De-identification that leaks", parts,
                   _exposure_plot(dots, row, bare), board, (row, bare), strength)  # fmt: skip


# ----------------------------------------------------------------------------------------- utility


def _utilities(board: Board) -> dict[str, Dot]:
    """What ranks the rows of a board, by group."""
    called, known = names(board), leading_metric(board[0])
    found = ((row, leading(row)) for row in board)
    return {
        row.group: dot(row, called[row.group], stat, known)
        for row, stat in found
        if stat is not None and math.isfinite(stat.value)
    }


def _utility_plot(
    board: Board, dots: dict[str, Dot], subject: Row, marks: Sequence[Mark]
) -> DotPlot:
    """Utilities of a board, the one that matters marked."""
    toned = _toned(dots, {subject.group: "subject"})
    return DotPlot(axis(leading_metric(board[0])), spread(toned, MOST_DOTS), tuple(marks))


def _floors(row: Row, only: Sequence[str] = ()) -> list[Mark]:
    known = leading_metric(row)
    scale = 100.0 if known.percent else 1.0
    return [
        Mark(name, stat.value * scale, value_text(known, stat.value))
        for name, stat in row.floors.items()
        if math.isfinite(stat.value) and (not only or name in only)
    ]


def best_for_persons(board: Board) -> Sequence[Finding]:
    """The best row with a proven epsilon for persons, between public text and no protection."""
    bare = unprotected(board)
    first = leading(bare) if bare is not None else None
    if bare is None or first is None:
        return []
    for row in board:  # the best utility first
        proven = [one for one in guarantees(row, "proven", "user") if one.epsilon <= BUDGET]
        stat, public = leading(row), row.floors.get("public-only")
        if row.learned and proven and stat and public and public.value != first.value:
            break
    else:
        return []
    share = (public.value - stat.value) / (public.value - first.value)
    known = leading_metric(row)
    parts = (
        f"{where(board)}: at a proven ε of ", number(proven[0].epsilon),
        f" for a person, {row.label} reaches {known.label} ", leading_text(row),
        f". Public text alone gives {value_text(known, public.value)}, ordinary training "
        f"{leading_text(bare)}: that is ", f"{number(100.0 * share)} %", " of the way.",
    )  # fmt: skip
    among = [one for one in board if one in (row, bare) or guarantees(one, "proven", "user")]
    plot = _utility_plot(among, _utilities(among), row, _floors(row, ("public-only",)))
    return [Finding("best-for-persons", "What protecting a person costs", parts, plot,
                    board, (row, bare), share)]  # fmt: skip


def learned_nothing(board: Board) -> Sequence[Finding]:
    """Rows that claim a finite epsilon, and are worse than what needs no private text."""
    return list(_idle(board))


def _idle(board: Board) -> Iterator[Finding]:
    larger = headline(board[0])[1]
    called, dots = names(board), _utilities(board)
    for row in board:
        claims, stat = guarantees(row, "claimed"), leading(row)
        if row.learned is not False or not claims or stat is None or not row.floors:
            continue
        # A budget that nobody would call protection makes no finding.
        if claims[0].epsilon > BUDGET or not math.isfinite(stat.value):
            continue
        name = (max if larger else min)(row.floors, key=lambda one: row.floors[one].value)
        floor = row.floors[name].value
        better, worse = (stat.value, floor) if larger else (floor, stat.value)
        known = leading_metric(row)
        parts = (
            "At the ε = ", number(claims[0].epsilon),
            f" that it claims for {UNITS[claims[0].unit]}{_by_whom(claims[0])}, "
            f"{called[row.group]} learns nothing of {where(board)}: {known.label} ",
            leading_text(row), f", where {FLOORS.get(name, name)} reaches ",
            value_text(known, floor), ".",
        )  # fmt: skip
        plot = _utility_plot(board, dots, row, _floors(row, (name,)))
        strength = math.inf if better <= 0 else worse / better
        yield Finding("learned-nothing", "A mechanism that learns nothing", parts, plot, board,
                      (row,), strength)  # fmt: skip


RULES: tuple[Rule, ...] = (
    refuted_claims, best_for_persons, exposure_at_the_floor, deidentified_leaks, learned_nothing,
)  # fmt: skip
"""In the order in which the page shows them."""
