"""Advice: the row of a ladder that protects most at a utility above its floors, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard import findings
from uedp_bench.leaderboard.boards import boards, is_unprotected
from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.comparisons import (
    BETTER,
    FOUND_ELSEWHERE,
    LEAKS,
    NOTHING_SHOWN,
    WHY,
    Verdict,
    better_than_unprotected,
    contradicts_proof,
    references,
    unprotected,
    verdicts,
)
from uedp_bench.leaderboard.findings import (
    Board,
    leading,
    leading_metric,
    measured_text,
)
from uedp_bench.leaderboard.glossary import FLOORS, UNITS
from uedp_bench.leaderboard.over_seeds import best
from uedp_bench.leaderboard.rows import Row, guarantees, headline
from uedp_bench.leaderboard.run_pages.in_words import no_leak_value
from uedp_bench.leaderboard.table_columns import value_text

KEPT = 0.5
"""Share of what the private text adds to the best floor that a row keeps where one does."""


@dataclass(frozen=True)
class Advice:
    """Advice on the rows of a ladder.

    Attributes:
        row: recommended row; None where none is.
        sentences: the answer in words, the recommendation first.
    """

    row: Row | None
    sentences: tuple[str, ...]


def advise(rows: Sequence[Row], column: str = "", left_out: Sequence[str] = ()) -> Advice:
    """Recommend a row by the rule of docs/advise.md.

    Args:
        rows: rows of one ladder.
        column: column of the users; empty where each row is its own.
        left_out: reasons why mechanisms are not among the rows.
    """
    board = next((one for one in boards(rows) if unprotected(one) is not None), [])
    bare = unprotected(board)
    ladder = None if bare is None or not _number(bare) else _Ladder(board, bare, column)
    if bare is None or ladder is None or not math.isfinite(ladder.floor):
        why = "no unprotected row with a floor has finished, so nothing says what protection costs"
        return Advice(None, (f"No recommendation: {why}.",))
    if others := len(rows) - len(board):
        rows_text = f"{others} row{'s' * (others > 1)}"
        left_out = (*left_out, f"{rows_text} of another task, model, text or vocabulary")
    if better := better_than_unprotected(board):
        names = ", ".join(ladder.name(row) for row in board if row.group in better)
        flag = (
            f"RED FLAG, no recommendation: {names} {'is' if len(better) == 1 else 'are'} {BETTER}: "
            f"{WHY}, and nothing here says what privacy costs. Give more --minutes or more rows."
        )
        return Advice(None, (flag, *ladder.beside(None, left_out)))
    if bare.learned is not True:
        flag = (
            f"No recommendation: even without protection, {ladder.value(bare)} is "
            f"{ladder.not_learned(bare)}. Your text adds nothing here that protection could "
            "cost; give more rows or more --minutes."
        )
        return Advice(None, (flag,))
    pick = ladder.pick()
    if pick is None:
        flag = "No recommendation: no row with a proof is both useful and unbroken."
        return Advice(None, (flag, *ladder.beside(None, left_out)))
    return Advice(pick, (ladder.head(pick), *ladder.beside(pick, left_out)))


def _number(row: Row) -> bool:
    """True if the metric that ranks a row is finite."""
    stat = leading(row)
    return stat is not None and math.isfinite(stat.value)


def _proof(row: Row) -> Guarantee | None:
    """The proven guarantee of a row that read private text, for persons before rows."""
    proofs = [one for unit in ("user", "record") for one in guarantees(row, "proven", unit)]
    return next((one for one in proofs if one.epsilon > 0.0), None)


def _reads_nothing(row: Row) -> bool:
    """True if it is proven that a row depends on no private text: it is a floor."""
    proofs = guarantees(row, "proven")
    return bool(proofs) and all(one.epsilon == 0.0 for one in proofs)


def _finds_something(row: Row, attack: str) -> bool:
    """True if a main metric of an attack surely leaks in a row."""
    stats = row.leakage.get(attack, {})
    return any(
        metric.main and metric.better == "lower" and stat.low > nothing
        for name, stat in stats.items()
        for metric in [row.metrics.metric("leakage", name, attack)]
        for nothing in [no_leak_value(metric, stats)]
        if nothing is not None and stat.low is not None
    )


class _Ladder:
    """A board whose unprotected row and floors are known.

    Args:
        board: rows that compare, the best first.
        bare: the unprotected row.
        column: column of the users; empty for none.
    """

    def __init__(self, board: Board, bare: Row, column: str) -> None:
        self._board, self._bare, self._column = board, bare, column
        self._free = list(filter(is_unprotected, board))
        floors = {name: stat.value for name, stat in bare.floors.items()}
        name = best(floors, bare.headline) or ""
        self.floor = floors.get(name, math.nan)
        self._floor_name = FLOORS.get(name, name)

    def pick(self) -> Row | None:
        """The smallest epsilon that keeps enough, for persons if any row protects them."""
        sound = [(proof, row) for proof, row in self._proven() if not self.against(row)]
        for unit in ("user", "record"):
            rows = [(proof.epsilon, row) for proof, row in sound if proof.unit == unit]
            useful = [(epsilon, row) for epsilon, row in rows if self.kept(row) >= KEPT]
            if useful:  # the best utility first, of equal ones
                return min(useful, key=lambda each: each[0])[1]
            if rows:
                return max((row for _, row in rows), key=self.kept)
        return None

    def _proven(self) -> list[tuple[Guarantee, Row]]:
        return [(proof, row) for row in self._board if (proof := _proof(row)) and _number(row)]

    def against(self, row: Row) -> str:
        """Reason against recommending a row; empty for none."""
        if row.failed or row.failed_attacks:
            return "a run or an attack failed"
        if any(one.status == "refuted" for one in row.guarantees) or contradicts_proof(row):
            return "an attack refuted what is claimed or proven"
        if row.learned is not True:
            return self.not_learned(row)
        broken = [one.sentence.text for one in self._verdicts(row) if row.leaks[one.attack]]
        return "; ".join(text.rstrip(".") for text in broken)

    def kept(self, row: Row) -> float:
        """Share of the way from the best floor to the unprotected row."""
        stat, first = leading(row), leading(self._bare)
        if stat is None or first is None or first.value == self.floor:
            return 0.0
        share = (stat.value - self.floor) / (first.value - self.floor)
        return share if math.isfinite(share) else 0.0

    def _floor_text(self) -> str:
        return value_text(leading_metric(self._bare), self.floor)

    def not_learned(self, row: Row) -> str:
        """Reason of a row that is not surely better than its floors."""
        surely = "not surely" if row.learned is False else "not known to be"
        return f"{surely} better than {self._floor_text()}, {self._floor_name}"

    def name(self, row: Row) -> str:
        """Mechanisms of a row with what is proven."""
        proof = _proof(row)
        if proof is None:
            return row.label
        return f"{row.label} at a proven ε of {number(proof.epsilon)} for {UNITS[proof.unit]}"

    def value(self, row: Row) -> str:
        """The metric that ranks a row, with its interval."""
        stat, metric = leading(row), leading_metric(row)
        return metric.label if stat is None else f"{metric.label} {measured_text(metric, stat)}"

    def head(self, row: Row) -> str:
        """The recommendation."""
        proof, first = _proof(row), leading(self._bare)
        if proof is None:
            return ""
        who = f"the person (column {self._column!r})"
        if proof.unit == "record" or not self._column:
            who = "each row, not the person behind it" if self._column else f"each {proof.unit}"
        bare = "" if first is None else measured_text(leading_metric(row), first)
        return (
            f"Protect {who} with {row.label} at a proven ε of {number(proof.epsilon)} (δ = "
            f"{proof.delta:g}): {self.value(row)} against {bare} unprotected and "
            f"{self._floor_text()} for the best floor, {self._floor_name}. It keeps "
            f"{100 * self.kept(row):.0f} % of what your text adds."
        )

    def beside(self, pick: Row | None, left_out: Sequence[str]) -> Iterator[str]:
        """Sentences on attacks, on other rows, and on people whom nothing protects."""
        if pick is not None:
            yield from self._attacks(pick)
            if pick.spec.noise_source == "seed":
                yield (
                    "Train what you publish anew with --noise-source os: the noise of these runs "
                    "follows from their seeds. The ε does not count the choice among rows."
                )
        yield from self._baseline()
        cheaper, stronger, idle, refused = [], [], [], []
        for row in self._board:
            if row is pick or row in self._free or not _number(row) or _reads_nothing(row):
                continue
            text = f"{self.name(row)} ({self.value(row)}"
            reason = self.against(row)
            if _proof(row) is None:
                judged = [f"; {one.attack}: {one.words}" for one in self._verdicts(row)]
                if pick is None or self.kept(row) > self.kept(pick):
                    cheaper.append(f"{text}; no proof for persons or rows{''.join(judged)})")
            elif row.learned is False and reason == self.not_learned(row):
                idle.append(f"{text}, {reason})")
            elif reason:
                refused.append(f"{text}; {reason})")
            elif pick is not None and self.kept(row) > self.kept(pick):
                cheaper.append(f"{text})")
            else:
                stronger.append(f"{text}; keeps {100 * self.kept(row):.0f} %)")
        for head, texts in (
            ("Cheaper", cheaper),
            ("Also measured", stronger),
            ("Not recommended", refused),
            ("Learned nothing", idle),
            ("Left out", left_out),
        ):
            if texts:
                yield f"{head}: {'; '.join(texts)}."
        yield from self._uncovered()

    def _attacks(self, row: Row) -> Iterator[str]:
        """A sentence for each attack on the row, beside its power."""
        judged = self._verdicts(row)
        for one in judged:
            yield one.sentence.text
        words = {one.words for one in judged}
        others = dict(findings.leaks(row))
        unprotected_leaks = dict(findings.leaks(self._bare))
        for name, text in others.items():
            attack = name.partition(":")[0]
            if attack in row.leaks:
                continue
            shown = LEAKS if _finds_something(row, attack) else NOTHING_SHOWN
            if shown == NOTHING_SHOWN and _finds_something(self._bare, attack):
                shown = FOUND_ELSEWHERE
            words.add(shown)
            bare = unprotected_leaks.get(name, "not measured").partition(";")[0]
            yield f"{name} {text}; {bare} unprotected: {shown}."
        if NOTHING_SHOWN in words:
            yield (
                "Nothing shown is no evidence of safety: without protection, too, the attack finds "
                "nothing that is surely more than chance, or was not measured. The proof alone "
                "stands behind this row."
            )
        reasons = [f"; {one.name} does not apply: {one.reason}" for one in row.skipped_attacks]
        if not row.leakage or reasons:
            what = "Not every attack ran" if row.leakage else "No attack ran"
            yield f"{what}: the proof alone stands behind the rest{''.join(reasons)}."
        if len(row.seeds) == 1:
            yield "One seed ran: no interval holds chance between seeds; give more --minutes."

    def _verdicts(self, row: Row) -> list[Verdict]:
        return verdicts(row, self._free)

    def _baseline(self) -> Iterator[str]:
        """A warning where a cheap model without protection beats the unprotected row."""
        sign = 1.0 if headline(self._bare)[1] else -1.0
        first = leading(self._bare)
        for one in references(self._board):
            if one.kind == "baseline" and first is not None:
                reached = one.high if sign > 0 else one.low
                if sign * reached > sign * first.value:
                    text = value_text(leading_metric(self._bare), reached)
                    yield (
                        f"Caution: {one.name}, cheap and without protection, reaches {text}: the "
                        "unprotected row is no upper end, and protection costs more than it says."
                    )

    def _uncovered(self) -> Iterator[str]:
        """People of whom nothing is promised, and what the epsilon does not count."""
        params = self._bare.spec.source.params
        groups = []
        if share := params.get("public_share"):
            groups.append(
                f"the {100 * share:.0f} % of the training users whose text plays public text"
            )
        if any("best_epoch" in row.diagnostics for row in self._board):
            groups.append("rows of the split valid, by which settings were chosen")
        groups.append("rows of the split test, by which all is measured")
        yield f"No promise covers {'; '.join(groups)}."
