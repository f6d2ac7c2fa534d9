from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.errors import InputError
from uedp_bench.registry import sources
from uedp_bench.tasks.sources.reading.splits import SplitParams, cut_missing_splits

ROWS = [
    {"body": "Ann met Bo, in Rome", "who": "u1", "topic": "b", "age": "old", "part": "train",
     "spans": [{"start": 0, "end": 3, "type": "PER"}, {"start": 15, "end": 19, "type": "LOC"}]},
    {"body": 'a "quoted"\ttext', "who": "u2", "topic": "a", "age": None, "part": "dev",
     "spans": []},
    {"body": "NA", "who": "u1", "topic": None, "age": "old", "part": "test", "spans": None},
]  # fmt: skip
COLUMNS = {
    "text_column": "body",
    "user_column": "who",
    "label_column": "topic",
    "attribute_columns": ["age"],
    "entities_column": "spans",
    "split_column": "part",
}


def write(folder: Path, kind: str, rows: list[dict[str, object]]) -> Path:
    import pandas as pd

    file = folder / f"data.{kind}"
    frame = pd.DataFrame(rows)
    if kind == "parquet":
        frame.to_parquet(file)
    elif kind.startswith("jsonl"):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        file.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    else:
        if "spans" in frame:
            frame["spans"] = [json.dumps(spans) for spans in frame["spans"]]
        frame.to_csv(file, index=False, sep="\t" if kind == "tsv" else ",")
    return file


def load(file: Path, **params: object):
    return sources.create("text", {"path": file, **params}).load()


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "jsonl.gz", "parquet"])
def test_every_format_gives_the_same_corpus(tmp_path: Path, kind: str) -> None:
    corpus = load(write(tmp_path, kind, ROWS), **COLUMNS)
    assert corpus.texts == ("Ann met Bo, in Rome", 'a "quoted"\ttext', "NA")
    assert corpus.users.tolist() == [0, 1, 0]
    assert [corpus.where(s).tolist().index(True) for s in ("train", "valid", "test")] == [0, 1, 2]
    assert corpus.label_names == ("a", "b")
    assert corpus.labels is not None
    assert corpus.labels.tolist() == [1, 0, -1]
    assert corpus.attributes["age"].tolist() == [0, -1, 0]
    assert corpus.attribute_names == {"age": ("old",)}
    assert corpus.entity_types == ("LOC", "PER")
    assert [corpus.surface(i) for i in range(2)] == ["Ann", "Rome"]


def test_without_a_user_column_every_row_is_a_user(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"text": f"row {i}"} for i in range(20)]
    corpus = load(write(tmp_path, "jsonl", rows), valid=0.2, test=0.3)
    assert corpus.users.tolist() == list(range(20))
    assert [corpus.where(s).sum() for s in ("train", "valid", "test")] == [10, 4, 6]


def test_declared_labels_keep_their_order_and_are_enforced(tmp_path: Path) -> None:
    file = write(tmp_path, "jsonl", ROWS)
    corpus = load(file, **COLUMNS, label_names=["b", "a", "c"])
    assert corpus.label_names == ("b", "a", "c")
    assert corpus.labels is not None
    assert corpus.labels.tolist() == [0, 1, -1]
    with pytest.raises(InputError, match="row 1: 'b' is not a declared class"):
        load(file, **COLUMNS, label_names=["a", "c"])


@given(
    users=st.lists(st.integers(0, 12), min_size=8, max_size=60),
    valid=st.floats(0, 0.4),
    test=st.floats(0, 0.4),
    seed=st.integers(0, 5),
)
def test_whole_users_are_cut_off(users: list[int], valid: float, test: float, seed: int) -> None:
    ids = np.array(users, dtype=np.int64)
    params = SplitParams(valid=valid, test=test, seed=seed)
    total = len(set(users))
    counts = [max(1, round(share * total)) if share > 0 else 0 for share in (valid, test)]
    before = np.zeros(len(ids), dtype=np.int64)
    if sum(counts) >= total:
        with pytest.raises(InputError, match="too few"):
            cut_missing_splits(ids, before, params, "text")
        return
    split = cut_missing_splits(ids, before, params, "text")
    assert [len(np.unique(ids[split == at])) for at in (1, 2)] == counts
    assert all(len(np.unique(split[ids == user])) == 1 for user in set(users))
    assert np.array_equal(split, cut_missing_splits(ids, before, params, "text"))


def test_rows_are_cut_where_the_users_are_the_classes() -> None:
    users = np.repeat(np.arange(50), 20)
    split = np.where(np.arange(len(users)) % 5 == 0, 2, 0)  # train and test are given
    out = cut_missing_splits(users, split, SplitParams(), "text", users)
    assert np.array_equal(out == 2, split == 2)
    assert len(np.unique(users[out == 0])) == 50
    assert (out == 1).sum() == pytest.approx(0.1 * (split == 0).sum(), rel=0.2)
    assert len(np.unique(users[out == 1])) > 40
    few = cut_missing_splits(np.arange(9), np.zeros(9, dtype=np.int64), SplitParams(), "text")
    assert (few == 0).sum() == 7
    with pytest.raises(InputError, match="9 rows of 9 users by class are too few to cut off valid"):
        cut_missing_splits(
            np.arange(9), np.zeros(9, dtype=np.int64), SplitParams(), "text", np.arange(9)
        )


@given(
    users=st.lists(st.integers(0, 12), min_size=8, max_size=60),
    classes=st.lists(st.integers(-1, 4), min_size=60, max_size=60),
    seed=st.integers(0, 5),
)
def test_no_class_loses_all_of_its_training_rows(
    users: list[int], classes: list[int], seed: int
) -> None:
    ids, labels = np.array(users), np.array(classes[: len(users)])
    params = SplitParams(valid=0.2, test=0.2, seed=seed)
    try:
        split = cut_missing_splits(ids, np.zeros(len(ids), dtype=np.int64), params, "text", labels)
    except InputError:
        return
    assert set(labels[labels >= 0]) == set(labels[(labels >= 0) & (split == 0)])
    assert {1, 2} <= set(split.tolist())


def test_classes_with_users_to_spare_change_nothing() -> None:
    users = np.repeat(np.arange(40), 3)
    split = np.zeros(len(users), dtype=np.int64)
    without = cut_missing_splits(users, split, SplitParams(), "text")
    assert np.array_equal(
        cut_missing_splits(users, split, SplitParams(), "text", users % 2), without
    )


def test_authors_as_labels_all_train(tmp_path: Path) -> None:
    file = tmp_path / "authors.csv"
    rows = [f"{'test' if i % 4 == 0 else 'train'},author{i % 50},text {i}" for i in range(50 * 24)]
    file.write_text("\n".join(["split,author,text", *rows]))
    corpus = sources.create(
        "text",
        {"path": file, "user_column": "author", "label_column": "author", "split_column": "split"},
    ).load()
    assert corpus.labels is not None
    assert len(np.unique(corpus.labels[corpus.where("train")])) == 50
    assert len(np.unique(corpus.labels[corpus.where("valid")])) > 25


def test_splits_that_exist_are_left_alone() -> None:
    users, split = np.arange(20), np.repeat([0, 2], 10)
    out = cut_missing_splits(users, split, SplitParams(), "text")
    assert np.array_equal(out == 2, split == 2)
    assert (out == 1).sum() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text_column": "bodi"}, "no column 'bodi' for the text; did you mean 'body'"),
        ({"user_column": "zzz"}, "no column 'zzz' for the user; columns: body, who"),
        ({"attribute_columns": ["agge"]}, "did you mean 'age'"),
        ({"text_column": "age"}, "'age' has 1 null or blank value, the first in row 2 of 3"),
        ({"user_column": "topic"}, "'topic' has 1 null or blank value, the first in row 3 of 3"),
        ({"split_column": "who"}, "'u1' is not a split; known: train"),
        ({"entities_column": "who"}, "column .who.: .u1. is not a list of {start, end, type}"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_bad_columns_are_refused(
    tmp_path: Path, kind: str, change: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, kind, ROWS), **{**COLUMNS, **change})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "text,who\na,b,c\n", "line 2: 3 fields, and 2 in line 1"),
        ("a.csv", "text,text\na,b\n", "names a column twice"),
        ("a.csv", 'text\n"open\n', "line 2"),
        ("a.csv", "text,who\n", "empty"),
        ("a.csv", "", "no column 'text'"),
        ("a.jsonl", '{"text": "a"}\n{oops\n', "line 2"),
        ("a.jsonl", "[1]\n", "line 1 is not an object"),
        ("a.parquet", "nonsense", "is not a parquet file"),
        ("a.docx", "x", r"must end in \.csv"),
        ("a.jsonl", '{"text": "ab", "e": [{"start": 1, "end": 3, "type": "X"}]}\n', "not inside"),
        ("a.jsonl", '{"text": "ab", "e": [{"start": 0.5, "end": 1, "type": "X"}]}\n', "whole"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    params = {"entities_column": "e"} if '"e"' in text else {}
    with pytest.raises(InputError, match=message):
        load(tmp_path / name, valid=0, test=0, **params)


@pytest.mark.parametrize("name", ["none.csv", "none.parquet", "none.jsonl.gz"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"text\.path: no such file: .*{name}"):
        load(tmp_path / name)


def test_nulls_are_counted(tmp_path: Path) -> None:
    texts = ["a", None, "b", " ", None]
    rows: list[dict[str, object]] = [{"text": text} for text in texts]
    with pytest.raises(InputError, match="3 null or blank values, the first in row 2 of 5"):
        load(write(tmp_path, "parquet", rows))


def test_entities_are_detected_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    rows: list[dict[str, object]] = [{"text": "mail ann@example.com now"}, {"text": "nothing"}]
    corpus = load(write(tmp_path, "jsonl", rows), detector="presidio", valid=0, test=0)
    assert [corpus.surface(i) for i in range(len(corpus.entities))] == ["ann@example.com"]
    assert "EMAIL_ADDRESS" in corpus.entity_types


def test_public_files_follow(tmp_path: Path) -> None:
    (tmp_path / "public.txt").write_text("one line\nanother\n")
    corpus = load(write(tmp_path, "csv", ROWS), **COLUMNS, public=[tmp_path / "public.txt"])
    assert corpus.only("public").texts == ("one line", "another")


def test_rows_keep_the_ids_of_their_column(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"text": "first", "n": 7}, {"text": "second", "n": 9}]
    file = write(tmp_path, "jsonl", rows)
    assert load(file, id_column="n", valid=0, test=0).ids == ("7", "9")
    assert load(file, valid=0, test=0).ids is None
    twice = write(tmp_path, "csv", [rows[0], rows[0]])
    with pytest.raises(InputError, match="line 3, column 'n': the id '7' is that of row 1 too"):
        load(twice, id_column="n")
    planted = write(tmp_path, "csv", [{"text": "first", "n": "planted-0"}])
    with pytest.raises(InputError, match="'planted-0' is a planted row's"):
        load(planted, id_column="n")


# ------------------------------------------------------------------------ files of anybody


def test_other_delimiters_and_encodings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mail.csv"
    file.write_bytes("Von;Text\nAnn;»Schöne Grüße« – €5\nBo;ja, gern\n".encode("cp1252"))
    corpus = load(file, text_column="Text", user_column="Von", encoding="cp1252", delimiter=";",
                  valid=0, test=0)  # fmt: skip
    assert corpus.texts == ("»Schöne Grüße« – €5", "ja, gern")
    with pytest.raises(InputError, match=r"mail\.csv is not UTF-8 text"):
        load(file, text_column="Text", delimiter=";")
    with pytest.raises(InputError, match="encoding is 'cp125': Python has no text encoding"):
        load(file, encoding="cp125")
    file.write_bytes("Von;Text\nAnn;eins\nBo;zwei\n".encode("utf-16"))
    assert load(file, text_column="Text", encoding="utf-16", delimiter=";", valid=0, test=0)
    file.write_text("no mark")
    with pytest.raises(InputError, match="is not utf-16 text"):
        load(file, encoding="utf-16")


def test_fields_within_objects_are_columns(tmp_path: Path) -> None:
    rows = [{"from": {"id": i, "nick": "a"}, "message": {"body": f"text {i}"}} for i in range(3)]
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = tmp_path / "chat.json"
    whole.write_text(json.dumps(rows))
    named = {"text_column": "message.body", "user_column": "from.id", "valid": 0, "test": 0}
    assert load(file, **named).texts == ("text 0", "text 1", "text 2")
    assert load(whole, **named).fingerprint == load(file, **named).fingerprint
    with pytest.raises(InputError, match=r"no column 'message\.bdy'.*did you mean 'message\.body'"):
        load(file, **named | {"text_column": "message.bdy"})
    whole.write_text('{"a": 1}')
    with pytest.raises(InputError, match="is not a list"):
        load(whole, **named)
    whole.write_text("[1]")
    with pytest.raises(InputError, match="entry 1 of the list is not an object"):
        load(whole, **named)


def test_a_format_may_be_named(tmp_path: Path) -> None:
    file = tmp_path / "gold.txt"
    file.write_text("Ann B-PER\ncame O\n\nBo B-PER\n")
    assert load(file, valid=0, test=0).texts == ("Ann B-PER", "came O", "Bo B-PER")
    tagged = load(file, file_format="conll", entities_column="gold", valid=0, test=0)
    assert (tagged.texts, tagged.entity_types) == (("Ann came", "Bo"), ("PER",))


def test_an_unknown_format_is_answered_with_all_that_are_known(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("text\nhello\n")
    known = "'csv', 'tsv', 'jsonl', 'json', 'parquet', 'lines' or 'conll'"
    with pytest.raises(InputError, match=f"text.file_format is 'xml': Input should be {known}$"):
        load(file, file_format="xml")


def test_blank_rows_are_left_out_where_asked(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    rows = [{"text": "one", "who": "a"}, {"text": " ", "who": "a"}, {"text": "three", "who": None},
            {"text": "nu\0ll", "who": "b"}, {"text": "five", "who": "b"}]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = {"user_column": "who", "valid": 0, "test": 0}
    corpus = load(file, skip_blank=True, **named)
    assert (corpus.texts, corpus.users.tolist()) == (("one", "five"), [0, 1])
    with pytest.raises(InputError, match="null"):
        load(file, **named)
    file.write_text('{"text": ""}\n')
    with pytest.raises(InputError, match="every row is blank"):
        load(file, skip_blank=True, valid=0, test=0)
