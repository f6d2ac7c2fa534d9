"""A parquet file gives one corpus, held in memory or asked for its columns."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus, StoredTexts
from uedp_bench.data import table_columns
from uedp_bench.errors import InputError

ROWS = 400


@pytest.fixture(autouse=True)
def few_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_columns, "ROWS_AT_ONCE", 37)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    who = [f"u{i}" for i in rng.integers(40, size=ROWS).tolist()]
    return {
        "text": [f"row {i} of {name} is här" for i, name in enumerate(who)],
        "who": pa.array(who).dictionary_encode(),
        "number": rng.integers(30, size=ROWS),
        "topic": [None if i % 9 == 0 else ("b", "a")[i % 2] for i in range(ROWS)],
        "part": ["train" if i % 5 else "test" for i in range(ROWS)],
        "names": [[{"start": 0, "end": 3, "type": "X"}] if i % 4 == 0 else [] for i in range(ROWS)],
        "to": [f"nach {i}" for i in range(ROWS)],
        "key": [f"k{i}" for i in range(ROWS)],
        "share": rng.random(ROWS),
    }


PARAMS = {
    "user_column": "who",
    "label_column": "topic",
    "attribute_columns": ["number", "share"],
    "split_column": "part",
    "entities_column": "names",
    "target_column": "to",
    "id_column": "key",
}


def write(path: Path, **changed: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({**columns(), **changed}), path)
    return path


def load(path: Path, **params: Any) -> Corpus:
    corpus: Corpus = sources.create("text", {"path": path, **params}).load()
    return corpus


def same(one: Corpus, other: Corpus) -> bool:
    return (
        one.fingerprint == other.fingerprint
        and one.texts == other.texts
        and one.ids == other.ids
        and np.array_equal(one.users, other.users)
    )


@pytest.mark.parametrize("params", [PARAMS, {}, {"user_column": "number", "valid": 0.2}])
def test_the_corpus_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: dict[str, Any]
) -> None:
    (tmp_path / "public.txt").write_text("the sky is blue\nso is the sea\n")
    settings = {**params, "public": [tmp_path / "public.txt"], "public_rows": 1}
    file = write(tmp_path / "data.parquet")
    held = load(file, **settings)
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)
    arrow_corpus = load(file, **settings)
    assert not held.stored
    assert arrow_corpus.stored
    assert same(arrow_corpus, held)
    rows = np.flatnonzero(held.where("train"))[::-3]
    assert same(arrow_corpus.take(rows), held.take(rows))
    silent = np.arange(len(held)) % 3 == 0
    assert same(arrow_corpus.blank(silent), held.blank(silent))


def test_blank_rows_are_left_out_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str | None] = list(columns()["text"])
    texts[3], texts[50], texts[99], texts[120] = None, " \u3000\n", "a\0b", "日本"
    who = [None if i == 7 else f"u{i % 30}" for i in range(ROWS)]
    file = write(tmp_path / "data.parquet", text=texts, who=who)
    held = load(file, user_column="who", skip_blank=True)
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)
    arrow_corpus = load(file, user_column="who", skip_blank=True)
    assert len(arrow_corpus) == ROWS - 4
    assert same(arrow_corpus, held)


@pytest.mark.parametrize(
    ("column", "row", "value", "params"),
    [
        ("text", 55, None, {}),
        ("text", 55, "\u3000", {}),
        ("text", 55, "a\0b", {}),
        ("who", 55, " ", {"user_column": "who"}),
        ("who", 55, "a\0b", {"user_column": "who"}),
        ("part", 55, "trainee", {"split_column": "part"}),
        ("topic", 55, "c", {"label_column": "topic", "label_names": ["a", "b"]}),
        ("to", 55, None, {"target_column": "to"}),
        ("key", 55, "k3", {"id_column": "key"}),
        ("share", 55, float("nan"), {"user_column": "share"}),
    ],
)
def test_what_is_wrong_is_said_alike(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    column: str,
    row: int,
    value: Any,
    params: dict[str, Any],
) -> None:
    values = list(columns()[column])
    if column == "who":
        values = [one.as_py() for one in values]
    values[row] = value
    file = write(tmp_path / "data.parquet", **{column: values})
    with pytest.raises(InputError) as held:
        load(file, **params)
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)
    with pytest.raises(InputError) as arrow_error:
        load(file, **params)
    assert str(arrow_error.value) == str(held.value)


SPANS = [{"start": 0, "end": 3, "type": "X"}, {"start": 4, "end": 5, "type": "A"}]
TAGS = ["B-X", "I-X", "O", "O", "B-A", "O"]  # of the six words of a row


def annotations(kind: str) -> list[Any]:
    """Values of a column: some rows nobody annotated, and some have no entity."""
    value = {"spans": SPANS, "tags": TAGS}.get(kind, SPANS)
    rows = [(value, None, [])[row % 3] for row in range(ROWS)]
    if kind == "json":
        return [None if row is None else json.dumps(row) for row in rows]
    return rows


@pytest.mark.parametrize("kind", ["spans", "tags", "json", "small", "more"])
@pytest.mark.parametrize("blank", [(), (0, 37, 38, 399)])
def test_annotations_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, blank: tuple[int, ...]
) -> None:
    names: Any = annotations(kind)
    if kind in ("small", "more"):  # fields of other types, and in another order
        fields = [("type", pa.large_string()), ("end", pa.int16()), ("start", pa.int32())]
        fields += [("score", pa.float64())] if kind == "more" else []
        names = pa.array(names, pa.large_list(pa.struct(fields)))
    texts = ["" if i in blank else f"row {i:04d} of us is här" for i in range(ROWS)]
    params = {"entities_column": "names", "layer_columns": ["names"], "skip_blank": bool(blank)}
    file = write(tmp_path / "data.parquet", text=texts, names=names)
    held = load(file, **params)
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)
    arrow_corpus = load(file, **params)
    assert len(held.entities) == 2 * sum(row % 3 == 0 for row in range(ROWS) if row not in blank)
    assert same(arrow_corpus, held)
    assert arrow_corpus.entity_types == held.entity_types == ("A", "X")
    assert np.array_equal(arrow_corpus.entities.entity, held.entities.entity)
    assert np.array_equal(arrow_corpus.layer("names").rows, held.layer("names").rows)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("kind", ["spans", "tags"])
def test_annotations_take_few_bytes_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Fourteen words a row: a place of each, as an object, takes more than a kilobyte."""
    monkeypatch.setattr(table_columns, "ROWS_AT_ONCE", 500)
    rows = 10_000
    texts = [f"row {row} " + "of many words " * 4 for row in range(rows)]
    names = [TAGS + ["O"] * 8 if kind == "tags" else SPANS] * rows
    table, file = pa.table({"text": texts, "names": names}), tmp_path / "data.parquet"
    pq.write_table(table[:10], file)
    load(file, layer_columns=["names"])  # what it imports is not counted
    pq.write_table(table, file)
    del texts, names, table
    tracemalloc.start()
    try:
        corpus = load(file, layer_columns=["names"])
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(corpus.layer("names").spans) == 2 * rows
    assert held < 150 * rows
    assert most < 700 * rows


@pytest.mark.parametrize(
    "value",
    [
        [{"start": 0, "end": 99, "type": "X"}],
        [{"start": -1, "end": 2, "type": "X"}],
        [{"start": 2, "end": 2, "type": "X"}],
        [{"start": 0, "end": 2, "type": ""}],
        [{"start": 0, "end": 2, "type": "a\0b"}],
        [{"start": 0, "end": None, "type": "X"}],
        [{"start": 0, "end": 2, "type": None}],
        [None],
        ["O"],
        ["I-X", "Q-X", "O", "O", "O", "O"],
    ],
)
def test_what_is_wrong_with_an_annotation_is_said_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: list[Any]
) -> None:
    rows = annotations("tags" if isinstance(value[0], str) else "spans")
    rows[90] = value
    file = write(tmp_path / "data.parquet", names=rows)
    with pytest.raises(InputError, match="row 91") as held:
        load(file, entities_column="names")
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)
    with pytest.raises(InputError) as arrow_error:
        load(file, entities_column="names")
    assert str(arrow_error.value) == str(held.value)


@pytest.mark.usefixtures("large")
def test_texts_are_written_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    corpus = load(write(tmp_path / "data.parquet"))
    assert isinstance(corpus.texts, StoredTexts)
    assert corpus.texts == tuple(columns()["text"])
    assert [path.name for path in tmp_path.iterdir()] == ["data.parquet"]


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("column", ["text", "who"])
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, column: str) -> None:
    bad = pa.array([b"\xff\xfe"] * ROWS).view(pa.string())
    file = write(tmp_path / "data.parquet", **{column: bad})
    with pytest.raises(InputError, match=r"data\.parquet"):
        load(file, user_column="who")


def test_splits_in_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "splits"
    write(folder / "train.parquet")
    small = {name: values[:40] for name, values in columns().items()}
    pq.write_table(pa.table(small), folder / "test.parquet")
    held = load(folder, user_column="who", label_column="topic", attribute_columns=["number"])
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 100)
    arrow_corpus = load(
        folder, user_column="who", label_column="topic", attribute_columns=["number"]
    )
    assert arrow_corpus.stored
    assert same(arrow_corpus, held)


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.float64()])
def test_splits_whose_columns_have_other_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    folder = tmp_path / "splits"
    write(folder / "train.parquet")
    texts = pa.array(columns()["text"][:40], pa.large_string()).dictionary_encode()
    numbers = pa.array([*range(40)]).cast(kind)
    pq.write_table(pa.table({"text": texts, "number": numbers}), folder / "test.parquet")
    held = load(folder, user_column="number", label_column="topic")
    monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 0)
    assert same(load(folder, user_column="number", label_column="topic"), held)


@pytest.mark.usefixtures("large")
def test_a_dot_in_the_name_of_a_column_is_no_field_of_another(tmp_path: Path) -> None:
    inner = pa.array([{"name": f"inner {i}"} for i in range(ROWS)])
    file = tmp_path / "data.parquet"
    names = [f"author {i % 9}" for i in range(ROWS)]
    pq.write_table(pa.table({"text": columns()["text"], "by": inner, "by.name": names}), file)
    assert np.unique(load(file, user_column="by.name").users).size == 9
