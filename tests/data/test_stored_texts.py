"""Texts of Arrow are equal to the same texts in memory, whatever is done to rows."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pyarrow as pa
import pytest

from uedp_bench.data.stored_rows import (
    StoredTexts,
    joined_texts,
    replaced_texts,
    some_texts,
    taken_texts,
)

TEXTS = tuple(f"text {i} ü {'x' * (i % 7)}" for i in range(1_000))


@pytest.fixture
def stored() -> StoredTexts:
    return StoredTexts([pa.array(TEXTS[first : first + 130]) for first in range(0, 1_000, 130)])


def digest(texts: StoredTexts) -> str:
    hasher = hashlib.sha256()
    texts.add_to(hasher)
    return hasher.hexdigest()


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
        places = rng.integers(len(plain), size=50)
        assert some_texts(kept, places) == some_texts(plain, places)
    hasher = hashlib.sha256(b"".join(text.encode() + b"\0" for text in plain))
    assert digest(kept) == hasher.hexdigest()


def test_a_process_is_sent_the_texts(stored: StoredTexts) -> None:
    assert pickle.loads(pickle.dumps(stored.take(np.array([5, 3])))) == (TEXTS[5], TEXTS[3])  # noqa: S301


def test_texts_of_two_memories_join() -> None:
    one = StoredTexts([pa.array(["a", "b"])])
    assert joined_texts(("c",), one) == ("c", "a", "b")
    assert one.take(np.array([], dtype=np.int64)) == ()
