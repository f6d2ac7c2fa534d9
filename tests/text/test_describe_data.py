from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from uedp_bench.corpus import Corpus, Layer, Spans
from uedp_bench.errors import InputError
from uedp_bench.text.describe_data import LayerDescription, describe, tables

ROW = st.tuples(
    st.integers(0, 5), st.sampled_from(["Ann", "Bob", "Rome"]), st.booleans(), st.integers(0, 2)
)


def corpus_of(rows: list[tuple[int, str, bool, int]]) -> Corpus:
    texts = [f"{name} and {name}" for _, name, _, _ in rows]
    spans = [
        (i, 0, len(name), int(name == "Rome")) for i, (_, name, on, _) in enumerate(rows) if on
    ]
    return Corpus(
        texts=tuple(texts),
        groups={"user": np.array([user for user, *_ in rows], dtype=np.int64)},
        split=np.array([split for *_, split in rows], dtype=np.int64),
        entities=Spans.build(texts, spans),
        entity_types=("PER", "LOC"),
    )


@given(st.lists(ROW, min_size=1, max_size=30))
def test_counts_agree_with_sets(rows: list[tuple[int, str, bool, int]]) -> None:
    splits = describe(corpus_of(rows), "made").splits
    assert sum(split.rows for split in splits.values()) == len(rows)
    for at, name in enumerate(("train", "valid", "test")):
        mine = [row for row in rows if row[3] == at]
        if not mine:
            assert name not in splits
            continue
        split = splits[name]
        assert split.users == len({user for user, *_ in mine})
        assert split.sensitive_rows["any"] == sum(on for _, _, on, _ in mine)
        assert split.sensitive_rows["LOC"] == sum(on and n == "Rome" for _, n, on, _ in mine)
        users = [
            len({u for u, n, on, _ in mine if on and n == entity})
            for entity in ("Ann", "Bob", "Rome")
        ]
        seen = [count for count in users if count]
        assert split.entities == len(seen)
        if not seen:
            assert split.reach is None
        else:
            assert split.reach is not None
            assert split.reach.widest == max(seen)
            assert split.reach.spread["100"] == max(seen) - 1
            assert split.reach.one_user == pytest.approx(seen.count(1) / len(seen))


def test_json_and_tables_hold_the_numbers() -> None:
    description = describe(
        corpus_of([(0, "Ann", True, 0), (1, "Ann", True, 0), (1, "Rome", False, 2)]), "made"
    )
    plain = json.loads(json.dumps(description.to_dict()))
    assert plain["splits"]["train"]["reach"]["widest"] == 2
    assert plain["entity_types"] == ["PER", "LOC"]
    console = Console(record=True, width=100, file=io.StringIO())
    for table in tables(description):
        console.print(table)
    shown = console.export_text()
    assert description.fingerprint in shown
    assert "made" in shown


def test_rows_without_users_have_no_distribution() -> None:
    corpus = Corpus(
        texts=("a",), groups={"user": np.array([-1])}, split=np.array([0]), entity_types=("PER",)
    )
    train = describe(corpus, "made").splits["train"]
    assert (train.users, train.rows_per_user, train.reach) == (0, {}, None)
    assert all(len(table.columns) for table in tables(describe(corpus, "made")))


def test_an_empty_corpus_is_refused() -> None:
    empty = np.empty(0, dtype=np.int64)
    with pytest.raises(InputError, match="empty"):
        describe(Corpus(texts=(), groups={"user": empty}, split=empty), "made")


def test_layers_targets_and_records_are_shown() -> None:
    corpus = corpus_of([(0, "Ann", True, 0), (1, "Ann", True, 0), (1, "Rome", False, 2)])
    gold = Layer.build(
        corpus.texts, [(0, 0, 3, 1), (2, 0, 4, 0)], ("LOC", "PER"), np.array([True, False, True])
    )
    corpus = replace(
        corpus,
        layers={"gold": gold},
        targets=("Anna", "", "Rom"),
        records=({"name": ("Ann",), "born": ("1961",)}, {"name": ("Bo",)}),
    )
    description = describe(corpus, "made")
    train, test = description.splits["train"], description.splits["test"]
    assert train.layers["gold"] == LayerDescription(1, 0.5, {"LOC": 0, "PER": 1})
    assert test.layers["gold"] == LayerDescription(1, 1.0, {"LOC": 1, "PER": 0})
    assert (train.targets, test.targets, train.records, test.records) == (1, 1, 2, 1)
    assert description.records == {"name": 2, "born": 1}
    plain = json.loads(json.dumps(description.to_dict()))
    assert plain["layers"] == {"gold": ["LOC", "PER"]}
    assert plain["splits"]["train"]["layers"]["gold"]["share"] == 0.5
    console = Console(record=True, width=100, file=io.StringIO())
    for table in tables(description):
        console.print(table)
    shown = console.export_text()
    for words in ("layer gold: spans by type", "their share", "50.0%", "rows with a target"):
        assert words in shown
    without = describe(replace(corpus, targets=None, records=None, layers={}), "made")
    assert without.splits["train"].targets is None
    assert without.splits["train"].records is None
