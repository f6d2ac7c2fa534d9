"""From spans of characters to labels of words, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.corpus import Mention, Spans
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.reading.annotations import places_of
from uedp_bench.tasks.sources.reading.tag_schemes import iob_spans
from uedp_bench.tasks.tagging.targets import (
    WordTable,
    label_names,
    labels_of_spans,
    mentions_of_labels,
)

TYPES = ("LOC", "PER")


def names_of(texts: list[str], mentions: list[Mention], *, exact: bool = True) -> list[str]:
    words = WordTable.from_texts(texts, "spaces")
    where = (lambda row: f"row {row}") if exact else None
    labels = labels_of_spans(words, Spans.build(texts, mentions), TYPES, where=where)
    return [label_names(TYPES)[label] for label in labels]


def test_iob1_becomes_bio2() -> None:
    """In IOB1 a B- stands between neighbours of one type alone; BIO2 has one at every start."""
    tokens, tags = (
        ["Rome", "Ann", "Lee", "Bob", "Lee", "said"],
        ["I-LOC", "I-PER", "I-PER", "B-PER", "I-PER", "O"],
    )
    spans = iob_spans(places_of(tokens), tags)
    labels = names_of([" ".join(tokens)], [(0, a, b, TYPES.index(kind)) for a, b, kind in spans])
    assert labels == ["B-LOC", "B-PER", "I-PER", "B-PER", "I-PER", "O"]


def test_words_are_those_of_the_sources_spaces() -> None:
    table = WordTable.from_texts(["  a b\tc ", "", "\u00a0d\u2009e"], "spaces")
    assert table.words == ("a", "b", "c", "d", "e")
    assert table.start.tolist() == [2, 4, 6, 1, 3]
    assert table.by_row() == [("a", "b", "c"), (), ("d", "e")]
    assert WordTable.from_texts(["Dr. Lee, of x_1!"], "signs").words == (
        "Dr", ".", "Lee", ",", "of", "x_1", "!",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mention", "message"),
    [
        ((1, 4, 6, 1), r"row 1.*\(4, 6\).*PER.*'Lee,'.*'signs'"),
        ((1, 4, 7, 1), r"row 1.*\(4, 7\).*PER.*'Lee,'"),
        ((1, 3, 4, 0), r"row 1.*\(3, 4\).*LOC"),
    ],
)
def test_spans_that_do_not_fit_words_are_refused_by_row(mention: Mention, message: str) -> None:
    with pytest.raises(InputError, match=message):
        names_of(["x", "Ann Lee, MD"], [mention])
    assert names_of(["x", "Ann Lee, MD"], [(1, 3, 8, 1)]) == ["O", "O", "B-PER", "O"]


def test_spans_that_share_a_word_are_refused_unless_they_are_one() -> None:
    text = ["Bank of Rome opens"]
    with pytest.raises(InputError, match=r"row 0.*\(0, 12\).*\(8, 12\)"):
        names_of(text, [(0, 0, 12, 1), (0, 8, 12, 0)])
    assert names_of(text, [(0, 0, 12, 1), (0, 0, 12, 1)]) == ["B-PER", "I-PER", "I-PER", "O"]


def test_spans_of_programs_take_words_whole_and_the_first_wins() -> None:
    text = ["Bank of Rome, opens"]
    tags = names_of(text, [(0, 0, 4, 1), (0, 2, 10, 0), (0, 8, 12, 0), (0, 4, 5, 1)], exact=False)
    assert tags == ["B-PER", "O", "B-LOC", "O"]
    assert names_of(text, [(0, 0, 4, 1), (0, 0, 7, 0)], exact=False)[:2] == ["B-LOC", "I-LOC"]


def test_predicted_labels_are_read_as_conlleval_reads_them() -> None:
    """An I- without its B- begins an entity; rows end entities."""
    words = WordTable.from_texts(["a b c d", "e f"], "spaces")
    labels = np.array([label_names(TYPES).index(name) for name in
                       ["I-LOC", "I-LOC", "I-PER", "I-LOC", "I-LOC", "B-LOC"]])  # fmt: skip
    assert mentions_of_labels(words, labels) == [
        (0, 0, 3, 0), (0, 4, 5, 1), (0, 6, 7, 0), (1, 0, 1, 0), (1, 2, 3, 0),
    ]  # fmt: skip
    assert mentions_of_labels(words, np.zeros(6, dtype=np.int64)) == []


@given(st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=5))
def test_labels_survive_the_way_over_spans(rows: list[list[int]]) -> None:
    """All BIO2 labels do; others come back as the BIO2 labels of the same entities."""
    texts = [" ".join("word" for _ in row) for row in rows]
    words = WordTable.from_texts(texts, "spaces")
    labels = np.array([label for row in rows for label in row], dtype=np.int64)
    mentions = mentions_of_labels(words, labels)
    again = labels_of_spans(words, Spans.build(texts, mentions), TYPES, where=str)
    assert mentions_of_labels(words, again) == mentions
    assert ((labels > 0) == (again > 0)).all()
    assert (again[labels % 2 == 1] % 2 == 1).all()
