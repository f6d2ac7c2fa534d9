"""One person is one user, however a file, or two files, write the id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError

COMPOSED, DECOMPOSED = "Jos\u00e9", "Jose\u0301"


def text(path: Path, **params: Any) -> Corpus:
    corpus: Corpus = sources.create("text", {"path": path, "user_column": "who", **params}).load()
    return corpus


def write(path: Path, ids: list[Any], column: str = "who") -> Path:
    """A file of its ending's kind, whose rows have these ids."""
    rows = [{"text": f"row {at}", column: one} for at, one in enumerate(ids)]
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        lines = [f"row {at},{one}" for at, one in enumerate(ids)]
        path.write_text("\n".join([f"text,{column}", *lines]) + "\n")
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("train", "valid"),
    [
        (("train.parquet", [7, 8, 9]), ("valid.parquet", [7.0, 10.0])),
        (("train.parquet", [7, 8, 9]), ("valid.parquet", ["7", "10"])),
        (("train.jsonl", [7, 8, 9]), ("valid.jsonl", ["7", "10"])),
        (("train.jsonl", [7, 8, 9]), ("valid.csv", ["7.0", "10.0"])),
        (("train.jsonl", [COMPOSED, "b", "c"]), ("valid.jsonl", [DECOMPOSED, "d"])),
        (("train.csv", [COMPOSED, "b", "c"]), ("valid.parquet", [f" {COMPOSED}\u200b", "d"])),
    ],
)
def test_a_person_is_one_over_files_of_other_types(
    tmp_path: Path, train: tuple[str, list[Any]], valid: tuple[str, list[Any]]
) -> None:
    for name, ids in (train, valid):
        write(tmp_path / name, ids)
    corpus = text(tmp_path, test=0)
    assert corpus.users[corpus.where("valid")].tolist() == [0, 3]
    with pytest.raises(InputError, match="valid_is_public: 1 users"):
        text(tmp_path, test=0, valid_is_public=True)


@pytest.mark.parametrize(
    ("ids", "kinds"),
    [
        ([7, "7"], "'7'.*line 1"),
        ([True, 1], "line 2.*1 .*True in line 1"),
        (["a", "b", False], "line 3.*column 'mixed'.*'a'"),
    ],
)
@pytest.mark.parametrize("field", ["user", "label", "id"])
def test_a_column_of_mixed_types_is_refused_with_both_rows(
    tmp_path: Path, ids: list[Any], kinds: str, field: str
) -> None:
    path = write(tmp_path / "x.jsonl", ids, "mixed")
    with pytest.raises(InputError, match=kinds):
        text(path, **{"user_column": None, f"{field}_column": "mixed"})


def test_numbers_and_texts_that_share_no_id_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [7, "ann", 8, "ann", 7])
    assert text(path, test=0, valid=0).users.tolist() == [0, 1, 2, 1, 0]
    labelled = text(path, user_column=None, label_column="who", test=0, valid=0)
    assert labelled.label_names == ("7", "8", "ann")


def test_whole_numbers_beside_broken_ones_are_one_type(tmp_path: Path) -> None:
    assert text(write(tmp_path / "x.jsonl", [1, 1.0, 1.5, 2, 3]), test=0).user_count == 4


def test_ids_and_classes_have_the_same_normal_form(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ["1", "1.0", "2"], "n")
    with pytest.raises(InputError, match=r"'1'.*row 1.*'1\.0'"):
        text(path, user_column=None, id_column="n")
    labelled = text(path, user_column=None, label_column="n", test=0, valid=0)
    assert labelled.label_names == ("1", "2")
    declared = text(
        path, user_column=None, label_column="n", label_names=["2.0", "1"], test=0, valid=0
    )
    assert declared.label_names == ("2.0", "1")
    assert declared.labels is not None
    assert declared.labels.tolist() == [1, 1, 0]


def test_records_are_of_users_in_their_normal_form(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [7, 8, 9, 10])
    facts = [{"user": "7.0", "facts": {"born": "1961"}}, {"user": 8, "facts": {"born": "1970"}}]
    records = tmp_path / "records.jsonl"
    records.write_text("".join(json.dumps(one) + "\n" for one in facts))
    corpus = text(path, records=records)
    assert corpus.records is not None
    assert [one.get("born") for one in corpus.records[:3]] == [("1961",), ("1970",), None]
