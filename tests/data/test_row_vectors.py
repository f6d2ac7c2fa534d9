"""Vectors of rows are computed once, when somebody asks for them."""

from __future__ import annotations

import os
import pickle
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.data import stored_rows
from uedp_bench.data.stored_rows import CountsAndVectors, IntArray, RowVectors
from uedp_bench.errors import UedpBenchError

ROWS, SIZE = 50, 3
COUNTS = np.arange(ROWS) % 4
"""Vectors of each row; some have none."""

calls: list[list[int]] = []


def vectors_of(rows: IntArray) -> CountsAndVectors:
    """Row r has vectors whose numbers are all r, r + 0.1, ..."""
    calls.append(rows.tolist())
    vectors = [np.full(SIZE, row + 0.1 * at) for row in rows for at in range(COUNTS[row])]
    return COUNTS[rows], np.array(vectors, dtype=np.float32).reshape(-1, SIZE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path))
    calls.clear()
    return tmp_path


def expect(subject: RowVectors, rows: list[int]) -> None:
    counts, vectors = subject.some(np.array(rows, dtype=np.int64))
    assert counts.tolist() == COUNTS[rows].tolist()
    expected = [row + 0.1 * at for row in rows for at in range(COUNTS[row])]
    assert np.allclose(vectors, np.array(expected)[:, None])
    assert vectors.shape == (len(expected), SIZE)


def test_each_row_is_computed_once_and_few_together(cache: Path) -> None:
    subject = RowVectors(ROWS, vectors_of, 3)
    expect(subject, [7, 2, 7, 4])
    assert calls == [[2, 4, 7]]
    expect(subject, [9, 7, 1, 8, 5, 2])
    assert calls[1:] == [[1, 5, 8], [9]]
    assert subject.counts(np.array([[9, 8], [3, 1]])).tolist() == [[1, 0], [3, 1]]
    assert calls[3:] == [[3]]
    expect(subject, list(range(ROWS))[::-1])
    assert sorted(chain.from_iterable(calls)) == list(range(ROWS))
    assert [*(cache / "vectors").iterdir()] == []  # the file has no name


def test_rows_without_a_vector_come_first_too() -> None:
    subject = RowVectors(ROWS, vectors_of, 3)
    expect(subject, [0, 4])
    expect(subject, [0, 1])


def test_other_processes_compute_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = RowVectors(ROWS, vectors_of, 3)
    expect(subject, [1, 2])
    expect(pickle.loads(pickle.dumps(subject)), [1, 2])  # noqa: S301 - ours
    monkeypatch.setattr(os, "getpid", lambda: -1)
    expect(subject, [1, 2])
    assert calls == [[1, 2]] * 3


def test_a_file_elsewhere_is_as_good_and_a_full_disk_is_said(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "vectors").write_text("no folder")
    expect(RowVectors(ROWS, vectors_of, 3), [1, 2])

    def full() -> None:
        raise OSError("no space left")

    monkeypatch.setattr(stored_rows, "_without_name", full)
    with pytest.raises(UedpBenchError, match="file: no space"):
        RowVectors(ROWS, vectors_of, 3).some(np.array([1]))
