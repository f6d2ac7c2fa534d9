"""Tables of JSON objects: each field is a column, and no small file costs gigabytes."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from uedp_bench.data.tables import MOST_NAME, Layout, read_objects, read_table
from uedp_bench.errors import InputError
from uedp_bench.io import files


def written(folder: Path, rows: list[object]) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def columns(file: Path) -> dict[str, list[object]]:
    return read_objects(file, "text.path", "utf-8", lines=True)[0]


def peak(file: Path, error: str) -> int:
    """Bytes that refusing a file takes at most."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=error):
            columns(file)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_objects_within_objects_are_columns(tmp_path: Path) -> None:
    rows = [{"a": {"b": {"c": 1}}, "a.b": 2}, {"d": 3}, {"a": None, "d": 4}]
    assert columns(written(tmp_path, rows)) == {
        "a": [{"b": {"c": 1}}, None, None],
        "a.b": [2, None, None],
        "a.b.c": [1, None, None],
        "d": [None, 3, 4],
    }


def test_a_field_of_its_own_in_each_row_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, [{"text": "a", f"n{row}": row} for row in range(16_000)])
    assert peak(file, "more than 16,777,216 cells") < 2**28


def test_many_fields_of_one_row_take_no_square(tmp_path: Path) -> None:
    file = written(tmp_path, [{f"n{at}": {"x": at} for at in range(16_000)}])
    assert len(columns(file)) == 32_000


def test_long_names_are_refused(tmp_path: Path) -> None:
    inner = {f"n{at}": at for at in range(2_000)}
    file = written(tmp_path, [{"x" * (MOST_NAME - 2): inner}])
    assert peak(file, "row 1 has a field whose name has more than 1,000 characters") < 2**24


def test_wide_tables_are_read(tmp_path: Path) -> None:
    rows = [{f"n{at}": at for at in range(300)} for _ in range(300)]
    assert len(columns(written(tmp_path, rows))) == 300


def test_a_list_in_a_file_of_lines_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('[\n{"a": 1}\n]\n')
    with pytest.raises(InputError, match=r"line 1 .*JSON.*json.*jsonl"):
        columns(file)


@pytest.mark.parametrize("unit", ["\n", "a\n", "{}\n"])
def test_lines_that_cost_no_bytes_are_limited(
    tmp_path: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MOST_LINES", 10_000)
    file = tmp_path / "rows.gz"
    file.write_bytes(gzip.compress(unit.encode() * 2**15))
    kind = "jsonl" if unit[0] == "{" else "lines"
    with pytest.raises(InputError, match="10,000 lines"):
        read_table(file, "text.path", Layout(kind))
    file.write_bytes((unit * 2**15).encode())
    assert len(read_table(file, "text.path", Layout(kind))) in (0, 1)


def test_a_list_that_unpacks_to_much_more_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.json.gz"
    file.write_bytes(gzip.compress(b"[" + b"{}," * 2**24 + b"{}]"))
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="200 times"):
            read_table(file, "text.path")
        assert tracemalloc.get_traced_memory()[1] < 2**28
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "packer"),
    [
        (b"\x28\xb5\x2f\xfd\x04\x00", "zstd"),
        (b"BZh91AY&SY", "bzip2"),
        (b"\xfd7zXZ\x00", "xz"),
        (b"PK\x03\x04", "zip"),
    ],
)
def test_other_packers_are_named(tmp_path: Path, content: bytes, packer: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(content * 3)
    with pytest.raises(InputError, match=f" {packer}[;,].*gzip"):
        columns(file)
