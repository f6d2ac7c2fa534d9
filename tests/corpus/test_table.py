"""The corpus: its indexes, its splits, its fingerprint."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.corpus import (
    COLUMNS,
    CONTENT,
    SPLITS,
    Corpus,
    Index,
    Layer,
    Spans,
    concatenate,
    dense_ids,
    distinct,
    normal_surface,
)
from uedp_bench.errors import CapabilityError, InputError

TEXTS = ("Ann met Bob", "bob  met ANN", "Paris is far", "nobody here", "New\tYork and new york")
MENTIONS = [(0, 0, 3, 0), (0, 8, 11, 0), (1, 0, 3, 0), (1, 9, 12, 0), (2, 0, 5, 1),
            (4, 0, 8, 1), (4, 13, 21, 1)]  # fmt: skip


def small(**changes) -> Corpus:
    fields = {
        "texts": TEXTS,
        "groups": {"user": np.array([0, 1, 0, -1, 2])},
        "split": np.array([0, 0, 1, 2, 0]),
        "entities": Spans.build(TEXTS, MENTIONS),
        "entity_types": ("PER", "LOC"),
        "labels": np.array([0, 1, -1, 0, 1]),
        "label_names": ("x", "y"),
        "attributes": {"age": np.array([0, 0, 1, -1, 1])},
        "attribute_names": {"age": ("young", "old")},
    }
    return Corpus(**{**fields, **changes})


def test_an_entity_is_its_type_and_case_folded_surface_with_single_spaces():
    corpus = small()
    assert corpus.entities.entity.tolist() == [0, 1, 1, 0, 2, 3, 3]
    assert corpus.surface(3) == "ANN"
    assert normal_surface(" New\t York ") == "new york"
    other_type = Spans.build(TEXTS, [(0, 0, 3, 0), (1, 9, 12, 1)])
    assert len(set(other_type.entity.tolist())) == 2


def test_spread_counts_the_other_users():
    corpus = small()
    assert corpus.users_of_entity.tolist() == [2, 2, 1, 1]
    assert corpus.spread.tolist() == [1, 1, 0, 0]
    assert corpus.sensitive.tolist() == [True, True, True, False, True]
    assert corpus.rows_of_entity[3].tolist() == [4]
    assert corpus.entities_of_row[0].tolist() == [0, 1]
    assert (corpus.user_count, corpus.entity_count) == (3, 4)


@given(st.lists(st.tuples(st.sampled_from(MENTIONS), st.integers(0, 3))), st.integers(0, 9))
def test_spans_followed_by_others_are_those_of_all_together(drawn, first):
    mentions = [(row, start, end, kind) for (row, start, end, _), kind in drawn]
    own = Spans.build(TEXTS, mentions).outside(np.array([False, False, True, False, False]))
    own, more = own.chosen(np.arange(len(own)) < first), mentions[first:]
    together = Spans.build(TEXTS, [*own.mentions(), *more])
    spans = own.followed_by(TEXTS, more)
    assert spans.mentions() == together.mentions()
    assert spans.entity.tolist() == together.entity.tolist()
    with pytest.raises(InputError, match=r"\(0, 99\).*row 2"):
        own.followed_by(TEXTS, [*more, (2, 0, 99, 0)])


@pytest.mark.parametrize("span", [(0, 3, 3, 0), (0, 5, 3, 0), (0, 0, 99, 0), (0, -1, 2, 0)])
def test_spans_outside_their_text_are_refused(span):
    with pytest.raises(InputError, match=r"\(.*\).*row 0.* 11 "):
        Spans.build(TEXTS, [span])


def test_columns_of_another_length_are_refused():
    for change in (
        {"split": np.zeros(4, dtype=int)},
        {"labels": np.zeros(6, dtype=int)},
        {"groups": {"user": np.zeros(1, dtype=int)}},
        {"attributes": {"age": np.zeros(2, dtype=int)}},
    ):
        with pytest.raises(InputError, match=r"(split|labels|user|age).* 5 rows"):
            small(**change)
    with pytest.raises(InputError, match="'user'"):
        small(groups={})


def test_splits_by_name():
    corpus = small()
    assert corpus.only("valid", "test").texts == TEXTS[2:4]
    assert corpus.with_split(corpus.users == 0, "held_out").split.tolist() == [3, 0, 3, 2, 0]
    with pytest.raises(InputError, match=r"split 'dev'.*train, valid"):
        corpus.only("dev")


pairs = st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 8)), max_size=30)


@given(pairs, st.lists(st.integers(0, 5), max_size=8))
def test_an_index_holds_every_pair_once(rows_and_keys, keys):
    table = np.array(rows_and_keys, dtype=np.int64).reshape(-1, 2)
    index = Index.build(table[:, 0], table[:, 1], 6)
    expected = {k: sorted({r for key, r in rows_and_keys if key == k}) for k in range(6)}
    assert {k: index[k].tolist() for k in range(6)} == expected
    assert index.counts.tolist() == [len(expected[k]) for k in range(6)]
    owner, rows = index.take(np.array(keys, dtype=np.int64))
    assert list(zip(owner.tolist(), rows.tolist(), strict=True)) == [
        (i, r) for i, k in enumerate(keys) for r in expected[k]
    ]


@given(st.permutations(range(5)), st.integers(0, 5))
def test_taking_rows_keeps_everything_that_belongs_to_them(order, count):
    corpus, rows = small(), np.array(order[:count], dtype=np.int64)
    taken = corpus.take(rows)
    assert taken.texts == tuple(TEXTS[i] for i in rows)
    assert taken.origin.tolist() == rows.tolist()
    for name in ("users", "split", "labels"):
        assert getattr(taken, name).tolist() == getattr(corpus, name)[rows].tolist()
    assert np.all(np.diff(taken.entities.row) >= 0)
    mentions = {
        (rows[taken.entities.row[i]], taken.surface(i), int(taken.entities.entity[i]))
        for i in range(len(taken.entities))
    }
    assert mentions == {
        (corpus.entities.row[i], corpus.surface(i), int(corpus.entities.entity[i]))
        for i in range(len(corpus.entities))
        if corpus.entities.row[i] in rows
    }


def test_the_fingerprint_sees_every_column():
    corpus = small()
    assert corpus.fingerprint == small().fingerprint
    changed = [
        replace(corpus, texts=("Ann met Bub", *TEXTS[1:])),
        replace(corpus, texts=("Ann met", "Bob" + TEXTS[1], *TEXTS[2:]), entities=Spans.none()),
        replace(corpus, entities=Spans.none()),
        corpus.with_split(corpus.users == 0, "held_out"),
        replace(corpus, groups={"user": np.array([1, 1, 0, -1, 2])}),
        replace(corpus, groups={**corpus.groups, "document": np.zeros(5, dtype=int)}),
        replace(corpus, labels=np.zeros(5, dtype=int)),
        replace(corpus, label_names=("x", "z")),
        replace(corpus, entity_types=("PER", "ORG")),
        replace(corpus, attributes={"age": np.zeros(5, dtype=int)}),
        replace(corpus, attribute_names={"age": ("old", "young")}),
        replace(corpus, targets=("t",) * 5),
        replace(corpus, vectors=np.zeros((5, 2))),
        corpus.take(np.array([1, 0, 2, 3, 4])),
    ]
    assert len({corpus.fingerprint, *(other.fingerprint for other in changed)}) == 15


def test_targets_are_not_mistaken_for_texts():
    base = {"groups": {"user": np.zeros(1, dtype=int)}, "split": np.zeros(1, dtype=int)}
    translated = Corpus(texts=("a",), targets=("b",), **base)
    twice = {name: np.zeros(2, dtype=int) for name in ("user",)}
    two = Corpus(texts=("a", "b"), groups=twice, split=np.zeros(2, dtype=int))
    assert translated.fingerprint != two.fingerprint


def test_concatenation_joins_rows_and_finds_the_same_entities_again():
    corpus = small()
    both = concatenate(corpus.take(np.array([0, 3])), corpus.take(np.array([1, 2, 4])))
    assert both.texts == (TEXTS[0], TEXTS[3], TEXTS[1], TEXTS[2], TEXTS[4])
    assert both.users.tolist() == [0, -1, 1, 0, 2]
    assert both.entity_count == corpus.entity_count
    assert sorted(both.spread.tolist()) == sorted(corpus.spread.tolist())
    with pytest.raises(InputError, match=r"groups.*classes"):
        concatenate(corpus, replace(corpus, entity_types=("A", "B")))


def test_other_texts_for_the_same_rows():
    corpus = small()
    texts = ["X met Y", *TEXTS[1:]]
    changed = corpus.with_texts(texts, [(0, 0, 1, 1)])
    assert changed.surface(0) == "X"
    assert changed.entity_count == 1
    assert changed.users.tolist() == corpus.users.tolist()


def full(**changes) -> Corpus:
    """A corpus with something in every column."""
    fields = {
        "targets": tuple(f"target {row}" for row in range(5)),
        "layers": {
            "gold": Layer.build(TEXTS, MENTIONS[:3], ("PER",)),
            "pos": Layer.build(TEXTS, [(2, 0, 5, 0)], ("NNP",), np.arange(5) == 2),
        },
        "vectors": np.arange(10.0).reshape(5, 2),
        "records": ({"name": ("Ann",)}, {"name": ("Bob",), "age": ("7",)}, {"name": ("Cy",)}),
    }
    return small(**{**fields, **changes})


def row_of(corpus: Corpus, row: int) -> list[object]:
    """All that a corpus says of one row, by surfaces and names in place of places."""
    layers = {**corpus.layers, "": Layer(corpus.entities, corpus.entity_types, corpus.split >= 0)}
    marked = [
        (name, layer.types[kind], corpus.texts[at][start:end])
        for name, layer in sorted(layers.items())
        for at, start, end, kind in layer.spans.mentions()
        if at == row
    ]
    user = int(corpus.users[row])
    facts = corpus.records[user] if corpus.records and 0 <= user < len(corpus.records) else {}
    complete = [bool(layers[name].rows[row]) for name in sorted(layers)]
    assert corpus.targets is not None
    assert corpus.labels is not None
    assert corpus.vectors is not None
    return [corpus.texts[row], corpus.targets[row], user, int(corpus.split[row]), marked, complete,
            int(corpus.labels[row]), int(corpus.attributes["age"][row]), dict(facts),
            corpus.vectors[row].tolist(), int(corpus.origin[row])]  # fmt: skip


@given(st.lists(st.integers(0, 4), max_size=7), st.integers(0, 7))
def test_rows_keep_all_columns_wherever_they_go(order, cut):
    """Taken in any order, some of them twice, and put together again."""
    corpus, rows = full(), np.array(order, dtype=np.int64)
    taken = corpus.take(rows)
    for at, row in enumerate(order):
        assert row_of(taken, at) == row_of(corpus, row)
    both = concatenate(
        taken.take(np.arange(len(rows))[:cut]), taken.take(np.arange(len(rows))[cut:])
    )
    assert [row_of(both, at) for at in range(len(both))] == [row_of(corpus, row) for row in order]
    assert both.fingerprint == taken.fingerprint


def test_who_has_no_row_left_has_no_facts():
    corpus = full()
    assert corpus.take(np.array([1, 3])).records == ({}, {"name": ("Bob",), "age": ("7",)}, {})
    assert corpus.only("test").records == ({}, {}, {})


def test_blank_rows_say_nothing_and_stay_where_they_are():
    corpus = full(vectors=None)
    gone = corpus.blank(np.array([True, False, False, False, True]))
    assert gone.texts == ("", *TEXTS[1:4], "")
    assert gone.targets == ("", "target 1", "target 2", "target 3", "")
    assert gone.entities.row.tolist() == [1, 1, 2]
    assert gone.layer("gold").spans.row.tolist() == [1]
    assert gone.layer("gold").rows.tolist() == [False, True, True, True, False]
    # User 0 wrote row 2 as well; user 2 wrote row 4 alone.
    assert gone.records == ({"name": ("Ann",)}, {"name": ("Bob",), "age": ("7",)}, {})
    assert gone.users.tolist() == corpus.users.tolist()
    assert gone.labels.tolist() == corpus.labels.tolist()


def test_every_column_of_the_table_is_declared():
    held = {
        "entity_types",
        "label_names",
        "attribute_names",
        "detector",
        "quotas",
    }  # what rows have in common
    assert {field.name for field in fields(Corpus)} - held == {column.name for column in COLUMNS}
    assert set(CONTENT) < {column.name for column in COLUMNS}


def test_new_columns_are_part_of_the_fingerprint():
    corpus = full()
    pos, gold = corpus.layers["pos"], corpus.layers["gold"]
    changed = [
        replace(corpus, layers={"gold": gold}),
        replace(corpus, layers={"gold": gold, "tags": pos}),
        replace(corpus, layers={"gold": gold, "pos": replace(pos, types=("NN",))}),
        replace(corpus, layers={"gold": gold, "pos": replace(pos, rows=~pos.rows)}),
        replace(corpus, layers={"gold": gold, "pos": replace(pos, spans=Spans.none())}),
        replace(corpus, records=None),
        replace(corpus, records=({"name": ("Ann", "Eve")}, *corpus.records[1:])),
        replace(corpus, records=({"born": ("Ann",)}, *corpus.records[1:])),
    ]
    assert len({corpus.fingerprint, *(other.fingerprint for other in changed)}) == 9
    swapped = replace(corpus, records=(corpus.records[0], {"age": ("7",), "name": ("Bob",)},
                                       corpus.records[2]))  # fmt: skip
    assert swapped.fingerprint == corpus.fingerprint  # of facts, the order says nothing


def test_rows_of_a_corpus_without_a_layer_are_not_annotated():
    first, second = full(), full(layers={}, origin=np.arange(5) + 5)
    layer = concatenate(first, second).layer("gold")
    assert layer.rows.tolist() == [True] * 5 + [False] * 5
    assert layer.spans.mentions() == first.layer("gold").spans.mentions()
    other = replace(first, layers={"gold": Layer.build(TEXTS, [], ("ORG",))})
    with pytest.raises(InputError, match=r"layers 'gold'.*types"):
        concatenate(first, other)
    with pytest.raises(InputError, match="user 0"):
        concatenate(first, replace(first, records=({"name": ("Eve",)}, {}, {})))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": {"x": Layer.build(TEXTS[:2], [], ())}}, "layer x .*2 .* 5 rows"),
        ({"layers": {"x": Layer.build(TEXTS, [(0, 0, 1, 1)], ("A",))}}, "layer x .*number 1"),
        ({"layers": {"x": Layer(Spans.none(), (), np.ones(5))}}, "layer x .*float64.*bool"),
        ({"records": ({"name": "Ann"},)}, "records of user 0: 'name'"),
        ({"targets": ("x",)}, "targets .*1 .* 5 rows"),
        ({"entities": Spans.build((*TEXTS, "x"), [(5, 0, 1, 0)])}, "entities .*row 5"),
    ],
)
def test_columns_that_do_not_fit_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        full(**change)


def test_a_layer_is_asked_for_by_its_name():
    assert full().layer("pos").types == ("NNP",)
    with pytest.raises(CapabilityError, match=r"layer 'golden'.*'gold'"):
        full().layer("golden")
    with pytest.raises(CapabilityError, match=r"layer 'x'.*none"):
        small().layer("x")


def test_other_texts_take_no_content_along():
    for out in (full().with_texts(["x"] * 5), full().with_vectors(np.ones((5, 1)))):
        assert (len(out.entities), out.layers, out.targets, out.records) == (0, {}, None, None)


def test_new_texts_may_come_with_new_targets() -> None:
    out = full().with_texts(["x"] * 5, targets=["a", "b", "c", "d", ""])
    assert out.targets == ("a", "b", "c", "d", "")
    assert out.fingerprint != full().with_texts(["x"] * 5, targets=["b"] * 5).fingerprint
    with pytest.raises(InputError, match="targets"):
        full().with_texts(["x"] * 5, targets=["a"])


def test_no_rows_at_all():
    empty = small().only("public")
    assert len(empty) == 0
    assert (empty.user_count, empty.entity_count, len(empty.rows_of_user)) == (0, 0, 0)
    assert empty.fingerprint != small().fingerprint


def test_ids_follow_first_appearance():
    assert dense_ids(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]
    assert SPLITS[:3] == ("train", "valid", "test")


@given(st.lists(st.integers(-1, 9)))
def test_different_ids_are_those_that_are_sorted_out(ids: list[int]) -> None:
    distinct_ids = distinct(np.array(ids, dtype=np.int64))
    assert distinct_ids.tolist() == sorted(set(ids))
    assert distinct_ids.dtype == np.int64
