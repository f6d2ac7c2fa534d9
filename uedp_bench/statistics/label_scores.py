"""Scores of labels, of classes or tokens, and agreement of two annotations, with intervals.

Scores of tokens are averaged over the labels by their true frequency. The average includes "O", the
label of words outside of all spans, as scikit-learn's weighted average does: predicting "O"
everywhere scores high, so that this floor belongs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import Corpus, FloatArray, IntArray, or_alone
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import CONFIDENCE, RESAMPLES
from uedp_bench.statistics.span_scores import (
    SpanCounts,
    SpanScore,
    counts_by_type,
    score_estimates,
    span_counts,
    span_scores,
)

if TYPE_CHECKING:
    from rich.table import Table


def confusion(truth: IntArray, predicted: IntArray, classes: int) -> FloatArray:
    """(classes, classes) counts: row the true class, column the predicted one."""
    cells = np.bincount(truth * classes + predicted, minlength=classes**2)
    counts: FloatArray = cells.reshape(classes, classes).astype(np.float64)
    return counts


def f1_by_class(counts: FloatArray) -> FloatArray:
    """(..., classes) F1 of confusion counts (..., classes, classes); 0 where there is no hit."""
    hits = np.diagonal(counts, axis1=-2, axis2=-1)
    both = counts.sum(axis=-1) + counts.sum(axis=-2)
    f1: FloatArray = np.divide(2.0 * hits, both, out=np.zeros_like(hits), where=both > 0)
    return f1


def macro_f1(counts: FloatArray) -> FloatArray:
    """Mean F1 of the classes that are true or predicted anywhere, as in scikit-learn."""
    present = (counts.sum(axis=-1) + counts.sum(axis=-2)) > 0
    return np.asarray((f1_by_class(counts) * present).sum(axis=-1) / present.sum(axis=-1))


def macro_f1_estimate(
    truth: IntArray, predicted: IntArray, classes: int, rng: np.random.Generator, users: IntArray
) -> Estimate:
    """Macro-F1 with its percentile bootstrap interval over users.

    Args:
        truth: (rows,) true classes.
        predicted: (rows,) predicted classes.
        classes: number of classes.
        rng: random generator for the resampling.
        users: (rows,) rows with equal numbers are resampled together; a single one has no interval.

    Raises:
        InputError: if there are no rows.
    """
    if not len(truth):
        raise InputError("macro-F1: no rows; at least one is needed")
    value = float(macro_f1(confusion(truth, predicted, classes)))
    names, owner = np.unique(users, return_inverse=True)
    if len(names) == 1:
        return Estimate(value=value)
    # Cells that occur, not all pairs of classes: there are few, however many classes there are.
    cells, cell = np.unique(truth * classes + predicted, return_inverse=True)
    samples = np.empty(RESAMPLES)
    for draw in range(RESAMPLES):
        weight = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        counts = np.zeros(classes**2)
        counts[cells] = np.bincount(cell, weights=weight[owner], minlength=len(cells))
        samples[draw] = macro_f1(counts.reshape(classes, classes))
    low, high = np.quantile(samples, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(value=value, low=float(low), high=float(high))


# --------------------------------------------------------------------------------- labels of tokens


class WeightedTokenScore(NamedTuple):
    """Precision, recall (which is accuracy) and F1 of tokens, weighted by true labels."""

    precision: Estimate
    recall: Estimate
    f1: Estimate


def token_counts(
    gold: Sequence[IntArray], predicted: Sequence[IntArray], labels: int
) -> FloatArray:
    """(rows, 3 x labels) tokens of each true label, of each predicted one, and hits, by row.

    Args:
        gold: (words,) numbers of labels of each row.
        predicted: as many predicted ones.
        labels: number of labels; numbers are below it.

    Raises:
        InputError: if a row is longer on one side, or a number is no label's.
    """
    if len(gold) != len(predicted):
        raise InputError(f"token scores: {len(gold)} gold rows, {len(predicted)} predicted ones")
    table = np.zeros((len(gold), 3, labels))
    for row, (true, guessed) in enumerate(zip(gold, predicted, strict=True)):
        one, other = np.asarray(true, dtype=np.int64), np.asarray(guessed, dtype=np.int64)
        if len(one) != len(other):
            raise InputError(
                f"token scores: row {row} has {len(one)} gold labels and {len(other)} predicted "
                "ones"
            )
        both = np.concatenate([one, other])
        if len(both) and not 0 <= both.min() <= both.max() < labels:
            raise InputError(f"token scores: row {row} has a label that is not below {labels}")
        for column, numbers in enumerate((one, other, one[one == other])):
            table[row, column] = np.bincount(numbers, minlength=labels)
    return table.reshape(len(gold), 3 * labels)


def weighted_token_score(
    counts: FloatArray, users: IntArray, rng: np.random.Generator
) -> WeightedTokenScore:
    """Precision, recall and F1 of each label, averaged by true tokens; intervals over users.

    Args:
        counts: (rows, 3 x labels) counts of `token_counts`.
        users: (rows,) rows with equal numbers are resampled together.
        rng: random generator for the resampling.

    Raises:
        InputError: if there are no tokens.
    """
    return WeightedTokenScore(*score_estimates(counts, _weighted, users, rng))


def _weighted(sums: FloatArray) -> FloatArray:
    """(resamples, 3) of sums (resamples, 3 x labels); NaN without tokens."""
    true, predicted, hits = np.moveaxis(sums.reshape(len(sums), 3, -1), 1, 0)
    total = true.sum(axis=1, keepdims=True)
    weight = np.divide(true, total, out=np.full_like(true, np.nan), where=total > 0)
    by_label = (
        np.divide(top, bottom, out=np.zeros_like(top), where=bottom > 0)
        for top, bottom in ((hits, predicted), (hits, true), (2 * hits, true + predicted))
    )
    return np.stack([(weight * score).sum(axis=1) for score in by_label], axis=1)


Kinds = Callable[[tuple[str, ...]], Sequence[str]]
"""Function from names of types to their kinds."""

GOLD = "gold"
"""Layer that others are measured by."""


@dataclass(frozen=True)
class Agreement:
    """A layer measured by another.

    Attributes:
        rows, users: rows that both layers annotate completely, without public rows, and their
            users.
        scores: scores by scheme of all spans of both layers, with intervals over users. A span of a
            type that the other layer lacks has no span of its own type there.
        by_type: sums of the counts of each type of either layer, spans of other types left out.
    """

    rows: int
    users: int
    scores: dict[str, SpanScore]
    by_type: dict[str, dict[str, int]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        scores = {
            scheme: {name: each.model_dump() for name, each in score._asdict().items()}
            for scheme, score in self.scores.items()
        }
        return {"rows": self.rows, "users": self.users, "scores": scores, "by_type": self.by_type}


def agreement(corpus: Corpus, layer: str, gold: str = GOLD, *, kinds: Kinds = tuple) -> Agreement:
    """Measure one layer of a corpus by another.

    A type of `layer` that `gold` lacks by name is the one type of `gold` of the same kind, if there
    is one.

    Args:
        corpus: corpus with both layers; rows that one of them does not annotate completely, and
            public ones, do not count.
        layer: name of the layer that is measured.
        gold: name of the layer that it is measured by.
        kinds: kinds of types (`text.detection.kinds_of_types`); by default names alone.

    Raises:
        CapabilityError: if the corpus lacks one of them.
        InputError: if they have no type in common, or nothing is marked in `gold`.
    """
    sides = corpus.layer(gold), corpus.layer(layer)
    names = _names(sides[0].types, sides[1].types, kinds)
    if not {*names} & {*sides[0].types}:
        raise InputError(
            f"the layers {gold} ({', '.join(sides[0].types)}) and {layer} "
            f"({', '.join(sides[1].types)}) have no type in common"
        )
    rows = np.flatnonzero(sides[0].rows & sides[1].rows & ~corpus.where("public"))
    types = list(dict.fromkeys((*sides[0].types, *names)))
    true = sides[0].spans.take(rows)
    seen = sides[1].spans.renumbered([types.index(name) for name in names]).take(rows)
    counts = span_counts(true, seen, len(rows))
    users = or_alone(corpus.users[rows])
    return Agreement(
        rows=len(rows),
        users=len(np.unique(users)),
        # The interval of a measured score does not depend on a run.
        scores=span_scores(counts, users, np.random.default_rng(0)),
        by_type={
            name: _sums(each) for name, each in counts_by_type(true, seen, len(rows), types).items()
        },
    )


def _names(gold: tuple[str, ...], types: tuple[str, ...], kinds: Kinds) -> list[str]:
    """Names of types: those that `gold` gives types of the same kind."""
    of_gold, names = kinds(gold), []
    for name, kind in zip(types, kinds(types), strict=True):
        alike = [other for other, its in zip(gold, of_gold, strict=True) if its == kind]
        names.append(alike[0] if name not in gold and len(alike) == 1 else name)
    return names


def _sums(counts: SpanCounts) -> dict[str, int]:
    return {name: int(column.sum()) for name, column in vars(counts).items()}


def tables(agreed: Agreement, layer: str) -> list[Table]:
    """Scores by scheme and counts by type as rich tables."""
    from rich.table import Table

    scores = Table(
        title=f"layer {layer} by the layer {GOLD}: {agreed.rows:,} rows of {agreed.users:,} users",
        title_justify="left",
    )
    for head in ("scheme", "precision %", "recall %", "F1 %"):
        scores.add_column(head, justify="left" if head == "scheme" else "right")
    for scheme, score in agreed.scores.items():
        scores.add_row(scheme, *(_percent(each) for each in score))
    types = Table(title="by type, each alone", title_justify="left")
    for head in ("type", "gold", "found", "strict", "precision %", "recall %", "overlap"):
        types.add_column(head, justify="left" if head == "type" else "right")
    for name, sums in agreed.by_type.items():
        types.add_row(
            name, f"{sums['gold']:,}", f"{sums['predicted']:,}", f"{sums['strict']:,}",
            _share(sums["strict"], sums["predicted"]), _share(sums["strict"], sums["gold"]),
            f"{sums['overlap']:,}",
        )  # fmt: skip
    return [scores, types]


def _percent(estimate: Estimate) -> str:
    low, high = estimate.low, estimate.high
    around = "" if low is None or high is None else f" ({100 * low:.1f} to {100 * high:.1f})"
    return f"{100 * estimate.value:.1f}{around}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "-"
