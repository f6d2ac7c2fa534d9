"""De-identification: nothing labelled survives, spans stay true, surrogates are keyed."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans, normal_surface
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.mechanisms.deidentification.mentions import Surrogates, kind_of, pool

TYPES = ("Person", "Org", "GPE", "PII")
STATS = CorpusStats(users=2, rows=3, sensitive_rows=2, entities=3, public=True)


def corpus_of(rows, splits=None):
    """A corpus from (text, [(surface, type index)]) rows."""
    texts = [text for text, _ in rows]
    mentions = []
    for at, (text, pairs) in enumerate(rows):
        for surface, kind in pairs:
            start = text.index(surface)
            mentions.append((at, start, start + len(surface), kind))
    split = np.array([SPLITS.index(name) for name in splits or ["train"] * len(rows)])
    users = np.arange(len(rows), dtype=np.int64)
    return Corpus(tuple(texts), {"user": users}, split, Spans.build(texts, mentions), TYPES)


def publish(corpus, seed=1, **params):
    published, events = Deidentify.create(params).publish(corpus, Run(seed, STATS))
    assert events == Deidentify.create(params).plan(STATS)
    return published


def surfaces(corpus):
    return [
        (corpus.entity_types[kind], corpus.surface(at))
        for at, kind in enumerate(corpus.entities.type.tolist())
    ]


ROWS = [
    ("yesterday Ada Brown met Acme in Paris", [("Ada Brown", 0), ("Acme", 1), ("Paris", 2)]),
    ("nothing to see here", []),
    ("call Ada Brown at ada@example.org .", [("Ada Brown", 0), ("ada@example.org", 3)]),
]


def test_placeholders_name_the_type_and_spans_point_at_them():
    published = publish(corpus_of(ROWS))
    assert published.texts == (
        "yesterday <Person> met <Org> in <GPE>",
        "nothing to see here",
        "call <Person> at <PII> .",
    )
    assert surfaces(published) == [
        ("Person", "<Person>"),
        ("Org", "<Org>"),
        ("GPE", "<GPE>"),
        ("Person", "<Person>"),
        ("PII", "<PII>"),
    ]


def test_removed_entities_leave_no_mention_and_no_double_space():
    published = publish(corpus_of(ROWS), style="remove")
    assert published.texts == ("yesterday met in", "nothing to see here", "call at .")
    assert len(published.entities) == 0


def test_types_that_were_not_asked_for_stay_with_their_spans():
    published = publish(corpus_of(ROWS), style="remove", entity_types=["Person"])
    assert published.texts[0] == "yesterday met Acme in Paris"
    assert surfaces(published) == [("Org", "Acme"), ("GPE", "Paris"), ("PII", "ada@example.org")]


def test_public_rows_are_left_alone_and_valid_rows_are_not():
    splits = ["public", "train", "valid"]
    published = publish(corpus_of(ROWS, splits))
    assert published.texts[0] == ROWS[0][0]
    assert "Ada" not in published.texts[2]
    assert ("Person", "Ada Brown") in surfaces(published)


def test_overlapping_mentions_are_replaced_in_full():
    text = "the Bank of New York Mellon said"
    corpus = corpus_of([(text, [("Bank of New York", 1), ("New York Mellon", 2)])])
    for style in ("placeholder", "surrogate", "remove"):
        words = set(publish(corpus, style=style).texts[0].split())
        assert not words & {"Bank", "New", "Mellon"}, style
    # A type that stays, around one that is replaced, must not shield it.
    inside = corpus_of([(text, [("Bank of New York Mellon", 1), ("New York", 2)])])
    published = publish(inside, entity_types=["GPE"])
    assert published.texts[0] == "the Bank of <GPE> Mellon said"
    assert surfaces(published) == [("GPE", "<GPE>")]


def test_neighbouring_mentions_of_one_type_stay_two():
    corpus = corpus_of([("with Ada Bob today", [("Ada", 0), ("Bob", 0)])])
    assert publish(corpus).texts == ("with <Person> <Person> today",)


def test_a_surrogate_does_not_depend_on_other_rows_or_their_order():
    whole = publish(corpus_of(ROWS), style="surrogate")
    backwards = publish(corpus_of(ROWS[::-1]), style="surrogate")
    alone = publish(corpus_of(ROWS[2:]), style="surrogate")
    assert whole.texts == backwards.texts[::-1]
    assert whole.texts[2] == alone.texts[0]


def test_surrogates_have_the_type_and_change_with_the_key():
    published = publish(corpus_of(ROWS), style="surrogate")
    names = surfaces(published)
    assert names[0] == names[3]  # one entity, one surrogate
    assert names[0][1] in pool("person")
    assert names[1][1] in pool("organisation")
    assert names[2][1] in pool("place")
    assert names[4][1] in {surface.lower() for surface in pool("email")}
    others = {surfaces(publish(corpus_of(ROWS), seed, style="surrogate"))[0] for seed in range(9)}
    assert len(others) > 5


@given(st.text(min_size=1, max_size=12), st.sampled_from([*TYPES, "Work of art", "DATE_TIME"]))
@settings(max_examples=200, deadline=None)
def test_a_surrogate_follows_the_normalised_surface_and_is_never_the_surface(surface, kind):
    surrogates = Surrogates(b"k" * 32)
    mine = surrogates(kind, surface)
    assert normal_surface(mine) != normal_surface(surface)
    assert mine == " ".join(mine.split())
    if kind_of(kind, surface) == kind_of(kind, f" {surface} "):
        assert mine.casefold() == surrogates(kind, f" {surface}  ").casefold()


def test_every_surface_of_a_pool_is_moved():
    surrogates = Surrogates(b"another key")
    assert all(surrogates("GPE", city) != city for city in pool("place"))


def test_case_follows_the_surface():
    surrogates = Surrogates(b"k")
    assert surrogates("GPE", "PARIS").isupper()
    assert surrogates("GPE", "paris").islower()
    assert surrogates("GPE", "Paris").casefold() == surrogates("GPE", "PARIS").casefold()


def test_unknown_entity_type_is_one_line_with_the_nearest():
    with pytest.raises(InputError, match=r"type 'Persn'.*'Person'"):
        publish(corpus_of(ROWS), entity_types=["Persn"])


def test_unknown_style_is_an_input_error():
    with pytest.raises(InputError, match=r"deidentify\.style"):
        Deidentify.create({"style": "blur"})


def test_a_corpus_without_mentions_stays_as_it_is():
    corpus = corpus_of([("nothing to see here", []), ("nor here", [])])
    assert publish(corpus).texts == corpus.texts


@pytest.mark.parametrize("kind", ["date", "time"])
def test_pools_do_not_depend_on_when_they_are_drawn(kind, monkeypatch):
    before = pool.__wrapped__(kind)

    def later(cls, tz=None):
        return cls(2041, 5, 6, 7, 8, 9, tzinfo=tz)

    clock = type("Clock", (datetime,), {"now": classmethod(later)})
    monkeypatch.setattr("faker.providers.date_time.datetime", clock)
    assert pool.__wrapped__(kind) == before


def with_layers(rows, **marked):
    """A corpus with annotations besides: (row, surface) of one type by the layer's name."""
    corpus = corpus_of(rows)
    places = {
        name: [
            (row, at := corpus.texts[row].index(surface), at + len(surface), 0)
            for row, surface in mentions
        ]
        for name, mentions in marked.items()
    }
    layers = {
        name: Layer.build(corpus.texts, mentions, ("X",)) for name, mentions in places.items()
    }
    return replace(corpus, layers=layers)


def marked(corpus, name):
    spans = corpus.layer(name).spans
    return [corpus.texts[row][start:end] for row, start, end, _ in spans.mentions()]


LAYERS = {
    "mention": [(0, "Ada Brown"), (2, "ada@example.org")],
    "beside": [(0, "yesterday"), (0, "met"), (2, "call"), (2, "at")],
    "around": [(0, "met Acme in"), (1, "nothing to see")],
    "part": [(0, "Brown")],
}


def test_layers_say_the_surrogate_where_they_said_the_name():
    corpus = with_layers(ROWS, **LAYERS)
    shown = publish(corpus)
    assert marked(shown, "mention") == ["<Person>", "<PII>"]
    assert marked(shown, "beside") == marked(corpus, "beside")
    assert marked(shown, "around") == ["met <Org> in", "nothing to see"]
    assert marked(shown, "part") == ["<Person>"]
    invented = publish(corpus, style="surrogate")
    assert marked(invented, "mention") == [invented.surface(0), invented.surface(4)]
    assert marked(invented, "beside") == marked(corpus, "beside")
    assert all(layer.rows.all() for layer in invented.layers.values())


def test_layers_lose_what_was_removed(tmp_path):
    corpus = with_layers(ROWS, **LAYERS)
    (tmp_path / "list.txt").write_text("at\nmet in\n")
    for params, torn in (({}, True), ({"public_list": tmp_path / "list.txt"}, False)):
        gone = publish(corpus, style="remove", **params)
        assert marked(gone, "mention") == []
        assert gone.layer("mention").rows.all()  # nothing is left of which nobody knows
        assert marked(gone, "around") == ["nothing to see"]
        assert gone.layer("around").rows.tolist() == [not torn, True, True]
    assert gone.texts == ("yesterday", "nothing to see here", "call .")
    assert marked(gone, "beside") == ["yesterday", "call"]
    listed = publish(corpus, public_list=tmp_path / "list.txt")
    assert marked(listed, "mention") == ["<Person>", "<PII>"]
    assert marked(listed, "beside") == ["yesterday", "met", "call", "<LISTED>"]


@settings(max_examples=25)
@given(st.data(), st.sampled_from(["placeholder", "surrogate", "remove"]))
def test_a_layer_of_the_mentions_is_what_the_mentions_become(data, style):
    """Whatever stands around them: gold labels of what is found move as what is found does."""
    names = data.draw(st.lists(st.sampled_from(["Ada Brown", "Bo"]), min_size=1, max_size=3))
    gaps = st.sampled_from([" ", "  met ", ", ", "\t"])
    text, mentions = "", []
    for name in names:
        text += data.draw(gaps)
        mentions.append((0, len(text), len(text) + len(name), 0))
        text += name
    corpus = corpus_of([(text, [])])
    corpus = replace(
        corpus,
        entities=Spans.build([text], mentions),
        layers={"gold": Layer.build([text], mentions, TYPES)},
    )
    out = publish(corpus, style=style)
    assert out.layer("gold").spans.mentions() == out.entities.mentions()
    assert len(out.entities) == (0 if style == "remove" else len(names))
