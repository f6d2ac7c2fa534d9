"""Safe, or a weak attack? What stands beside a metric that tells members from non-members.

The unprotected value is that of the same attack on the row of the same board that protects
nothing, with the same seeds; the ceiling is what the proofs of the row allow any attack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from uedp_bench.bounds.ceilings import RATES
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.member_evidence import AREA, RATE
from uedp_bench.leaderboard.rows import Row
from uedp_bench.leaderboard.run_pages.in_words import Sentence
from uedp_bench.leaderboard.upper_end import is_unprotected

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
        bare: row without protection that the same attack met; None where the board has none.
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
