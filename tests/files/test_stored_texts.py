"""Texts in files are equal to the same texts in memory, whatever is done to rows."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from uedp_bench.errors import UedpBenchError
from uedp_bench.files.stored_texts import (
    HeldTexts,
    StoredTexts,
    TextPool,
    joined_texts,
    replaced_texts,
    some_texts,
    taken_texts,
)
from uedp_bench.files.text_store import stored_texts

TEXTS = tuple(f"text {i} ü {'x' * (i % 7)}" for i in range(1_000))


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredTexts:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path))
    parts = [pa.array(TEXTS[first : first + 130]) for first in range(0, len(TEXTS), 130)]
    return StoredTexts(TextPool((stored_texts(["test"], len(TEXTS), lambda: iter(parts)).block,)))


def digest(texts: StoredTexts) -> str:
    found = hashlib.sha256()
    texts.add_to(found)
    return found.hexdigest()


def test_they_are_what_was_written(stored: StoredTexts) -> None:
    assert stored == TEXTS
    assert stored != TEXTS[:-1]
    assert stored != (*TEXTS[:-1], "other")
    for row in (0, 129, 130, -1):
        assert stored[row] == TEXTS[row]
    assert stored[3:9] == TEXTS[3:9]
    with pytest.raises(IndexError):
        stored[1_000]


def test_any_chain_of_operations_on_rows_gives_the_same_texts(stored: StoredTexts) -> None:
    rng = np.random.default_rng(1)
    plain, kept = TEXTS, stored
    for turn in range(30):
        rows = rng.integers(len(plain), size=rng.integers(1, len(plain)))
        match turn % 3:
            case 0:
                plain, kept = taken_texts(plain, rows), taken_texts(kept, rows)
            case 1:
                rows = np.unique(rows)[:20]
                new = [f"new {turn} {row % 3}" for row in rows.tolist()]
                plain, kept = replaced_texts(plain, rows, new), replaced_texts(kept, rows, new)
            case _:
                plain, kept = joined_texts(plain, TEXTS[:400]), joined_texts(kept, TEXTS[:400])
        assert isinstance(kept, StoredTexts)
        assert kept == plain
        asked = rng.integers(len(plain), size=50)
        assert some_texts(kept, asked) == some_texts(plain, asked)
    told = hashlib.sha256(b"".join(text.encode() + b"\0" for text in plain))
    assert digest(kept) == told.hexdigest()


def test_a_process_is_sent_the_path_and_not_the_texts(stored: StoredTexts) -> None:
    assert stored[5] == TEXTS[5]  # the file is open
    sent = pickle.dumps(stored)
    assert len(sent) < 1_000
    assert pickle.loads(sent) == TEXTS  # noqa: S301


def test_a_file_that_is_gone_is_said(stored: StoredTexts, tmp_path: Path) -> None:
    sent = pickle.dumps(stored)
    (file,) = (tmp_path / "texts").glob("*.arrow")
    file.unlink()
    with pytest.raises(UedpBenchError, match="gone from the cache"):
        pickle.loads(sent)[0]  # noqa: S301


@pytest.mark.parametrize("damage", ["flipped bit", "other digest", "no digest"])
def test_a_damaged_store_is_written_anew(stored: StoredTexts, tmp_path: Path, damage: str) -> None:
    (file,) = (tmp_path / "texts").glob("*.arrow")
    if damage == "flipped bit":
        content = bytearray(file.read_bytes())
        content[content.index(b"text 500")] ^= 1
        file.write_bytes(content)
    elif damage == "other digest":
        file.with_suffix(".sha256").write_text("0" * 64)
    else:
        file.with_suffix(".sha256").unlink()
    parts = iter([pa.array(TEXTS)])
    again = StoredTexts(TextPool((stored_texts(["test"], len(TEXTS), lambda: parts).block,)))
    assert again == TEXTS
    assert not list(parts)


def test_texts_of_two_memories_join() -> None:
    one = StoredTexts(TextPool((HeldTexts.of(["a", "b"]),)))
    assert joined_texts(("c",), one) == ("c", "a", "b")
    assert one.take(np.array([], dtype=np.int64)) == ()
