from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.text.full_batches import full_batches


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.sampled_from(["cpu", "cuda:1"]))
def test_each_row_comes_once_in_a_full_batch_of_its_length(lengths: list[int], device: str) -> None:
    counts = np.array(lengths)
    wanted: list[int] = []
    for rows, count in full_batches(counts, device):
        assert len(rows) == (8 if device == "cpu" else 64) >= count > 0
        assert len(set(counts[rows].tolist())) == 1
        wanted += rows[:count].tolist()
        assert set(rows.tolist()) == set(rows[:count].tolist())  # filled with its own rows
    assert sorted(wanted) == list(range(len(lengths)))


@given(st.lists(st.integers(0, 12), max_size=80))
def test_rows_that_may_have_neighbours_come_once_and_fill_nothing(lengths: list[int]) -> None:
    batches = list(full_batches(np.array(lengths, dtype=np.int64), "cpu", alone=False))
    rows = np.concatenate([rows for rows, _ in batches] or [np.empty(0, dtype=np.int64)])
    assert sorted(rows.tolist()) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // 8)
    assert all(len(rows) == count for rows, count in batches)
