"""Looking up known entities: the longest first, from left to right."""

from __future__ import annotations

import numpy as np

from uedp_bench.tasks.tagging.scores import dictionary, labelled_phrases, longest_matches
from uedp_bench.tasks.tagging.targets import WordTable


def test_the_longest_phrase_wins_and_rows_are_apart() -> None:
    phrases = {("New", "York"): 0, ("York",): 1, ("New", "York", "Times"): 1}
    table = WordTable.from_texts(["in New York Times New", "York and New York"], "spaces")
    assert longest_matches(table, phrases).tolist() == [0, 3, 4, 4, 0, 3, 0, 1, 2]


def test_a_phrase_has_the_type_that_it_has_most_often() -> None:
    mentions = [("Lee", 1), ("Lee", 0), ("Lee", 1), ("Rome", 2), ("Rome", 0)]
    phrases = dictionary(((name,), kind) for name, kind in mentions)
    assert phrases == {("Lee",): 1, ("Rome",): 0}


def test_phrases_are_those_of_labels_within_their_row() -> None:
    table = WordTable.from_texts(["a b", "c d e", ""], "spaces")
    labels = np.array([0, 1, 2, 3, 4])
    assert labelled_phrases(table, labels) == [(("b",), 0), (("d", "e"), 1)]


def test_phrases_match_in_another_unicode_form_but_not_in_another_case() -> None:
    phrases = dictionary([(("Jose\u0301",), 0), (("US",), 1)])
    table = WordTable.from_texts(["Jos\u00e9 told us Jo\u200bs\u00e9 US"], "spaces")
    assert longest_matches(table, phrases).tolist() == [1, 0, 0, 1, 3]
