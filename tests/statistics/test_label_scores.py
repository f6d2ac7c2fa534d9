"""Confusion counts against scikit-learn, intervals against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, precision_recall_fscore_support

from uedp_bench.errors import InputError
from uedp_bench.statistics.label_scores import (
    confusion,
    f1_by_class,
    macro_f1,
    macro_f1_estimate,
    token_counts,
    weighted_token_score,
)

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@given(LABELS)
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = (np.array(side) for side in zip(*pairs, strict=True))
    counts = confusion(truth, predicted, 4)
    assert counts.sum() == len(pairs)
    assert macro_f1(counts) == pytest.approx(
        f1_score(truth, predicted, average="macro", zero_division=0)
    )


def test_f1_of_stacked_counts() -> None:
    one = confusion(np.array([0, 0, 1]), np.array([0, 1, 1]), 2)
    assert f1_by_class(np.stack([one, 2 * one])) == pytest.approx(np.full((2, 2), 2 / 3))


def test_interval_contains_the_value_and_shrinks_with_users() -> None:
    rng = np.random.default_rng(0)
    widths = []
    for size in (60, 960):
        truth = np.arange(size) % 3
        predicted = np.where(np.random.default_rng(1).random(size) < 0.3, 0, truth)
        estimate = macro_f1_estimate(truth, predicted, 3, rng, np.arange(size))
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.value < estimate.high
        widths.append(estimate.high - estimate.low)
    assert widths[1] < 0.5 * widths[0]


def test_rows_of_one_user_are_resampled_together() -> None:
    truth = np.zeros(100, dtype=np.int64)
    predicted = (np.arange(100) >= 50).astype(np.int64)
    rng = np.random.default_rng(0)
    estimate = macro_f1_estimate(truth, predicted, 2, rng, np.arange(100) // 50)
    assert (estimate.low, estimate.high) == (0.0, 1.0)  # a draw may hold one of the two users only
    assert macro_f1_estimate(truth, predicted, 2, rng, np.zeros(100)).low is None


def test_no_rows_are_an_error() -> None:
    empty = np.empty(0, dtype=np.int64)
    with pytest.raises(InputError, match=r"F1: .*rows"):
        macro_f1_estimate(empty, empty, 2, np.random.default_rng(0), empty)


PAIRS = st.lists(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8), min_size=1, max_size=5
).filter(any)


@given(PAIRS)
def test_scores_are_the_weighted_ones_of_scikit_learn(rows: list[list[tuple[int, int]]]) -> None:
    gold, predicted = ([np.array([p[side] for p in row]) for row in rows] for side in (0, 1))
    counts = token_counts(gold, predicted, 5)
    estimates = weighted_token_score(counts, np.arange(len(rows)), np.random.default_rng(0))
    theirs = precision_recall_fscore_support(
        np.concatenate(gold), np.concatenate(predicted), average="weighted", zero_division=0
    )
    assert [part.value for part in estimates] == pytest.approx(theirs[:3])


def test_all_outside_scores_what_its_share_of_words_gives() -> None:
    """With a share s of words outside: P = s^2, R = s, F = s * 2 s / (1 + s)."""
    gold = [np.array([0] * 33 + [1, 2, 2, 3, 4, 4, 4])]
    counts = token_counts(gold, [np.zeros(40, dtype=np.int64)], 5)
    score = weighted_token_score(counts, np.zeros(1, dtype=np.int64), np.random.default_rng(0))
    share = 33 / 40
    wanted = (share**2, share, share * 2 * share / (1 + share))
    assert tuple(part.value for part in score) == pytest.approx(wanted)
    assert score.f1.value == pytest.approx(0.746, abs=5e-4)  # .825 outside, as in CoNLL's testb


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 1 .*1 gold.* 2 predicted"):
        token_counts([np.zeros(2), np.zeros(1)], [np.zeros(2), np.zeros(2)], 3)
    with pytest.raises(InputError, match=r"row 0 .* 3"):
        token_counts([np.array([3])], [np.array([0])], 3)
    with pytest.raises(InputError, match=r"scores: .*counts"):
        counts = token_counts([np.array([])], [np.array([])], 3)
        weighted_token_score(counts, np.zeros(1, dtype=np.int64), np.random.default_rng(0))
