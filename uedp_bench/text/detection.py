"""How much of what people labelled a detector of entities finds, by type.

A de-identifier hides what its detector finds, so that the share of gold mentions that are covered
is the first thing to ask of it (Pilan et al. 2022, "The Text Anonymization Benchmark", section 6).
Types of labels and of detectors are called differently: covered is covered, by whatever type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, Layer, Spans
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from uedp_bench.corpus.entity_detection import DetectionParams

ANY = "any"
"""Name of the row that has all types together."""


@dataclass(frozen=True)
class Recall:
    """How much of the gold mentions of a type is found.

    Attributes:
        mentions, covered, touched: gold mentions; those whose every character but white space is
            covered, and those of which at least one character is.
        entities, entities_covered: distinct entities, and those whose every mention is covered:
            one mention that is left tells who it is.
    """

    mentions: int
    covered: int
    touched: int
    entities: int
    entities_covered: int

    @property
    def recall(self) -> float | None:
        """Share of the mentions that are covered; None where there are none."""
        return self.covered / self.mentions if self.mentions else None


@dataclass(frozen=True)
class Precision:
    """What is found of a detector's type: `right` of the mentions overlap a gold one."""

    mentions: int
    right: int

    @property
    def precision(self) -> float | None:
        """Share of what is found that is right; None where nothing is."""
        return self.right / self.mentions if self.mentions else None


@dataclass(frozen=True)
class Detected:
    """A detector measured against gold labels.

    Attributes:
        rows: that were looked at.
        recall: by gold type, and of `any`.
        precision: by type of the detector, those it found nothing of left out, and of `any`.
    """

    rows: int
    recall: dict[str, Recall]
    precision: dict[str, Precision]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, shares among them, ready for JSON."""
        return {
            "rows": self.rows,
            "recall": {
                name: {"recall": each.recall, **asdict(each)} for name, each in self.recall.items()
            },
            "precision": {
                name: {"precision": each.precision, **asdict(each)}
                for name, each in self.precision.items()
            },
        }


def measure(texts: Sequence[str], gold: Layer, found: Layer, rows: BoolArray) -> Detected:
    """Recall by gold type and precision by the detector's.

    Args:
        texts: of all rows.
        gold: what people labelled.
        found: what a detector found in the same texts.
        rows: (rows,) which rows count, of those that `gold` annotates completely.
    """
    rows = rows & gold.rows
    gold_in, found_in = np.flatnonzero(rows[gold.spans.row]), np.flatnonzero(rows[found.spans.row])
    covered, touched = overlaps(texts, gold.spans, found.spans)
    _, right = overlaps(texts, found.spans, gold.spans)
    recall = {
        name: _recall(gold.spans, of, covered, touched) for name, of in _by_type(gold, gold_in)
    }
    precision = {
        name: Precision(len(of), int(right[of].sum()))
        for name, of in _by_type(found, found_in)
        if len(of) or name == ANY
    }
    return Detected(int(rows.sum()), recall, precision)


def detector_of(corpus: Corpus, params: DetectionParams) -> Detected:
    """A detector measured on all rows of a corpus that has labels by people, but public ones.

    Raises:
        InputError: if the corpus has no labels by people.
    """
    from uedp_bench.text.entities import detect

    everywhere = np.ones(len(corpus), dtype=bool)
    gold = corpus.layers.get("gold")
    if gold is None and corpus.detector is None and len(corpus.entities):
        gold = Layer(corpus.entities, corpus.entity_types, everywhere)
    if gold is None or not len(gold.spans):
        raise InputError(
            "--detector: this source has no labelled entities to measure a detector by; sources "
            "that have: conll2003, embedded, text and hub with entities_column"
        )
    found = detect(corpus.texts, params)
    spans = Spans.build(corpus.texts, found.mentions.tolist())
    layer = Layer(spans, found.types, everywhere)
    return measure(corpus.texts, gold, layer, ~corpus.where("public"))


def _by_type(layer: Layer, chosen: Any) -> list[tuple[str, Any]]:
    kinds = layer.spans.type[chosen]
    named = [(name, chosen[kinds == at]) for at, name in enumerate(layer.types)]
    return [*named, (ANY, chosen)]


def _recall(spans: Spans, of: Any, covered: BoolArray, touched: BoolArray) -> Recall:
    entities, position = np.unique(spans.entity[of], return_inverse=True)
    left = np.bincount(position, weights=~covered[of], minlength=len(entities))
    return Recall(
        mentions=len(of),
        covered=int(covered[of].sum()),
        touched=int(touched[of].sum()),
        entities=len(entities),
        entities_covered=int((left == 0).sum()),
    )


def overlaps(texts: Sequence[str], asked: Spans, by: Spans) -> tuple[BoolArray, BoolArray]:
    """(mentions,) twice, of `asked`: True where `by` covers it but for space, and touches it."""
    of_row: dict[int, list[tuple[int, int]]] = {}
    for row, start, end, _ in by.mentions():
        of_row.setdefault(row, []).append((start, end))
    covered, touched = np.zeros(len(asked), dtype=bool), np.zeros(len(asked), dtype=bool)
    for at, (row, start, end, _) in enumerate(asked.mentions()):
        pieces = [(a, b) for a, b in of_row.get(row, ()) if a < end and start < b]
        if pieces:
            inside = {i for a, b in pieces for i in range(max(a, start), min(b, end))}
            left = (i for i in range(start, end) if i not in inside)
            touched[at] = True
            covered[at] = all(texts[row][i].isspace() for i in left)
    return covered, touched


def tables(detected: Detected, name: str) -> list[Table]:
    """Recall and precision as rich tables."""
    from rich.table import Table

    recall = Table(title=f"recall of {name} on labelled entities", title_justify="left")
    for head in ("", "mentions", "covered", "touched", "entities", "all mentions covered"):
        recall.add_column(head, justify="right" if head else "left")
    for kind, each in detected.recall.items():
        recall.add_row(
            kind, f"{each.mentions:,}", _share(each.covered, each.mentions),
            _share(each.touched, each.mentions), f"{each.entities:,}",
            _share(each.entities_covered, each.entities),
        )  # fmt: skip
    precision = Table(title=f"precision of {name}", title_justify="left")
    for head in ("", "found", "overlap a labelled entity"):
        precision.add_column(head, justify="right" if head else "left")
    for kind, found in detected.precision.items():
        precision.add_row(kind, f"{found.mentions:,}", _share(found.right, found.mentions))
    return [recall, precision]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"
