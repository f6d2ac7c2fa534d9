"""Recall and precision of a detector of entities on labels by people, by type.

A de-identifier hides what its detector finds, so that the share of gold mentions that are covered
is its first quality (Pilan et al. 2022, "The Text Anonymization Benchmark", section 6). Types of
labels and of detectors are called differently (`PER`, `PERSON`), and draw borders differently (a
town is a `GPE` for OntoNotes and a `LOC` for CoNLL-2003). Covered is covered, by whatever type;
scores that ask for the right type compare kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
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
    """Recall on the gold mentions of a type.

    Attributes:
        mentions, covered, touched: numbers of gold mentions; of mentions whose every character but
            white space is covered; and of mentions with at least one covered character.
        entities, entities_covered: distinct entities, and entities whose every mention is covered:
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
    """Precision of a detector's type: `right` of the mentions overlap a gold one."""

    mentions: int
    right: int

    @property
    def precision(self) -> float | None:
        """Share of detected mentions that are right; None if there are none."""
        return self.right / self.mentions if self.mentions else None


@dataclass(frozen=True)
class Detected:
    """A detector measured against gold labels.

    Attributes:
        rows: number of rows.
        recall: recall by gold type, and of `any`.
        precision: precision by type of the detector without empty types, and of `any`.
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


def measure(texts: Sequence[str], gold: Layer, detected: Layer, rows: BoolArray) -> Detected:
    """Measure recall by gold type and precision by the detector's type.

    Args:
        texts: texts of all rows.
        gold: labels by people.
        detected: mentions that a detector found in these texts.
        rows: (rows,) True for rows that count, among rows that `gold` annotates completely.
    """
    rows = rows & gold.rows
    gold_in, detected_in = (np.flatnonzero(rows[side.spans.row]) for side in (gold, detected))
    covered, touched = overlaps(texts, gold.spans, detected.spans)
    _, right = overlaps(texts, detected.spans, gold.spans)
    recall = {
        name: _recall(gold.spans, of, covered, touched) for name, of in _by_type(gold, gold_in)
    }
    precision = {
        name: Precision(len(of), int(right[of].sum()))
        for name, of in _by_type(detected, detected_in)
        if len(of) or name == ANY
    }
    return Detected(int(rows.sum()), recall, precision)


def detector_of(corpus: Corpus, params: DetectionParams) -> Detected:
    """Measure a detector on all rows of a corpus with labels by people, except public rows.

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
    detection = detect(corpus.texts, params)
    spans = Spans.build(corpus.texts, detection.mentions.tolist())
    layer = Layer(spans, detection.types, everywhere)
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


def overlaps(texts: Sequence[str], spans: Spans, by: Spans) -> tuple[BoolArray, BoolArray]:
    """(mentions,) twice, of `spans`: True where `by` covers it but for space, and touches it."""
    of_row: dict[int, list[tuple[int, int]]] = {}
    for row, start, end, _ in by.mentions():
        of_row.setdefault(row, []).append((start, end))
    covered, touched = np.zeros(len(spans), dtype=bool), np.zeros(len(spans), dtype=bool)
    for at, (row, start, end, _) in enumerate(spans.mentions()):
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
    for kind, each_type in detected.precision.items():
        precision.add_row(
            kind, f"{each_type.mentions:,}", _share(each_type.right, each_type.mentions)
        )
    return [recall, precision]


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


_NAMES: Mapping[str, str] = MappingProxyType({
    "person": "PERSON PER NAME NICKNAME SPOUSE CHILD PARENT",
    "place": "LOC LOCATION GPE FAC FACILITY CITY COUNTRY ADDRESS STREET_ADDRESS",
    "organisation": "ORG ORGANIZATION ORGANISATION COMPANY CORPORATION EDUCATION",
    "date": "DATE TIME DATETIME DATE_TIME BIRTHDATE",
    "group": "NORP NRP DEM NATIONALITY LANGUAGE",
    "quantity": "QUANTITY CARDINAL ORDINAL MONEY PERCENT AGE",
    "code": "CODE PII ID EMAIL EMAIL_ADDRESS PHONE PHONE_NUMBER URL DOMAIN_NAME IP IP_ADDRESS "
    "MAC_ADDRESS CREDIT_CARD CRYPTO IBAN IBAN_CODE SSN US_SSN US_ITIN US_PASSPORT US_BANK_NUMBER "
    "US_DRIVER_LICENSE US_NPI US_MBI UK_NHS UK_NINO MEDICAL_LICENSE",
})  # fmt: skip
"""Kind -> names of types of CoNLL-2003, OntoNotes 5 (spaCy), Presidio, TAB and the sources here."""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_KIND = {_plain(name): kind for kind, names in _NAMES.items() for name in names.split()}


def kind_of_type(name: str, more: Mapping[str, str] | None = None) -> str:
    """The kind of a type; a type that nobody knows is a kind of its own, by its own name.

    Args:
        name: name of the type, in any case and with any separators.
        more: further names, of types or kinds, by name: `{"Applicant": "PERSON"}`.
    """
    plain = _plain(name)
    for alias, meaning in (more or {}).items():
        if _plain(alias) == plain:
            plain = _plain(meaning)
            break
    return _KIND.get(plain, plain)


def kinds_of_types(names: tuple[str, ...], more: Mapping[str, str] | None = None) -> list[str]:
    """Kinds of several types; see `kind_of_type`."""
    return [kind_of_type(name, more) for name in names]
