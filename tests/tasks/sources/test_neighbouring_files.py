"""Files that differ in one row or one user: what is decided about everybody else stays the same."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from neighbours import CHOICES, USERS, Choices, assert_others_stay, kept_by_cap, split, used_round

from uedp_bench.components.registry import sources
from uedp_bench.contracts.source import SCORED_STAY
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.data import table_columns
from uedp_bench.tasks.sources.reading.columns import LAYOUT
from uedp_bench.tasks.sources.reading.splits import SAME_SPLITS

EACH = 3


class Row(NamedTuple):
    """A row of a test file; `who` is its user and `part` its split."""

    text: str
    who: str
    label: str
    part: str


def rows_of_chat() -> list[Row]:
    """Rows of many users in turns, among them equal texts of two labels and of two users."""
    rows = []
    for turn in range(EACH):
        for user in range(USERS):
            part = "train" if user < 100 else ("valid", "test")[user % 2]
            text = "thanks" if (turn + user) % 7 == 0 else f"message {turn} of person {user}"
            rows.append(Row(text, f"u{user}", ("good", "bad")[(turn + user) % 2], part))
    return rows


ROWS = rows_of_chat()
WITHOUT: dict[str, list[Row]] = {
    "the first row": ROWS[1:],
    "a row of equal content": [row for at, row in enumerate(ROWS) if at != USERS + 6],
    "the first user": [row for row in ROWS if row.who != "u0"],
    "a user in between": [row for row in ROWS if row.who != "u57"],
}


def _jsonl(path: Path, rows: list[Row]) -> None:
    path.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))


def _csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([Row._fields, *rows])


def _parquet(path: Path, rows: list[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist([row._asdict() for row in rows]), path)


def _folder(path: Path, rows: list[Row]) -> None:
    path.mkdir()
    for part in ("train", "valid", "test"):
        _jsonl(path / f"{part}.jsonl", [row for row in rows if row.part == part])


def _conll(path: Path, rows: list[Row]) -> None:
    """A document a user, a sentence a row; the label is the tag of the last word."""
    lines = []
    for who in dict.fromkeys(row.who for row in rows):
        lines.append("-DOCSTART- O\n")
        for row in rows:
            if row.who == who:
                words = [*row.text.split(), who]
                lines += [*(f"{word} O" for word in words[:-1]), f"{words[-1]} B-{row.label}", ""]
    path.write_text("\n".join(lines))


KINDS: dict[str, tuple[str, Callable[[Path, list[Row]], None]]] = {
    "jsonl": ("x.jsonl", _jsonl),
    "csv": ("x.csv", _csv),
    "parquet": ("x.parquet", _parquet),
    "large parquet": ("x.parquet", _parquet),
    "folder": ("x", _folder),
    "conll documents": ("x.conll", _conll),
    "conll sentences": ("y.conll", _conll),
}
COLUMNS = {"user_column": "who", "label_column": "label"}


@pytest.fixture
def read(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Corpus]]:
    """Writes rows as one kind of file and loads them."""
    name, write = KINDS[request.param]
    if request.param == "large parquet":
        monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 5)
        monkeypatch.setattr(table_columns, "MOST_ROWS_HELD", 5)
    count = 0

    def load(rows: list[Row], **params: Any) -> Corpus:
        nonlocal count
        count += 1
        folder = tmp_path / str(count)
        folder.mkdir()
        write(folder / name, rows)
        columns: dict[str, Any] = COLUMNS
        if name.endswith("conll"):
            columns = {"user_column": "document"} if name == "x.conll" else {}
            params = {
                key: of for key, of in params.items() if key not in ("split_column", "user_column")
            }
        elif name == "x":
            params.pop("split_column", None)
        corpus: Corpus = sources.create("text", {"path": folder / name, **columns, **params}).load()
        return corpus

    yield load


SETTINGS: dict[str, dict[str, Any]] = {
    "as it is": {"split_column": "part"},
    "cut": {},
    "cut by row": {"cut_by": "row"},
    "public share": {"split_column": "part", "public_share": 0.3},
    "sample": {"split_column": "part", "sample": 0.5},
    "tuned": {"split_column": "part", "tune_on_valid": 0.4},
    "nobody": {"user_column": None, "split_column": "part", "sample": 0.5},
}


CASES = [
    (kind, name)
    for kind in KINDS
    for name in SETTINGS
    # Rows of a table in one piece are those of JSON lines once they are read.
    if kind not in ("csv", "parquet") or name in ("as it is", "cut", "nobody")
]


@pytest.mark.parametrize(("read", "name"), CASES, indirect=["read"])
def test_who_leaves_a_file_moves_nobody_else(read: Callable[..., Corpus], name: str) -> None:
    whole, params = read(ROWS, **SETTINGS[name]), SETTINGS[name]
    tokens, documents = "gold" in whole.layers, whole.user_count < len(whole)
    if tokens and name in ("public share", "tuned"):
        return  # its splits are cut
    shared = SCORED_STAY if "public_share" in params else None
    assert whole.quotas == tuple(filter(None, (LAYOUT if tokens else None, shared)))
    before = Choices(whole)
    choices = [
        choose for what, choose in CHOICES.items() if not (tokens and what == "client by label")
    ]
    for gone, rows in WITHOUT.items():
        if tokens and documents and "row" in gone:
            continue  # a document that loses a row has another name
        capped = [kept_by_cap] if name == "as it is" and "user" in gone else []
        assert_others_stay(before, Choices(read(rows, **params)), *choices, *capped)


def test_a_document_that_leaves_renames_no_equal_sentence(tmp_path: Path) -> None:
    """Documents without names, which share all sentences but one."""

    def load(documents: range) -> Corpus:
        lines = []
        for number in documents:
            shared = [f"common{at} B-NAME\nword O\n" for at in range(5)]
            lines += ["-DOCSTART- O\n", *shared, f"own{number} O\n"]
        (tmp_path / "x.conll").write_text("\n".join(lines))
        params = {"path": tmp_path / "x.conll", "user_column": "document"}
        corpus: Corpus = sources.create("text", params).load()
        return corpus

    def by_document(corpus: Corpus, choose: Callable[[Corpus], Any]) -> dict[str, list[Any]]:
        values = choose(corpus).tolist()
        return {
            corpus.texts[rows[-1]]: [(corpus.texts[row], values[row]) for row in rows.tolist()]
            for rows in map(corpus.rows_of_user.__getitem__, range(corpus.user_count))
        }

    before, after = load(range(60)), load(range(1, 60))
    for choose in (*CHOICES.values(), kept_by_cap):
        old, new = by_document(before, choose), by_document(after, choose)
        assert len(new) == 59
        assert new.items() <= old.items()


def test_rows_with_ids_stay_where_their_content_changes(tmp_path: Path) -> None:
    def load(rows: list[Row]) -> Corpus:
        (tmp_path / "x.jsonl").write_text(
            "".join(json.dumps({**row._asdict(), "id": at}) + "\n" for at, row in enumerate(rows))
        )
        corpus: Corpus = sources.create(
            "text", {"path": tmp_path / "x.jsonl", "label_column": "label", "id_column": "id"}
        ).load()
        return corpus

    before = load(ROWS)
    after = load([row._replace(text=f"another text {at}") for at, row in enumerate(ROWS)])
    for choose in (split, CHOICES["client by user"], CHOICES["client by row"], used_round):
        assert np.array_equal(choose(before), choose(after))


@pytest.mark.parametrize(
    ("odd", "rows"),
    [
        ("1\tx\tO\n3\ty\tO\n\n", "1\ta\tO\n2\tb\tO\n\n"),  # the first column counts no words then
        ("o\tO\n\n", "a\tX\nb\tX\n\n"),  # else the tags are of the kind that has no outside
    ],
    ids=["counted words", "categories"],
)
def test_a_layout_that_follows_from_all_rows_is_assumed(
    tmp_path: Path, odd: str, rows: str
) -> None:
    read = []
    for text in (9 * rows + odd, 9 * rows):
        (tmp_path / "x.conll").write_text(text)
        read.append(sources.create("text", {"path": tmp_path / "x.conll"}).load())
    spans = [corpus.layers["gold"].spans.table().tolist()[:2] for corpus in read]
    assert (read[0].texts[0], spans[0]) != (read[1].texts[0], spans[1])
    assert all(LAYOUT in corpus.quotas for corpus in read)


@pytest.mark.parametrize("scored", [0, 1, 2])
def test_the_last_row_of_a_split_is_assumed_to_stay(tmp_path: Path, scored: int) -> None:
    """Without it, a share of the training users takes its place."""

    def load(rows: list[Row]) -> Corpus:
        _jsonl(tmp_path / "x.jsonl", rows)
        params = {"path": tmp_path / "x.jsonl", "split_column": "part", "test": 0, **COLUMNS}
        corpus: Corpus = sources.create("text", params).load()
        return corpus

    train = [row for row in ROWS if row.part == "train"]
    valid = [row for row in ROWS if row.part == "valid"][:scored]
    whole = load([*train, *valid])
    assert whole.where("train").sum() == len(train) or not scored
    assert load(train).where("train").sum() < len(train)
    assert (SAME_SPLITS in whole.quotas) is (scored < 2)


def test_the_order_of_a_file_decides_nothing(tmp_path: Path) -> None:
    _jsonl(tmp_path / "a.jsonl", ROWS)
    _jsonl(
        tmp_path / "b.jsonl", [ROWS[at] for at in np.random.default_rng(1).permutation(len(ROWS))]
    )
    one, other = (
        Choices(sources.create("text", {"path": tmp_path / f"{name}.jsonl", **COLUMNS}).load())
        for name in "ab"
    )
    for choose in CHOICES.values():
        assert one.by_content(choose) == other.by_content(choose)


def test_public_rows_of_a_planted_corpus_keep_their_names() -> None:
    corpus = sources.create("embedded", {"users": 50}).load()
    kept = corpus.take(np.flatnonzero(corpus.where("train")))
    assert np.array_equal(kept.row_names.array, corpus.row_names.array[corpus.where("train")])
    assert SPLITS[0] == "train"
