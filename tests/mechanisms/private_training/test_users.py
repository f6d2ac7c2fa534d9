"""Caps on contributions: at most so many rows of a unit, chosen uniformly within the unit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.corpus import Corpus, Index
from uedp_bench.mechanisms.private_training.users import capped_units


def _index(counts: list[int]) -> Index:
    rows = np.random.default_rng(0).permutation(sum(counts))
    return Index(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), rows)


def _corpus(rows: int, seed: int = 0) -> Corpus:
    texts = tuple(f"row {row} of {seed}" for row in range(rows))
    users = np.zeros(rows, dtype=np.int64)
    return Corpus(texts, {"user": users}, np.zeros(rows, dtype=np.int64))


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 99))
def test_every_unit_keeps_at_most_the_cap_of_its_own_rows_in_their_order(
    counts: list[int], cap: int, seed: int
) -> None:
    index = _index(counts)
    capped = capped_units(index, cap, _corpus(sum(counts), seed))
    assert capped.counts.tolist() == [min(count, cap) for count in counts]
    for unit in range(len(index)):
        before, after = index[unit].tolist(), capped[unit].tolist()
        assert after == [row for row in before if row in set(after)]


def test_no_cap_keeps_everything() -> None:
    index = _index([3, 0, 2])
    assert capped_units(index, None, _corpus(5)) is index


def test_a_smaller_cap_keeps_some_of_what_a_larger_one_keeps() -> None:
    index, corpus = _index([9, 4]), _corpus(13)
    kept = [{*capped_units(index, cap, corpus).rows.tolist()} for cap in (1, 3, 6)]
    assert kept[0] < kept[1] < kept[2]


def test_the_choice_is_uniform() -> None:
    index = _index([1, 4, 2])
    kept = np.concatenate([capped_units(index, 2, _corpus(7, seed))[1] for seed in range(2000)])
    shares = np.array([(kept == row).mean() for row in index[1]])
    # Each of 4 rows fills a quarter of 4,000 places; 5 deviations are 0.034.
    assert np.abs(shares - 0.25).max() < 0.034
