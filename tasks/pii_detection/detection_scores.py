"""How much of what people labelled a detector finds, whatever it calls it, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from uedp_bench.corpus import FloatArray, IntArray, Layer, Spans
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import ratio_estimate
from uedp_bench.statistics.span_scores import span_counts, span_scores
from uedp_bench.text.detection import overlaps
from uedp_bench.text.type_names import kinds_of_types


class Detection(NamedTuple):
    """What there is and what was found in some rows, all of which are completely annotated.

    Attributes:
        texts: of the rows.
        gold: what people labelled; at least one mention.
        found: what a detector found.
        users: (rows,) rows with equal numbers are resampled together.
    """

    texts: Sequence[str]
    gold: Layer
    found: Layer
    users: IntArray


def detection_scores(
    detection: Detection, same_types: Mapping[str, str], rng: np.random.Generator
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Scores of all types together, and of each type.

    Args:
        detection: what there is and what was found.
        same_types: see `text.type_names.kind_of_type`.
        rng: of the resampling.

    Returns:
        Metrics by name; and details: `recall` by labelled type (`covered`, `touched` and `right`,
        which asks for a type of the same kind), `precision` by type of the detector.
    """
    texts, gold, found, users = detection
    covered, touched = overlaps(texts, gold.spans, found.spans)
    _, right = overlaps(texts, found.spans, gold.spans)
    kinds = kinds_of_types(gold.types, same_types), kinds_of_types(found.types, same_types)
    alike = _of_same_kind(texts, gold.spans, found.spans, kinds)

    def share(hits: FloatArray, of: Spans) -> Estimate:
        return ratio_estimate(hits, np.ones(len(of)), rng, users[of.row])

    owners, whole = _entities(gold.spans, covered, users)
    utility = {
        "covered": share(covered.astype(np.float64), gold.spans),
        "covered_entities": ratio_estimate(whole, np.ones(len(whole)), rng, owners),
        "precision": share(right.astype(np.float64), found.spans)
        if len(found.spans)
        else Estimate(value=0.0),
        "hidden": _hidden(detection, rng),
        **_semeval(detection, kinds, rng),
        "nothing_covered": Estimate(value=0.0),
    }
    details: dict[str, Any] = {"rows": len(texts), "mentions": len(gold.spans), "recall": {}}
    for kind, name in enumerate(gold.types):
        of = np.flatnonzero(gold.spans.type == kind)
        if len(of):
            spans = gold.spans.chosen(of)
            hits = {"covered": covered[of], "touched": touched[of], "right": alike[of]}
            shares = {key: share(row.astype(np.float64), spans) for key, row in hits.items()}
            told = {key: value.model_dump(mode="json") for key, value in shares.items()}
            details["recall"][name] = {"mentions": len(of), **told}
    details["precision"] = {}
    for kind, name in enumerate(found.types):
        of = np.flatnonzero(found.spans.type == kind)
        if len(of):
            value = share(right[of].astype(np.float64), found.spans.chosen(of))
            told = {"precision": value.model_dump(mode="json")}
            details["precision"][name] = {"mentions": len(of), **told}
    return utility, details


def _entities(
    gold: Spans, covered: np.ndarray[Any, Any], users: IntArray
) -> tuple[IntArray, FloatArray]:
    """Owner of each entity of a user, and 1 where all its mentions are covered."""
    pairs = np.stack([users[gold.row], gold.entity], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    left = np.bincount(place.ravel(), weights=~covered, minlength=len(distinct))
    return distinct[:, 0], (left == 0).astype(np.float64)


def _hidden(detection: Detection, rng: np.random.Generator) -> Estimate:
    """Share of the characters that the detector's spans cover."""
    length = np.array([len(text) for text in detection.texts], dtype=np.float64)
    hidden = np.zeros(len(length))
    last: dict[int, int] = {}
    for row, start, end, _ in detection.found.spans.mentions():  # in order of their start
        begin = max(start, last.get(row, 0))
        hidden[row] += max(0, end - begin)
        last[row] = max(end, last.get(row, 0))
    return ratio_estimate(hidden, length, rng, detection.users)


def _semeval(
    detection: Detection, kinds: tuple[list[str], list[str]], rng: np.random.Generator
) -> dict[str, Estimate]:
    """Scores of SemEval-2013 task 9, with kinds in place of types."""
    _, gold, found, users = detection
    names = sorted({*kinds[0], *kinds[1]})
    true, predicted = (
        layer.spans.renumbered([names.index(kind) for kind in own])
        for layer, own in ((gold, kinds[0]), (found, kinds[1]))
    )
    scores = span_scores(span_counts(true, predicted, len(detection.texts)), users, rng)
    out = {f"f1_{name}": scores[name].f1 for name in ("strict", "exact", "partial", "type")}
    return out | {"recall_type": scores["type"].recall}


def _of_same_kind(
    texts: Sequence[str], gold: Spans, found: Spans, kinds: tuple[list[str], list[str]]
) -> np.ndarray[Any, Any]:
    """(mentions,) True where a labelled mention overlaps something found of its own kind."""
    out = np.zeros(len(gold), dtype=bool)
    of_gold, of_found = (np.array(names, dtype=object) for names in kinds)
    for kind in sorted({*kinds[0]} & {*kinds[1]}):
        mine = np.flatnonzero(of_gold[gold.type] == kind)
        theirs = np.flatnonzero(of_found[found.type] == kind)
        out[mine] = overlaps(texts, gold.chosen(mine), found.chosen(theirs))[1]
    return out
