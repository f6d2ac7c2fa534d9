"""Rules that draw findings from results. A rule that finds nothing says nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import LowerBound
from uedp_bench.leaderboard.board_cells import measured
from uedp_bench.leaderboard.cell_text import SURE, number, strictest_against
from uedp_bench.leaderboard.comparisons import BETTER, WHY, better_than_unprotected, unprotected
from uedp_bench.leaderboard.findings import (
    Board,
    Dot,
    DotPlot,
    Finding,
    Mark,
    Rule,
    axis,
    dot,
    first_page,
    leading,
    leading_metric,
    leading_text,
    leaks,
    names,
    spread,
    strongest,
    where,
)
from uedp_bench.leaderboard.glossary import FLOORS, UNITS
from uedp_bench.leaderboard.rows import Row, Stat, guarantees, headline
from uedp_bench.leaderboard.table_columns import value_text

MOST_DOTS = 8
"""Rows that a plot shows."""

BUDGET = 8.0
"""A proven epsilon that counts as protection."""

LEAST_SEEDS = 2
"""Seeds of each row of a finding."""

DIVERGED = 100.0
"""A perplexity this many times that of the best floor is above that of guessing at random."""

NEAR = 1.0
"""Bits above what is expected where nothing leaks that still count as nothing, the interval
considered."""


def findings(boards: Sequence[Board]) -> list[Finding]:
    """The strongest sound finding of every rule that has one, in the order of the rules."""
    strongest_findings = (
        strongest([one for board in boards for one in rule(board) if is_sound(one)])
        for rule in RULES
    )
    return [one for one in strongest_findings if one is not None]


def is_sound(one: Finding) -> bool:
    """True if every row that a finding speaks of has two seeds or more, and trained to an end.

    A model that is worse than its best floor by a factor of `DIVERGED` has learnt something wrong,
    and says nothing of its mechanism.
    """
    return all(len(row.seeds) >= LEAST_SEEDS and not _diverged(row) for row in one.rows)


def _diverged(row: Row) -> bool:
    stat, (_, larger) = leading(row), headline(row)
    if stat is None or not math.isfinite(stat.value):
        return True
    floors = [floor.value for floor in row.floors.values() if math.isfinite(floor.value)]
    return not larger and bool(floors) and stat.value > DIVERGED * min(floors)


# ------------------------------------------------------------------------------------------ claims


def refuted_claims(board: Board) -> Sequence[Finding]:
    """Claims below what an attack surely found: the larger the ratio, the stronger."""
    return [
        _refuted(board, row, claim, bound)
        for row in board
        if row.learned is not False
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
        label = f"at least, {100.0 * bound.confidence:.6g} % sure"
        dots.append(Dot(label, bound.epsilon, number(bound.epsilon), page=page))
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


# ------------------------------------------------------------------------------------------- leaks


@dataclass(frozen=True)
class Leak:
    """A metric in bits of which it is declared what it is where nothing leaks."""

    attack: str
    metric: Metric
    floor: float

    @property
    def name(self) -> str:
        """The metric and its attack in a sentence."""
        return f"{self.metric.label} ({self.attack})"

    def stat(self, row: Row) -> Stat | None:
        """Bits of a row."""
        return row.leakage.get(self.attack, {}).get(self.metric.name)

    def text(self, row: Row) -> str:
        """Mean of a row, which has one, with its unit."""
        stat = self.stat(row)
        return "" if stat is None else value_text(self.metric, stat.value)

    def surely_leaks(self, row: Row) -> bool:
        """True if a row surely leaks more than next to nothing."""
        stat = self.stat(row)
        return stat is not None and stat.low is not None and stat.low > self.floor + NEAR

    def hidden(self, row: Row) -> bool:
        """True if a row surely leaks next to nothing."""
        stat = self.stat(row)
        return stat is not None and stat.high is not None and stat.high <= self.floor + NEAR

    def apart(self, row: Row, other: Row | None = None) -> float:
        """Bits by which a row leaks more than another, or than where nothing leaks."""
        stat, less = self.stat(row), None if other is None else self.stat(other)
        value = math.inf if stat is None else stat.value
        return value - (self.floor if less is None else less.value)

    def plot(self, board: Board, subject: Row, reference: Row) -> DotPlot:
        """Bits of a board, the two rows that matter marked."""
        tones = {subject.group: "subject", reference.group: "bad"}
        dots = {row.group: dot(row, label, stat, self.metric)
                for row, label in zip(board, names(board).values(), strict=True)
                if (stat := self.stat(row)) is not None and math.isfinite(stat.value)}  # fmt: skip
        mark = Mark("where nothing leaks", self.floor, number(self.floor))
        return DotPlot(axis(self.metric), spread(_toned(dots, tones), MOST_DOTS), (mark,))


def _leak(row: Row) -> Leak | None:
    """The first main metric in bits of the first attack that has one."""
    for attack in row.leakage:
        for metric in measured([row], "leakage", attack):
            leaks = metric.main and metric.better == "lower" and metric.unit == "bits"
            if leaks and metric.no_leak is not None:
                return Leak(attack, metric, metric.no_leak)
    return None


def _toned(dots: dict[str, Dot], tones: dict[str, str]) -> list[Dot]:
    """The dots, some of them marked: thousands are made once, and not for every finding."""
    return [replace(one, tone=tones[name]) if name in tones else one for name, one in dots.items()]


def leak_at_the_floor(board: Board) -> Sequence[Finding]:
    """The best row with a proven epsilon that surely leaks next to nothing, where training does."""
    bare = _upper_end(board)
    leak = None if bare is None else _leak(bare)
    if bare is None or leak is None or not leak.surely_leaks(bare):
        return []
    for row in board:  # the best utility first
        proven = guarantees(row, "proven")
        if row.learned and proven and leak.hidden(row) and leading(row) is not None:
            break
    else:
        return []
    metric = leading_metric(row)
    parts = (
        f"{row.label} is the cheapest protection of {where(board)} that brings {leak.name} to "
        "where nothing leaks: ", leak.text(row),
        f" (proven ε = {number(proven[0].epsilon)} for {UNITS[proven[0].unit]}), where ordinary "
        "training has ", leak.text(bare), f". It costs {metric.label} ", leading_text(row),
        f" instead of {leading_text(bare)}.",
    )  # fmt: skip
    return [
        Finding("leak-at-the-floor", "The cheapest protection that stops a leak",
                parts, leak.plot(board, row, bare), board, (row, bare), leak.apart(bare, row))
    ]  # fmt: skip


def unproven_leaks(board: Board) -> Sequence[Finding]:
    """Protections of another unit than that of training which promise nothing, and leak."""
    bare = _upper_end(board)
    leak = None if bare is None else _leak(bare)
    if bare is None or leak is None:
        return []
    trained = {one.unit for one in bare.guarantees}
    return [
        _unproven(board, row, bare, leak)
        for row in board
        if {one.unit for one in row.guarantees} - trained
        and not any(math.isfinite(one.epsilon) for one in row.guarantees)
        and leak.surely_leaks(row)
    ]


def _unproven(board: Board, row: Row, bare: Row, leak: Leak) -> Finding:
    parts = (
        f"After {row.label}, which promises nothing, a model of {where(board)} still leaks: "
        f"{leak.name} is ", leak.text(row), ", where ordinary training has ", leak.text(bare),
        f" and {number(leak.floor)} are expected where nothing leaks.",
    )  # fmt: skip
    return Finding("unproven-leaks", "A protection without a proof that leaks", parts,
                   leak.plot(board, row, bare), board, (row, bare), leak.apart(row))  # fmt: skip


def _upper_end(board: Board) -> Row | None:
    """The unprotected row of a board, unless it learned nothing."""
    bare = unprotected(board)
    return None if bare is None or bare.learned is False else bare


# ----------------------------------------------------------------------------------------- utility


def _utilities(board: Board) -> dict[str, Dot]:
    """Values of the metric that ranks the rows of a board, by group."""
    called, metric = names(board), leading_metric(board[0])
    ranked = ((row, leading(row)) for row in board)
    return {
        row.group: dot(row, called[row.group], stat, metric)
        for row, stat in ranked
        if stat is not None and math.isfinite(stat.value)
    }


def _utility_plot(
    board: Board, dots: dict[str, Dot], subject: Row, marks: Sequence[Mark]
) -> DotPlot:
    """Utilities of a board, the one that matters marked."""
    toned = _toned(dots, {subject.group: "subject"})
    return DotPlot(axis(leading_metric(board[0])), spread(toned, MOST_DOTS), tuple(marks))


def _floors(row: Row, only: Sequence[str] = ()) -> list[Mark]:
    metric = leading_metric(row)
    scale = 100.0 if metric.percent else 1.0
    return [
        Mark(name, stat.value * scale, value_text(metric, stat.value))
        for name, stat in row.floors.items()
        if math.isfinite(stat.value) and (not only or name in only)
    ]


def best_for_persons(board: Board) -> Sequence[Finding]:
    """The best row with a proven epsilon for persons, between public text and no protection."""
    bare = _upper_end(board)
    first = leading(bare) if bare is not None else None
    if bare is None or first is None or better_than_unprotected(board):
        return []
    for row in board:  # the best utility first
        proven = [one for one in guarantees(row, "proven", "user") if one.epsilon <= BUDGET]
        stat, public = leading(row), row.floors.get("public-only")
        if row.learned and proven and stat and public and public.value != first.value:
            share = (public.value - stat.value) / (public.value - first.value)
            if not 0.0 <= share <= 1.0:
                return []
            break
    else:
        return []
    metric = leading_metric(row)
    parts = (
        f"{where(board)}: at a proven ε of ", number(proven[0].epsilon),
        f" for a person, {row.label} reaches {metric.label} ", leading_text(row),
        f". Public text alone gives {value_text(metric, public.value)}, ordinary training "
        f"{leading_text(bare)}: that is ", f"{number(100.0 * share)} %",
        f" of the way. {_still_found(row)}",
    )  # fmt: skip
    among = [one for one in board if one in (row, bare) or guarantees(one, "proven", "user")]
    plot = _utility_plot(among, _utilities(among), row, _floors(row, ("public-only",)))
    return [Finding("best-for-persons", "What protecting a person costs", parts, plot,
                    board, (row, bare), share)]  # fmt: skip


def _still_found(row: Row) -> str:
    """Sentence on the leakage that attacks still find in a row."""
    leaks_text = "; ".join(f"{what} {value}" for what, value in leaks(row))
    return f"Attacks still find: {leaks_text}." if leaks_text else "No attack was run on it."


def under_trained(board: Board) -> Sequence[Finding]:
    """Private rows that beat the unprotected one: the larger the difference, the stronger."""
    better, bare = better_than_unprotected(board), unprotected(board)
    row = next((row for row in board if row.group in better and row.learned is not False), None)
    if row is None or bare is None:
        return []
    metric, (stat, first) = leading_metric(row), (leading(row), leading(bare))
    if stat is None or first is None:
        return []
    parts = (
        f"{where(board)}: {row.label} reaches {metric.label} ", leading_text(row), ", ordinary "
        "training ", leading_text(bare), f". It is {BETTER}: {WHY}, and nothing there says what "
        "privacy costs.",
    )  # fmt: skip
    among = [one for one in board if one is bare or one.group in better]
    dots = {name: replace(one, tone="bad") if name == bare.group else one
            for name, one in _utilities(among).items()}  # fmt: skip
    plot = _utility_plot(among, dots, row, _floors(row))
    strength = abs(stat.value - first.value) / max(abs(first.value), 1e-300)
    return [Finding("under-trained", "An unprotected row that is under-trained", parts, plot,
                    board, (row, bare), strength)]  # fmt: skip


def learned_nothing(board: Board) -> Iterator[Finding]:
    """Rows that claim a finite epsilon, and are worse than what needs no private text."""
    larger = headline(board[0])[1]
    called, dots = names(board), _utilities(board)
    for row in board:
        claims, stat = guarantees(row, "claimed"), leading(row)
        if row.learned is not False or not claims or not row.floors:
            continue
        # A budget that nobody would call protection makes no finding.
        if claims[0].epsilon > BUDGET or stat is None or not math.isfinite(stat.value):
            continue
        name = (max if larger else min)(row.floors, key=lambda one: row.floors[one].value)
        floor = row.floors[name].value
        better, worse = (stat.value, floor) if larger else (floor, stat.value)
        metric = leading_metric(row)
        parts = (
            "At the ε = ", number(claims[0].epsilon),
            f" that it claims for {UNITS[claims[0].unit]}{_by_whom(claims[0])}, "
            f"{called[row.group]} learns nothing of {where(board)}: {metric.label} ",
            leading_text(row), f", where {FLOORS.get(name, name)} reaches ",
            value_text(metric, floor), ".",
        )  # fmt: skip
        plot = _utility_plot(board, dots, row, _floors(row, (name,)))
        strength = math.inf if better <= 0 else worse / better
        yield Finding("learned-nothing", "A mechanism that learns nothing", parts, plot, board,
                      (row,), strength)  # fmt: skip


RULES: tuple[Rule, ...] = (
    refuted_claims, best_for_persons, leak_at_the_floor, unproven_leaks, learned_nothing,
    under_trained,
)  # fmt: skip
"""In the order in which the page shows them."""
