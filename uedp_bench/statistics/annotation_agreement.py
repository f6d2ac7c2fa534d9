"""Agreement of two annotations of a corpus, such as a program's with people's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import Corpus, or_alone
from uedp_bench.errors import InputError
from uedp_bench.statistics.span_scores import (
    SpanCounts,
    SpanScore,
    counts_by_type,
    span_counts,
    span_scores,
)

if TYPE_CHECKING:
    from rich.table import Table

    from uedp_bench.contracts.results import Estimate

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
