"""Agreement of predicted spans with gold ones: counts by row, and scores with intervals.

Four counts of a row carry every score (N gold spans, M predicted ones; a score of credit c has
precision c / M, recall c / N and F1 2 c / (N + M)):

| scheme | credit of a row | source |
|---|---|---|
| `strict` | strict: same boundaries, same type | CoNLL-2003 (conlleval), SemEval-2013 task 9 |
| `exact` | exact: same boundaries, any type | SemEval-2013 task 9 |
| `partial` | (overlap + exact) / 2: half for an overlap, any type | SemEval-2013 task 9 |
| `type` | type: same type, any overlap | SemEval-2013 task 9 |
| `type_paper` | (type + strict) / 2 | Hathurusinghe et al. 2021, section 3 |
| `partial_paper` | (overlap + strict) / 2 | Hathurusinghe et al. 2021, section 3 |

The paper gives half where SemEval gives all: `type_paper` to the right type with another boundary,
`partial_paper` to the right boundary with another type (its table 3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import FloatArray, IntArray, Spans
from uedp_bench.errors import InputError, nearest
from uedp_bench.statistics.intervals import RESAMPLES, blocks, percentiles, resample

_CREDIT: Mapping[str, tuple[float, float, float, float]] = {
    "strict": (1.0, 0.0, 0.0, 0.0),
    "exact": (0.0, 1.0, 0.0, 0.0),
    "partial": (0.0, 0.5, 0.0, 0.5),
    "type": (0.0, 0.0, 1.0, 0.0),
    "type_paper": (0.5, 0.0, 0.5, 0.0),
    "partial_paper": (0.5, 0.0, 0.0, 0.5),
}
"""Weights of the counts strict, exact, type and overlap in the credit of a scheme."""

SCHEMES = tuple(_CREDIT)


@dataclass(frozen=True, eq=False)
class SpanCounts:
    """Counts of gold, predicted and common spans by row; columns of equal length add up.

    Attributes:
        gold: (rows,) gold spans.
        predicted: (rows,) predicted spans.
        strict: (rows,) predicted spans with the boundaries and the type of a gold one.
        exact: (rows,) predicted spans with the boundaries of a gold one.
        type: (rows,) predicted spans that overlap a gold one of their type.
        overlap: (rows,) predicted spans that overlap a gold one.
    """

    gold: FloatArray
    predicted: FloatArray
    strict: FloatArray
    exact: FloatArray
    type: FloatArray
    overlap: FloatArray

    def table(self) -> FloatArray:
        """(rows, 6) the columns in the order of their declaration."""
        columns = (self.gold, self.predicted, self.strict, self.exact, self.type, self.overlap)
        return np.stack(columns, axis=1)


class SpanScore(NamedTuple):
    """Precision, recall and F1 of one scheme, each with its interval over users."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


_Piece = tuple[int, int, int]  # start, end, type


def span_counts(gold: Spans, predicted: Spans, rows: int) -> SpanCounts:
    """Count by row, as nervaluate 1.2.1 counts where no two spans of one side overlap.

    Predicted spans choose from left to right among the gold spans that nobody has taken: one of the
    same boundaries, else the first that they overlap (for `type`: the one of their type whose
    boundaries are nearest, else the first, which is then taken by a wrong type). In a row where
    spans of one side overlap, `type` counts the pairs of the best pairing, so that nothing depends
    on how types are called. Equal spans of one type are one. One common character (word) is an
    overlap; nervaluate asks for 1 % of the gold span.

    Args:
        gold: spans whose types are numbered as those of `predicted` are; offsets in characters or
            in words, the same on both sides.
        predicted: scored spans.
        rows: number of rows.

    Raises:
        InputError: if a span lies in no row, or is empty.
        CapabilityError: if a side was lost on the way (`LostSpans`).
    """
    sides = [_by_row(gold, rows, "gold"), _by_row(predicted, rows, "predicted")]
    table = np.zeros((rows, 6))
    for row, (true, scored) in enumerate(zip(*sides, strict=True)):
        table[row, :2] = len(true), len(scored)
        if true and scored:
            table[row, 2:] = (
                *_same(true, scored),
                _same_type(true, scored),
                _overlap(true, scored),
            )
    return SpanCounts(*table.T)


def counts_by_type(
    gold: Spans, predicted: Spans, rows: int, types: Sequence[str]
) -> dict[str, SpanCounts]:
    """Count each type alone: spans of other types are as if they were not there.

    Args:
        gold: gold spans, as for `span_counts`.
        predicted: scored spans.
        rows: number of rows.
        types: names of the types that both number.
    """
    return {
        name: span_counts(
            gold.chosen(gold.type == kind), predicted.chosen(predicted.type == kind), rows
        )
        for kind, name in enumerate(types)
    }


def span_scores(
    counts: SpanCounts, users: IntArray, rng: np.random.Generator
) -> dict[str, SpanScore]:
    """Precision, recall and F1 of every scheme with percentile bootstrap intervals over users.

    Precision is 0 where nothing is predicted, as conlleval has it. Resamples without gold spans
    say nothing of recall and are left out; there is no interval where fewer than a tenth is left,
    or for a single user.

    Args:
        counts: counts by row.
        users: (rows,) rows with equal numbers are resampled together.
        rng: random generator for the resampling.

    Returns:
        Scores by the names of `SCHEMES`.

    Raises:
        InputError: if no row has a gold span: nothing can be recalled; or for NaN, or users of
            another number of rows.
    """
    table = counts.table()
    if not table[:, 0].sum():
        raise InputError("span scores: there is no gold span, so that nothing can be found")
    estimates = score_estimates(table, _precision_recall_f1, users, rng)
    return {
        scheme: SpanScore(*estimates[3 * index : 3 * index + 3])
        for index, scheme in enumerate(SCHEMES)
    }


def score_estimates(
    table: FloatArray,
    score: Callable[[FloatArray], FloatArray],
    users: IntArray,
    rng: np.random.Generator,
) -> list[Estimate]:
    """Scores of summed counts with percentile bootstrap intervals over users.

    One product (resamples x users) @ (users x counts) gives the sums of all resamples.

    Args:
        table: (rows, counts) counts by row.
        score: function from sums (resamples, counts) to (resamples, scores), NaN in a line that has
            none.
        users: (rows,) rows with equal numbers are resampled together.
        rng: random generator for the resampling.

    Raises:
        InputError: for NaN, no rows, users of another number of rows, or sums without a score.
    """
    if not len(table) or len(users) != len(table):
        raise InputError(f"scores: {len(table)} rows of counts, {len(users)} users of rows")
    if np.isnan(table).any():
        raise InputError("scores: a count is NaN")
    names, owner = np.unique(users, return_inverse=True)
    by_user = np.stack([np.bincount(owner, column, len(names)) for column in table.T], axis=1)
    values = score(by_user.sum(axis=0)[None])[0]
    if np.isnan(values).any():
        raise InputError("scores: the counts of all rows together have no score")
    if len(names) == 1:
        return [Estimate(value=float(value)) for value in values]
    drawn = [score(resample(len(names), size, rng) @ by_user) for size in blocks(len(names))]
    draws = np.concatenate(drawn)
    draws = draws[~np.isnan(draws).any(axis=1)]
    if len(draws) < RESAMPLES // 10:
        return [Estimate(value=float(value)) for value in values]
    return [
        percentiles(float(value), column) for value, column in zip(values, draws.T, strict=True)
    ]


def spans_of_labels(labels: Sequence[Sequence[str]], types: Sequence[str]) -> Spans:
    """Spans of rows of BIO labels, with offsets in words; read as conlleval reads them.

    A span begins at B-X, and at I-X where the word before is not of type X. BIO2 and the older IOB1
    both are read rightly, and a predicted I- without its B- counts as a beginning.

    Args:
        labels: one label a word: "O", "B-X" or "I-X".
        types: names that X may be.

    Returns:
        Spans whose `entity` is -1: words alone do not name entities.

    Raises:
        InputError: for another label, naming row and word.
    """
    number = {f"{begin}-{name}": kind for kind, name in enumerate(types) for begin in "BI"}
    number["O"] = -1
    spans: list[tuple[int, int, int, int]] = []
    for row, words in enumerate(labels):
        open_type, start = -1, 0
        for word, label in enumerate(words):
            if label not in number:
                near = nearest(label, number)
                hint = f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(number))}"
                raise InputError(f"label {label!r} of word {word} in row {row}: {hint}")
            kind = number[label]
            if kind != open_type or label.startswith("B"):
                if open_type >= 0:
                    spans.append((row, start, word, open_type))
                open_type, start = kind, word
        if open_type >= 0:
            spans.append((row, start, len(words), open_type))
    table = np.array(spans, dtype=np.int64).reshape(-1, 4)
    row_of, first, last, kinds = (column.copy() for column in table.T)
    return Spans(row_of, first, last, kinds, np.full(len(table), -1))


def _by_row(spans: Spans, rows: int, side: str) -> list[list[_Piece]]:
    """The spans of each row from left to right."""
    pieces: list[list[_Piece]] = [[] for _ in range(rows)]
    for row, start, end, kind in spans.mentions():
        if not 0 <= row < rows or start >= end:
            raise InputError(
                f"span scores: a {side} span ({start}, {end}) of row {row} is empty, or not in one "
                f"of the {rows} rows"
            )
        pieces[row].append((start, end, kind))
    return [sorted({*row}) for row in pieces]


def _same(true: list[_Piece], predicted: list[_Piece]) -> tuple[int, int]:
    """Number of `predicted` in `true`, with their type and without; each gold span once."""
    return _common(true, predicted), _common([p[:2] for p in true], [p[:2] for p in predicted])


def _common(first: Sequence[tuple[int, ...]], second: Sequence[tuple[int, ...]]) -> int:
    left = list(first)
    for piece in second:
        if piece in left:
            left.remove(piece)
    return len(first) - len(left)


def _meets(one: _Piece, other: _Piece) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _overlap(true: list[_Piece], predicted: list[_Piece]) -> int:
    """Number of `predicted` that overlap a gold span of their own."""
    free = list(true)
    for piece in predicted:
        met = [gold for gold in free if _meets(gold, piece)]
        if met:
            same = [gold for gold in met if gold[:2] == piece[:2]]
            free.remove((same or met)[0])
    return len(true) - len(free)


def _same_type(true: list[_Piece], predicted: list[_Piece]) -> int:
    """Number of `predicted` that overlap a gold span of their own and of their type."""
    if _is_nested(true) or _is_nested(predicted):
        kinds = {kind for *_, kind in true} & {kind for *_, kind in predicted}
        sides = ([[p for p in row if p[2] == kind] for row in (true, predicted)] for kind in kinds)
        return sum(_most_pairs(*both) for both in sides)
    free, hits = list(true), 0
    for start, end, kind in predicted:
        met = [gold for gold in free if _meets(gold, (start, end, kind))]
        alike = [gold for gold in met if gold[2] == kind]
        if alike:
            free.remove(min(alike, key=lambda gold: abs(gold[0] - start) + abs(gold[1] - end)))
            hits += 1
        elif met:
            free.remove(met[0])
    return hits


def _is_nested(row: list[_Piece]) -> bool:
    """True if two spans of one side overlap; they are in the order of their beginning."""
    return any(one[1] > other[0] for one, other in pairwise(row))


def _most_pairs(true: Sequence[_Piece], predicted: Sequence[_Piece]) -> int:
    """Most pairs of a gold span and a predicted one that overlap, each span in one pair.

    Spans are paired in the order of their ends, each with the free one of the other side that ends
    first. All that are left end later, so that no other choice leaves them more to pair with.
    """
    pieces = sorted(
        (end, start, side) for side, row in enumerate((true, predicted)) for start, end, _ in row
    )
    free, pairs = [True] * len(pieces), 0
    for at, (end, _, side) in enumerate(pieces):
        if not free[at]:
            continue
        for other in range(at + 1, len(pieces)):
            if free[other] and pieces[other][2] != side and pieces[other][1] < end:
                free[other] = False
                pairs += 1
                break
    return pairs


def _precision_recall_f1(sums: FloatArray) -> FloatArray:
    """(resamples, 3 x schemes) of sums (resamples, 6); NaN where there is no gold span."""
    gold, predicted = sums[:, :1], sums[:, 1:2]
    credit = sums[:, 2:] @ np.array(list(_CREDIT.values())).T
    some = np.broadcast_to(gold > 0, credit.shape)
    precision = np.divide(
        credit,
        predicted,
        out=np.zeros_like(credit),
        where=np.broadcast_to(predicted > 0, some.shape),
    )
    recall, f1 = (
        np.divide(top, bottom, out=np.full_like(credit, np.nan), where=some)
        for top, bottom in ((credit, gold), (2 * credit, gold + predicted))
    )
    return np.stack([precision, recall, f1], axis=2).reshape(len(sums), -1)
