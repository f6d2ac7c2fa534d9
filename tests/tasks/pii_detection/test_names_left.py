"""Names that still stand in published text, as words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.tasks.pii_detection.names_left import names_left

TEXTS = ("Ann Lee met Bo", "the Bo-Lee ltd", "Rome and rome", "Ann", "planted Cy")
GOLD = [(0, 0, 7, 0), (0, 12, 14, 0), (1, 4, 6, 0), (2, 0, 4, 1), (2, 9, 13, 1), (3, 0, 3, 0),
        (4, 8, 10, 0)]  # fmt: skip


def corpus(texts=TEXTS, split=("train", "train", "valid", "public", "train")):
    return Corpus(
        tuple(texts), {"user": np.array([0, 1, 1, 2, 3])},
        np.array([SPLITS.index(name) for name in split]), origin=np.array([0, 1, 2, 3, -1]),
    )  # fmt: skip


def left(published, rows=(True,) * 5):
    gold = Layer.build(TEXTS, GOLD, ("PER", "LOC"), np.array(rows))
    return names_left(corpus(), gold, published, np.random.default_rng(0))


def test_names_are_compared_as_words_and_planted_and_public_rows_do_not_count() -> None:
    # Half a name is no name; Bo stands inside of another word, then as one; rome is in small type.
    texts = ("Lee met Bob", "the bo - Lee ltd", "<LOC> and rome", "Ann", "planted Cy")
    found = left(corpus(texts))
    assert found.utility["names_left"].value == 3 / 5
    assert found.utility["rows_left"].value == 2 / 3
    assert found.details == {
        "mentions": 5,
        "mentions_left": 3,
        "rows": 3,
        "rows_left": 2,
        "types": {"PER": {"mentions": 3, "left": 1}, "LOC": {"mentions": 2, "left": 2}},
    }


def test_rows_are_found_by_their_origin() -> None:
    """A publisher may leave out rows, make two of one, and change their order."""
    texts = ("<X>", "Bo", "nobody", "", "")
    moved = replace(corpus(texts), origin=np.array([1, 0, 0, -1, -1]))
    found = left(moved)
    assert found.details["mentions"] == 3
    assert found.details["mentions_left"] == 1


def test_incomplete_rows_do_not_count_and_nothing_published_is_none() -> None:
    found = left(corpus(), rows=(False, True, True, True, True))
    assert found.details["mentions"] == 3
    assert left(replace(corpus(), origin=np.full(5, -1))) is None
    assert left(replace(corpus(), vectors=np.zeros((5, 2)))) is None
    gold = Layer(Spans.none(), (), np.ones(5, dtype=bool))
    assert names_left(corpus(), gold, corpus(), np.random.default_rng(0)) is None
