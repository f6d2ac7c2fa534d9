"""Rows that attacks replace keep nothing of what they said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uedp_bench.attacks._planting import person_type, replace_rows, true_types
from uedp_bench.corpus import CONTENT, Corpus, Layer, Spans
from uedp_bench.corpus.entity_detection import DetectionParams

TEXTS = ("Ann met Bo", "Bo in Rome", "rain again", "Ann left")
MENTIONS = [(0, 0, 3, 0), (1, 0, 2, 0), (1, 6, 10, 1), (3, 0, 3, 0)]


def corpus_of() -> Corpus:
    """Users 0 and 1 have rows 0, 1 and 2; row 3 is all that user 2 wrote."""
    nobody = np.array([True, True, False, True])
    return Corpus(
        texts=TEXTS,
        groups={"user": np.array([0, 1, 1, 2])},
        split=np.zeros(4, dtype=np.int64),
        entities=Spans.build(TEXTS, MENTIONS),
        entity_types=("PER", "LOC"),
        targets=tuple(f"target of {text}" for text in TEXTS),
        layers={
            "gold": Layer.build(TEXTS, MENTIONS, ("LOC", "PER"), nobody),
            "automatic": Layer.build(TEXTS, MENTIONS[:2], ("PER",)),
        },
        records=tuple({"name": (name,)} for name in ("Ann", "Bo", "Ann again")),
    )


def planted(corpus: Corpus) -> Corpus:
    rows = np.array([3, 1])
    mentions = [(3, 6, 8, 0), (1, 6, 8, 0)]  # of the first of the true types
    return replace_rows(corpus, rows, ["my is xy", "it is zz"], mentions)


def test_no_content_of_a_replaced_row_is_left() -> None:
    corpus = corpus_of()
    out = planted(corpus)
    assert {"targets", "entities", "layers", "records"} == set(CONTENT)  # all are looked at below
    assert out.texts == ("Ann met Bo", "it is zz", "rain again", "my is xy")
    assert out.targets == (corpus.targets[0], "it is zz", corpus.targets[2], "my is xy")
    assert [out.surface(i) for i in range(3)] == ["Ann", "zz", "xy"]
    assert len(out.entities) == 3
    automatic = out.layer("automatic")
    assert automatic.spans.row.tolist() == [0]
    assert automatic.rows.tolist() == [True, False, True, False]
    # User 1 wrote another row; nothing is left of user 2, and what is known of that user is gone.
    assert out.records == ({"name": ("Ann",)}, {"name": ("Bo",)}, {})
    assert out.origin.tolist() == [0, -1, 2, -1]


def test_gold_labels_know_what_was_planted() -> None:
    gold = planted(corpus_of()).layer("gold")
    assert gold.spans.mentions() == [(0, 0, 3, 0), (1, 6, 8, 1), (3, 6, 8, 1)]  # PER by its name
    assert gold.rows.tolist() == [True, True, False, True]
    without = replace(corpus_of(), layers={"gold": Layer.build(TEXTS, [], ("ORG",))})
    unknown = planted(without).layer("gold")
    assert len(unknown.spans) == 0
    assert unknown.rows.tolist() == [True, False, True, False]  # a name that it has no type for


def test_types_are_those_of_people_beside_a_detector() -> None:
    corpus = corpus_of()
    assert true_types(corpus) == ("PER", "LOC")
    with_detector = replace(
        corpus, detector=DetectionParams(detector="names"), entity_types=("PERSON",)
    )
    assert true_types(with_detector) == ("LOC", "PER")
    assert person_type(with_detector) == 1
    assert true_types(replace(with_detector, layers={})) == ("PERSON",)
