"""Weighted token scores against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from uedp_bench.errors import InputError
from uedp_bench.statistics.token_scores import token_counts, weighted_token_score

PAIRS = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8), min_size=1, max_size=5
).filter(any)


@given(PAIRS)
def test_scores_are_the_weighted_ones_of_scikit_learn(rows: list[list[tuple[int, int]]]) -> None:
    gold, predicted = ([np.array([p[side] for p in row]) for row in rows] for side in (0, 1))
    counts = token_counts(gold, predicted, 5)
    found = weighted_token_score(counts, np.arange(len(rows)), np.random.default_rng(0))
    theirs = precision_recall_fscore_support(
        np.concatenate(gold), np.concatenate(predicted), average="weighted", zero_division=0
    )
    assert [part.value for part in found] == pytest.approx(theirs[:3])


def test_all_outside_scores_what_its_share_of_words_gives() -> None:
    """With a share s of words outside: P = s^2, R = s, F = s * 2 s / (1 + s)."""
    gold = [np.array([0] * 33 + [1, 2, 2, 3, 4, 4, 4])]
    counts = token_counts(gold, [np.zeros(40, dtype=np.int64)], 5)
    found = weighted_token_score(counts, np.zeros(1, dtype=np.int64), np.random.default_rng(0))
    share = 33 / 40
    wanted = (share**2, share, share * 2 * share / (1 + share))
    assert tuple(part.value for part in found) == pytest.approx(wanted)
    assert found.f1.value == pytest.approx(0.746, abs=5e-4)  # .825 outside, as in CoNLL's testb


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 1 .*1 gold.* 2 predicted"):
        token_counts([np.zeros(2), np.zeros(1)], [np.zeros(2), np.zeros(2)], 3)
    with pytest.raises(InputError, match=r"row 0 .* 3"):
        token_counts([np.array([3])], [np.array([0])], 3)
    with pytest.raises(InputError, match=r"scores: .*counts"):
        counts = token_counts([np.array([])], [np.array([])], 3)
        weighted_token_score(counts, np.zeros(1, dtype=np.int64), np.random.default_rng(0))
