from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus, owner_numbers
from uedp_bench.errors import InputError
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
    assert sum(corpus.where(s).sum() for s in ("train", "valid", "test")) == 20


def test_declared_labels_keep_their_order_and_are_enforced(tmp_path: Path) -> None:
    file = write(tmp_path, "jsonl", ROWS)
    corpus = load(file, **COLUMNS, label_names=["b", "a", "c"])
    assert corpus.label_names == ("b", "a", "c")
    assert corpus.labels is not None
    assert corpus.labels.tolist() == [0, 1, -1]
    with pytest.raises(InputError, match=r"row 1.*'b'"):
        load(file, **COLUMNS, label_names=["a", "c"])


def corpus_of(users: list[int], labels: list[int] | None = None) -> Corpus:
    return Corpus(
        tuple(f"row {row}" for row in range(len(users))),
        {"user": np.array(users, dtype=np.int64)},
        np.zeros(len(users), dtype=np.int64),
        labels=None if labels is None else np.array(labels, dtype=np.int64),
        label_names=() if labels is None else tuple(f"class {n}" for n in range(max(labels) + 1)),
    )


@given(
    users=st.lists(st.integers(0, 12), min_size=8, max_size=60),
    valid=st.floats(0, 0.4),
    test=st.floats(0, 0.4),
    seed=st.integers(0, 5),
)
def test_whole_users_are_cut_off(users: list[int], valid: float, test: float, seed: int) -> None:
    params = SplitParams(valid=valid, test=test, seed=seed)
    corpus = corpus_of(users)
    wanted = [0, *(at for at, share in ((1, valid), (2, test)) if share > 0)]
    try:
        cut = cut_missing_splits(corpus, params, "text")
    except InputError as error:
        assert "too few" in str(error)
        return
    assert set(cut.split.tolist()) == set(wanted)
    assert all(len(np.unique(cut.split[cut.users == user])) == 1 for user in set(users))
    assert np.array_equal(cut.split, cut_missing_splits(corpus, params, "text").split)
    if not cut.quotas:  # then everybody's place is its own: who leaves moves nobody
        left = np.flatnonzero(cut.users != users[0])
        try:
            fewer = cut_missing_splits(corpus.take(left), params, "text")
        except InputError:
            return
        assert fewer.quotas or np.array_equal(fewer.split, cut.split[left])


def test_shares_are_binomial_and_nested() -> None:
    corpus = corpus_of([*range(4000)])
    small, large = (
        cut_missing_splits(corpus, SplitParams(valid=v, test=0), "text").where("valid")
        for v in (0.1, 0.3)
    )
    assert (small.mean(), large.mean()) == pytest.approx((0.1, 0.3), abs=0.03)
    assert not (small & ~large).any()


def test_rows_are_cut_where_the_users_are_the_classes() -> None:
    users = np.repeat(np.arange(50), 20).tolist()
    corpus = corpus_of(users, users)
    with pytest.raises(InputError, match=r"text\.cut_by=row") as refused:
        cut_missing_splits(corpus, SplitParams(), "text")
    assert refused.value.mends == ("source.cut_by=row",)
    cut = cut_missing_splits(corpus, SplitParams(cut_by="row"), "text")
    assert len(np.unique(cut.users[cut.where("train")])) == 50
    assert cut.where("valid").mean() == pytest.approx(0.1, abs=0.05)


def test_few_users_fill_a_split_and_guarantees_assume_it() -> None:
    cut = cut_missing_splits(corpus_of([0, 1, 2]), SplitParams(valid=0, test=0.01), "text")
    assert cut.where("test").sum() == 1
    assert "'test'" in cut.quotas[0]
    # The only user of a split, who came there by its share, keeps another from being moved.
    many = corpus_of(range(60))
    shares = np.sort(owner_numbers(many, 0, "source", "splits"))[:2]
    for least, quotas in ((shares.mean(), 1), (np.nextafter(shares[1], 1), 0)):
        cut = cut_missing_splits(many, SplitParams(valid=0, test=least), "text")
        assert (cut.where("test").sum(), len(cut.quotas)) == (2 - quotas, quotas)
    with pytest.raises(InputError, match=r"1 training users.*test=0\.01"):
        cut_missing_splits(corpus_of([0, 0]), SplitParams(valid=0, test=0.01), "text")


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
    before = corpus_of([*range(200)]).with_split(np.arange(200) < 100, "test")
    cut = cut_missing_splits(before, SplitParams(), "text")
    assert np.array_equal(cut.where("test"), before.where("test"))
    assert cut.where("valid").sum() == pytest.approx(10, abs=9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text_column": "bodi"}, "column 'bodi'.*'body'"),
        ({"user_column": "zzz"}, "column 'zzz'"),
        ({"attribute_columns": ["agge"]}, "agge.*'age'"),
        ({"text_column": "age"}, "'age'.*null.*row 2"),
        ({"user_column": "topic"}, "'topic'.*null.*row 3"),
        ({"split_column": "who"}, "column 'who': 'u1'.*train"),
        ({"entities_column": "who"}, r"line \d, column .who.: .u1."),
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
        ("a.csv", "text,who\na,b,c\n", "line 2: 3 fields.*line 1"),
        ("a.csv", "text,text\na,b\n", r"a\.csv.*twice.*'text'"),
        ("a.csv", 'text\n"open\n', "line 2"),
        ("a.csv", "text,who\n", "empty"),
        ("a.csv", "", "column 'text'"),
        ("a.jsonl", '{"text": "a"}\n{oops\n', "line 2"),
        ("a.jsonl", "[1]\n", "line 1.*object"),
        ("a.parquet", "nonsense", r"a\.parquet"),
        ("a.docx", "x", r"a\.docx.*text\.file_format"),
        ("a.jsonl", '{"text": "ab", "e": [{"start": 1, "end": 3, "type": "X"}]}\n', r"\(1, 3\)"),
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
    with pytest.raises(InputError, match=rf"text\.path: .*{name}$"):
        load(tmp_path / name)


def test_nulls_are_counted(tmp_path: Path) -> None:
    texts = ["a", None, "b", " ", None]
    rows: list[dict[str, object]] = [{"text": text} for text in texts]
    with pytest.raises(InputError, match=r"'text'.*3 null.*row 2"):
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
    with pytest.raises(InputError, match=r"line 3.*column 'n'.*'7'"):
        load(twice, id_column="n")
    planted = write(tmp_path, "csv", [{"text": "first", "n": "planted-0"}])
    with pytest.raises(InputError, match="'planted-0'"):
        load(planted, id_column="n")


# ------------------------------------------------------------------------ files of anybody


def test_other_delimiters_and_encodings_are_read(tmp_path: Path) -> None:
    file = tmp_path / "mail.csv"
    file.write_bytes("Von;Text\nAnn;»Schöne Grüße« – €5\nBo;ja, gern\n".encode("cp1252"))
    corpus = load(file, text_column="Text", user_column="Von", encoding="cp1252", delimiter=";",
                  valid=0, test=0)  # fmt: skip
    assert corpus.texts == ("»Schöne Grüße« – €5", "ja, gern")
    with pytest.raises(InputError, match=r"mail\.csv.*UTF-8"):
        load(file, text_column="Text", delimiter=";")
    with pytest.raises(InputError, match=r"text\.encoding.*'cp125'"):
        load(file, encoding="cp125")
    file.write_bytes("Von;Text\nAnn;eins\nBo;zwei\n".encode("utf-16"))
    assert load(file, text_column="Text", encoding="utf-16", delimiter=";", valid=0, test=0)
    file.write_text("no mark")
    with pytest.raises(InputError, match="utf-16"):
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
    with pytest.raises(InputError, match=r"column 'message\.bdy'.*'message\.body'"):
        load(file, **named | {"text_column": "message.bdy"})
    whole.write_text('{"a": 1}')
    with pytest.raises(InputError, match=r"chat\.json.*list"):
        load(whole, **named)
    whole.write_text("[1]")
    with pytest.raises(InputError, match=r"entry 1.*object"):
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
    formats = "'csv', 'tsv', 'jsonl', 'json', 'parquet', 'lines', 'pubtator', 'brat' or 'conll'"
    with pytest.raises(InputError, match=rf"text\.file_format is 'xml'.*{formats}$"):
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
    with pytest.raises(InputError, match=r"corpus.*blank"):
        load(file, skip_blank=True, valid=0, test=0)


@pytest.mark.parametrize(
    ("files", "path", "named", "message"),
    [
        ({}, "gone", {}, "no such file: .*gone"),
        ({"a.csv": "text\ncaf\xe9\n"}, "a.csv", {}, "not UTF-8.*name its encoding"),
        ({"a.csv": "text\none\n\"\"\n"}, "a.csv", {}, "skip_blank=true"),
        ({"a.txt": "Ann", "a.ann": ""}, ".", {}, "text.file_format=brat"),
        ({"a.txt": "Ann", "a.ann": "", "b.txt": "Bo"}, ".", {"file_format": "brat"}, r"b\.ann"),
        ({"a.csv": "who,text\n" + "me,a text\n" * 9}, "a.csv", {"user_column": "who"},
         "cut_by=row"),
    ],
)  # fmt: skip
def test_a_refused_path_hears_what_to_do(
    tmp_path: Path, files: dict[str, str], path: str, named: dict[str, str], message: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=message):
        load(tmp_path / path, **named)
