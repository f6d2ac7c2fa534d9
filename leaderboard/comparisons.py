"""Comparisons of a row with its board: unprotected row, cheap baselines, verdicts on attacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.bounds.ceilings import RATES
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.leaderboard.boards import boards, is_unprotected
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.over_seeds import AREA, RATE
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.run_pages.in_words import Sentence

BETTER = "better than the unprotected row"
"""Marks a private row that beats the unprotected one."""

WHY = "the unprotected row is under-trained"


@dataclass(frozen=True)
class Reference:
    """A line below the rows of a table.

    Attributes:
        kind: "floor": needs no private text, or next to none; "baseline": a cheap model of the
            private training text, without privacy.
        name: name of the baseline or floor.
        low, high: least and largest value among the rows of the table.
    """

    kind: str
    name: str
    low: float
    high: float

    @property
    def label(self) -> str:
        """Kind and name, as tables show them."""
        return f"{self.kind}: {self.name}"


def references(board: Sequence[Row]) -> list[Reference]:
    """Baselines, then floors, of the metric that ranks a board; the hardest to beat first."""
    larger = headline(board[0])[1]
    values: dict[tuple[str, str], list[float]] = {}
    for row in board:
        for column, stat in row.utility.items():
            if name := row.metrics.metric("utility", column).baseline:
                values.setdefault(("baseline", name), []).append(stat.value)
        for name, stat in row.floors.items():
            values.setdefault(("floor", name), []).append(stat.value)
    ends = [Reference(*key, min(each), max(each)) for key, each in values.items()]
    sign = -1.0 if larger else 1.0
    return sorted(ends, key=lambda one: (one.kind, sign * (one.high if larger else one.low)))


def unprotected(board: Sequence[Row]) -> Row | None:
    """The best unprotected row of a board; the rows are in order."""
    return next(filter(is_unprotected, board), None)


def better_than_unprotected(board: Sequence[Row]) -> frozenset[str]:
    """Groups of the private rows of a board that are better than its unprotected row.

    Their mean is better, and lies outside of the interval over seeds of the unprotected row where
    there is one: no cost of privacy can be read off such a board.
    """
    bare = unprotected(board)
    reached = None if bare is None else _leading(bare)
    if reached is None:
        return frozenset()
    sign = -1.0 if headline(board[0])[1] else 1.0
    end = reached.high if sign < 0 else reached.low
    least = sign * (reached.value if end is None else end)
    return frozenset(
        row.group
        for row in board
        if _is_private(row) and (stat := _leading(row)) is not None and sign * stat.value < least
    )


def warnings(rows: Sequence[Row]) -> dict[str, str]:
    """A sentence for each row that is on the wrong side of its unprotected row, by group."""
    sentences: dict[str, str] = {}
    for board in boards(rows):
        better, bare = better_than_unprotected(board), unprotected(board)
        sentences |= dict.fromkeys(
            better,
            f"It is {BETTER} of its table: {WHY}, and nothing there says what privacy costs.",
        )
        if better and bare is not None:
            sentences[bare.group] = (
                f"{len(better)} private row{'s' * (len(better) > 1)} of its table "
                f"{'are' if len(better) > 1 else 'is'} better: it is under-trained, and no upper "
                "end of utility."
            )
    return sentences


def choice_note(board: Sequence[Row]) -> str:
    """Rule by which rows of a board chose the network that they keep; empty where none chose."""
    chosen = list(dict.fromkeys(row.label for row in board if "best_epoch" in row.diagnostics))
    if not chosen:
        return ""
    rates = any("best_learning_rate" in row.diagnostics and _factors(row) > 1 for row in board)
    others = {row.label for row in board} - set(chosen)
    least = f"epoch{' and learning rate' * rates} that does best on rows of the split valid"
    rest = "; other rows: the last step, with the settings of the spec" if others else ""
    return f"network that is kept: {', '.join(chosen)}: {least}{rest}"


def _factors(row: Row) -> int:
    """Number of learning rates that a row tried."""
    tried = (part.params.get("learning_rate_factors") for part in row.spec.mechanism)
    return max((len(one) for one in tried if isinstance(one, list | tuple)), default=1)


def _leading(row: Row) -> Stat | None:
    """The value that ranks a row, if it is a number."""
    stat = row.utility.get(headline(row)[0] or "")
    return stat if stat is not None and math.isfinite(stat.value) else None


def _is_private(row: Row) -> bool:
    """True if something finite is promised of the data."""
    return any(
        one.status != "refused" and one.unit != "computation" and math.isfinite(one.epsilon)
        for one in row.guarantees
    )


def contradicts_proof(row: Row) -> bool:
    """True if a lower bound of a row surely lies above a proven epsilon of the same unit.

    No run of this package ends so: a proof, an attack or the file is wrong.
    """
    return any(
        (bound.strict_epsilon or 0.0) > one.epsilon
        and (bound.unit, bound.adjacency) == (one.unit, one.adjacency)
        and bound.delta >= one.delta
        for one in row.guarantees
        if (one.kind, one.status, one.notion) == ("proven", "given", "dp") and not one.curve
        for bound in row.lower_bounds
    )


LEAKS = "leaks"
FOUND_ELSEWHERE = "no more than chance, and the attack finds it where it is there"
NOTHING_SHOWN = "nothing shown"

EXPLANATION = (
    "unprotected: the same attack on the row without protection, of the same seeds; at most: what "
    "the proof for users or records allows any attack; nothing shown: no more than chance, and the "
    "attack finds nothing without protection, or such a row is missing"
)


@dataclass(frozen=True)
class Verdict:
    """Reading of one attack on one row.

    Attributes:
        row: row of the attack.
        attack: attack that tells members from non-members.
        bare: unprotected row that the same attack met; None where the board has none.
    """

    row: Row
    attack: str
    bare: Row | None

    @property
    def words(self) -> str:
        """The verdict."""
        if self.row.leaks[self.attack]:
            return LEAKS
        leaks_elsewhere = self.bare is not None and self.bare.leaks[self.attack]
        return FOUND_ELSEWHERE if leaks_elsewhere else NOTHING_SHOWN

    @property
    def headline(self) -> str:
        """The metric that the verdict stands beside."""
        return RATE if RATE in self.row.leakage[self.attack] else AREA

    def beside(self, name: str) -> tuple[str, ...]:
        """Unprotected value and ceiling of a metric, as text; empty where neither is at issue."""
        if name not in RATES or is_unprotected(self.row):
            return ()
        bare = {} if self.bare is None else self.bare.leakage[self.attack]
        ceiling = self.row.ceilings.get(self.attack, {}).get(name)
        return (
            f"unprotected {self._text(name, bare[name].value)}"
            if name in bare
            else "no unprotected row",
            self._no_ceiling if ceiling is None else f"at most {self._text(name, ceiling)}",
        )

    @property
    def _no_ceiling(self) -> str:
        """Why a metric has none."""
        proven = any(
            one.kind == "proven"
            and one.status == "given"
            and one.unit in ("user", "record")
            and math.isfinite(one.epsilon)
            for one in self.row.guarantees
        )
        return "no ceiling in its results" if proven else "no proof for users"

    def lines(self, name: str) -> tuple[str, ...]:
        """Lines below the value of a metric; the verdict below that of the headline."""
        words = [self.words] if name == self.headline else []
        return tuple(filter(None, [", ".join(self.beside(name)), *words]))

    @property
    def sentence(self) -> Sentence:
        """The verdict with the headline metric over the seeds of the row, for a page."""
        name, metric = self.headline, self.row.metrics.metric("leakage", self.headline, self.attack)
        unit = " %" if metric.percent else ""
        value = self._text(name, self.row.leakage[self.attack][name].value)
        beside = f" ({', '.join(self.beside(name))})" if self.beside(name) else ""
        text = f"{self.attack}, over seeds: {self.words}; {metric.label} {value}{unit}{beside}."
        return Sentence(text, "warn" if self.words == LEAKS else "")

    def _text(self, name: str, value: float) -> str:
        percent = self.row.metrics.metric("leakage", name, self.attack).percent
        return number(100.0 * value if percent else value)


def verdicts(row: Row, bare: Sequence[Row]) -> list[Verdict]:
    """Verdicts of the attacks on a row that tell members from non-members.

    Args:
        row: row of a board.
        bare: unprotected rows of the board, the best first.
    """
    return [Verdict(row, attack, _bare(row, attack, bare)) for attack in row.leaks]


def sentences(rows: Sequence[Row]) -> dict[str, list[Sentence]]:
    """Verdicts in words by group of the row."""
    return {
        row.group: [each.sentence for each in verdicts(row, bare)]
        for board in boards(rows)
        for bare in [list(filter(is_unprotected, board))]
        for row in board
    }


def _bare(row: Row, attack: str, bare: Sequence[Row]) -> Row | None:
    return next(
        (
            one
            for one in bare
            if one is not row
            and attack in one.leaks
            and _attack(one, attack) == _attack(row, attack)
            and set(row.seeds) <= set(one.seeds)
        ),
        None,
    )


def _attack(row: Row, name: str) -> ComponentSpec | None:
    return next((one for one in row.spec.attacks if one.name == name), None)
