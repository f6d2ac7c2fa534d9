"""Stored files that changed since they were written are never used."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.io.sealed_files import (
    SUMS,
    DamagedFileError,
    check_folder,
    seal_folder,
    sealed_file,
    unsealed,
)


@given(parts=st.lists(st.binary(), max_size=4))
def test_content_comes_back(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("sealed") / "file"
    with sealed_file(path) as out:
        for part in parts:
            out.write(part)
    assert unsealed(path).read() == b"".join(parts)


@given(content=st.binary(min_size=1), bit=st.integers(min_value=0))
def test_any_flipped_bit_is_seen(tmp_path_factory, content, bit):
    path = tmp_path_factory.mktemp("sealed") / "file"
    with sealed_file(path) as out:
        out.write(content)
    stored = bytearray(path.read_bytes())
    bit %= 8 * len(stored)
    stored[bit // 8] ^= 1 << bit % 8
    path.write_bytes(stored)
    with pytest.raises(DamagedFileError):
        unsealed(path)


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 4096])
def test_a_file_without_a_digest_is_damaged(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(DamagedFileError):
        unsealed(tmp_path / "file")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "below").mkdir()
    (tmp_path / "weights.pt").write_bytes(b"weights")
    (tmp_path / "below" / "words.json").write_text("[]")
    seal_folder(tmp_path)
    return tmp_path


def test_a_sealed_folder_is_as_it_was(folder):
    check_folder(folder)
    assert len((folder / SUMS).read_text().splitlines()) == 2


@pytest.mark.parametrize("name", ["weights.pt", "below/words.json", "new.json"])
def test_a_changed_folder_is_refused(folder, name):
    (folder / name).write_bytes(b"another")
    with pytest.raises(DamagedFileError, match=name):
        check_folder(folder)


def test_a_missing_file_is_refused(folder):
    (folder / "weights.pt").unlink()
    with pytest.raises(DamagedFileError, match=r"weights\.pt"):
        check_folder(folder)


def test_a_folder_without_digests_is_taken(folder):
    (folder / SUMS).unlink()
    check_folder(folder)
