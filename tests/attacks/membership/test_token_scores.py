"""Membership scores against published values."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.attacks.membership.token_scores import (
    loss,
    lowest_mean,
    min_k,
    min_k_plus_plus,
    score_texts,
    standardised,
    zlib_bytes,
)
from uedp_bench.contracts.capabilities import TokenScores
from uedp_bench.errors import InputError

LOGP = np.array([-0.1, -2.3, -0.5, -4, -1.2, -0.05, -3.3, -0.7, -0.9, -0.2])
FOX = "The quick brown fox jumps over the lazy dog."


def tokens(logp: np.ndarray) -> TokenScores:
    return TokenScores(logp, np.full(len(logp), -1.0), np.ones(len(logp)), logp > -1)


def test_loss_min_k_and_zlib_have_their_reference_values() -> None:
    score = tokens(LOGP)
    assert loss(score) == pytest.approx(1.325)
    assert min_k(score, 0.2) == pytest.approx(3.65)
    assert min_k(score, 0.1) == pytest.approx(4.0)
    assert zlib_bytes(FOX) == 51
    assert score_texts([FOX], [score], None, 0.2)["zlib"][0] == pytest.approx(0.0259804, abs=1e-7)


def test_min_k_looks_at_one_token_at_least() -> None:
    assert min_k(tokens(np.array([-1.0, -2.0])), 0.1) == 2.0
    assert lowest_mean(np.arange(10.0), 0.3) == 1.0  # 0.3 x 10 is below 3 in floating point


def test_min_k_plus_plus_standardises_by_the_models_own_distribution() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.25, 0.25, 0.5]])
    mean = (p * np.log(p)).sum(axis=1)
    std = np.sqrt((p * np.log(p) ** 2).sum(axis=1) - mean**2)
    logp = np.log(p[np.arange(4), [0, 2, 1, 2]])
    score = TokenScores(logp, mean, std, np.zeros(4, dtype=bool))
    assert standardised(score) == pytest.approx([0.633092, -2, -0.816497, 1], abs=1e-6)
    assert min_k_plus_plus(score, 0.5) == pytest.approx((2 + 0.816497) / 2, abs=1e-6)


def test_a_model_that_is_certain_gives_no_nan() -> None:
    certain = TokenScores(np.zeros(2), np.zeros(2), np.zeros(2), np.ones(2, dtype=bool))
    assert min_k_plus_plus(certain, 0.5) == 0.0


def test_ratio_is_loss_minus_the_reference_loss() -> None:
    found = score_texts([FOX], [tokens(LOGP)], [tokens(LOGP * 2)], 0.2)
    assert found["ratio"][0] == pytest.approx(-1.325)
    assert "ratio" not in score_texts([FOX], [tokens(LOGP)], None, 0.2)


def test_nan_and_texts_without_tokens_are_errors() -> None:
    with pytest.raises(InputError, match=r"'loss'.*text 1.*NaN"):
        score_texts(["a", "b"], [tokens(LOGP), tokens(LOGP * np.nan)], None, 0.2)
    with pytest.raises(InputError, match=r"membership: .*1 without"):
        score_texts(["a"], [tokens(LOGP[:0])], None, 0.2)
