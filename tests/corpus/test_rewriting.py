"""Spans follow a text that changes: they say what they should, or nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.corpus import Corpus, Layer, LostSpans, Rewriting, Spans
from uedp_bench.errors import InputError


def corpus_of(*texts: str, entities: list | None = None, **layers: Layer) -> Corpus:
    return Corpus(
        texts=texts,
        groups={"user": np.arange(len(texts))},
        split=np.zeros(len(texts), dtype=np.int64),
        entities=Spans.build(texts, entities or []),
        entity_types=("A", "B"),
        targets=("in clear",) * len(texts),
        records=({"name": ("in clear",)},) * len(texts),
        layers=layers,
    )


def covered_texts(corpus: Corpus, spans: Spans | None = None) -> list[str]:
    spans = corpus.entities if spans is None else spans
    return [corpus.texts[row][start:end] for row, start, end, _ in spans.mentions()]


words = st.lists(st.sampled_from(["Ann", "met", "New-York", "x", "Bo's"]), min_size=1, max_size=8)
substitutes = st.sampled_from([None, "y", "of the", "<PER>"])


@given(st.data(), words)
def test_a_span_of_words_covers_what_they_became(data, old):
    """Word by word, whatever becomes of each: the oracle is a list of words."""
    spaces = data.draw(st.sampled_from([" ", "  "]))
    text = spaces.join(old)
    places = [m.span() for m in re.finditer(r"\S+", text)]
    new = data.draw(st.lists(substitutes, min_size=len(old), max_size=len(old)))
    first = data.draw(st.integers(0, len(old) - 1))
    last = data.draw(st.integers(first, len(old) - 1))
    mention = (0, places[first][0], places[last][1], 0)
    complete = Layer.build([text], [mention], ("A",))
    rewriting = Rewriting(corpus_of(text, entities=[mention], gold=complete))
    rewriting.words(0, [(*place, word) for place, word in zip(places, new, strict=True)])
    out = rewriting.corpus()
    assert out.texts == (" ".join(word for word in new if word),)
    inside = new[first : last + 1]
    whole = None not in inside
    assert covered_texts(out) == ([" ".join(inside)] if whole else [])
    gold = out.layer("gold")
    assert covered_texts(out, gold.spans) == covered_texts(out)
    # Of a mention that is gone nothing is missing; of one that is torn something is.
    assert gold.rows.tolist() == [whole or not any(inside)]


@given(st.data(), st.text("ab c", min_size=1, max_size=20))
def test_spans_apart_from_what_is_replaced_say_what_they_said(data, text):
    """Pieces of a text are replaced: what surrounds them is found by its characters."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pieces = [
        (start, end, data.draw(st.sampled_from(["XX", "<PER>", None])))
        for start, end in zip(cuts[::2], cuts[1::2], strict=False)
        if text[start:end].strip()
    ]
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    rewriting = Rewriting(corpus_of(text, entities=[(0, start, end, 0)]))
    rewriting.pieces(0, pieces)
    out = rewriting.corpus()
    touched = [piece for piece in pieces if piece[0] < end and start < piece[1]]
    if any(new is None for *_, new in touched):
        assert covered_texts(out) == []
        return
    low, high = min([start, *(p[0] for p in touched)]), max([end, *(p[1] for p in touched)])
    expected, at = "", low
    for first, last, new in touched:
        expected += text[at:first] + new
        at = last
    assert covered_texts(out) == [expected + text[at:high]]


def test_what_shares_a_substitute_with_another_span_is_none():
    text = "Ann Smith left"
    layer = Layer.build([text], [(0, 0, 3, 0), (0, 4, 9, 1), (0, 10, 14, 0)], ("NNP", "VBD"))
    alone = Layer.build([text], [(0, 0, 3, 0)], ("PER",))
    rewriting = Rewriting(corpus_of(text, pos=layer, gold=alone))
    rewriting.pieces(0, [(0, 9, "<PER>")])
    out = rewriting.corpus()
    assert covered_texts(out, out.layer("pos").spans) == ["left"]
    assert out.layer("pos").rows.tolist() == [False]
    # Where only one stands for the name, it is the name.
    assert covered_texts(out, out.layer("gold").spans) == ["<PER>"]
    assert out.layer("gold").rows.tolist() == [True]


def test_rows_that_stay_keep_their_spans_and_other_content_goes():
    corpus = corpus_of("Ann met", "Bo met", entities=[(0, 0, 3, 0), (1, 0, 2, 1)])
    rewriting = Rewriting(corpus)
    rewriting.words(1, [(0, 2, "Eve")])  # "met" is in no word: dropped
    out = rewriting.corpus()
    assert out.texts == ("Ann met", "Eve")
    assert covered_texts(out) == ["Ann", "Eve"]
    assert out.targets is None
    assert out.records is None
    by_hand = Rewriting(corpus)
    by_hand.words(0, [])
    assert covered_texts(by_hand.corpus([(1, 3, 6, 0)])) == ["met"]
    lost = Rewriting(replace(corpus, entities=LostSpans("word-dropout")))
    lost.words(0, [(0, 3, "x")])
    assert lost.corpus().entities.lost


def test_rows_may_come_twice_and_in_any_order():
    """As where fragments are published: several rows are made of one."""
    texts = ("Ann met Bo", "rain")
    gold = Layer.build(texts, [(0, 0, 3, 0), (0, 8, 10, 0)], ("PER",))
    fragments = corpus_of(*texts, gold=gold).take(np.array([0, 1, 0]))
    assert fragments.origin.tolist() == [0, 1, 0]
    assert covered_texts(fragments, fragments.layer("gold").spans) == ["Ann", "Bo", "Ann", "Bo"]
    rewriting = Rewriting(fragments)
    rewriting.words(2, [(4, 7, "met"), (8, 10, "Bo")])
    rewriting.words(0, [(0, 3, "Ann"), (4, 7, "met")])
    out = rewriting.corpus()
    assert out.texts == ("Ann met", "rain", "met Bo")
    assert covered_texts(out, out.layer("gold").spans) == ["Ann", "Bo"]
    assert out.layer("gold").spans.row.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rewriting: rewriting.words(0, [(4, 7, "x"), (0, 3, "y")]), r"\(0, 3\).*row 0"),
        (lambda rewriting: rewriting.pieces(0, [(0, 99, "x")]), r"\(0, 99\).*row 0"),
        (lambda rewriting: rewriting.edited(0, "Ann meets", [(4, 7, 2)]), "edits.*row 0"),
        (lambda rewriting: (rewriting.words(0, []), rewriting.words(0, [])), "row 0.*twice"),
    ],
)
def test_pieces_that_do_not_fit_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        change(Rewriting(corpus_of("Ann met")))
