"""Ids of rows: the same in every part of a corpus, and never shared with a planted row."""

from __future__ import annotations

from typing import Any

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, concatenate, row_ids

TRAIN, HELD_OUT = SPLITS.index("train"), SPLITS.index("held_out")


def corpus(**columns: Any) -> Corpus:
    split = np.array([TRAIN, TRAIN, HELD_OUT, TRAIN, TRAIN])
    texts = ("one", "a secret", "a secret", "a secret", "five")
    origin = np.array([0, -1, -1, -1, 4])
    return Corpus(texts, {"user": np.array([0, 1, 2, 1, 3])}, split, origin=origin, **columns)


def test_rows_have_their_number_or_what_the_source_calls_them() -> None:
    numbered, named = row_ids(corpus()), row_ids(corpus(ids=("a", "b", "c", "d", "e")))
    assert (numbered[0], numbered[4]) == ("0", "4")
    assert (named[0], named[4]) == ("a", "e")
    # A planted row says something else than the row that it replaced: it is not called "b".
    assert numbered[1:4] == named[1:4]
    assert all(name.startswith("planted-") for name in named[1:4])
    assert len({*named}) == 5


def test_ids_are_the_same_in_a_part_of_the_corpus() -> None:
    whole = corpus()
    kept = np.flatnonzero(whole.where("train"))
    assert row_ids(whole.only("train")) == [row_ids(whole)[row] for row in kept]


def test_another_text_or_user_has_another_id() -> None:
    first = row_ids(corpus())
    assert first[1] != first[2]  # of another user
    assert first[3] == f"{first[1]}-1"  # the same user said it twice


def test_ids_follow_rows_and_enter_fingerprints() -> None:
    named = corpus(ids=("a", "b", "c", "d", "e"))
    assert named.take(np.array([4, 0])).ids == ("e", "a")
    assert concatenate(named, named).ids == (*"abcde", *"abcde")
    assert concatenate(named, corpus()).ids is None
    # Public choices are keyed by them: other ids are another run.
    assert named.fingerprint != corpus().fingerprint
