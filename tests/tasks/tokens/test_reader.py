"""Batches hold every row once, short rows first, and no more rows than fit their longest."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.tasks.tokens.reader import batches_by_length


@pytest.mark.parametrize("tokens", [1, 7, 40, 10_000])
def test_batches_fit_and_hold_every_row_once(tokens: int) -> None:
    lengths = np.random.default_rng(1).integers(0, 30, 101)
    batches = list(batches_by_length(lengths, lambda length: max(1, tokens // max(length, 1))))
    rows = np.concatenate(batches)
    assert sorted(rows) == list(range(101))
    assert (np.diff(lengths[rows]) >= 0).all()
    assert all(len(each) == 1 or len(each) * lengths[each].max() <= tokens for each in batches)


def test_rows_that_are_too_short_are_left_out() -> None:
    batches = list(batches_by_length(np.array([2, 0, 1, 0, 3]), lambda _: 2, least=1))
    assert [each.tolist() for each in batches] == [[2, 0], [4]]
    assert not list(batches_by_length(np.zeros(3, dtype=np.int64), lambda _: 2, least=1))
