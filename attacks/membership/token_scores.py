"""Membership scores of a text, from the likelihoods of its tokens: low means member.

Definitions: loss (Yeom et al. 2018), zlib and ratio (Carlini et al. 2021, "Extracting Training
Data from Large Language Models", section 5.2), Min-K% (Shi et al. 2024), Min-K%++ (Zhang et al.
2025, equation 3).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.api import InputError

if TYPE_CHECKING:
    from uedp_bench.api.capabilities import TokenScores
    from uedp_bench.corpus import FloatArray

SMALLEST_STD = 1e-6
"""Standard deviations below this (a model certain of one token) count as this, not as zero."""


def check_tokens(scores: Sequence[TokenScores], texts: int) -> None:
    """Refuses scores that are not those of so many texts.

    Raises:
        InputError: if there are more or fewer, or one has no token.
    """
    empty = sum(not len(score.logp) for score in scores)
    if empty or len(scores) != texts:
        raise InputError(
            f"membership: {len(scores)} scores for {texts} texts, {empty} without tokens"
        )


def loss(score: TokenScores) -> float:
    """Mean negative log-likelihood of the tokens, in nats."""
    return float(-np.mean(score.logp))


def zlib_bytes(text: str) -> int:
    """Bytes of the text after zlib: a measure of its complexity that needs no model."""
    return len(zlib.compress(text.encode("utf-8", "surrogatepass")))


def lowest_mean(values: FloatArray, fraction: float) -> float:
    """Mean of the lowest `fraction` of the values, at least one of them."""
    count = max(1, int(np.floor(fraction * len(values) + 1e-9)))
    return float(np.mean(np.partition(values, count - 1)[:count]))


def min_k(score: TokenScores, fraction: float) -> float:
    """Min-K%: minus the mean of the lowest token log-probabilities."""
    return -lowest_mean(score.logp, fraction)


def min_k_plus_plus(score: TokenScores, fraction: float) -> float:
    """Min-K%++: the same of log-probabilities standardised by the model's own next-token law."""
    return -lowest_mean(standardised(score), fraction)


def standardised(score: TokenScores) -> FloatArray:
    """(tokens,) (log p - mean) / standard deviation."""
    return np.asarray((score.logp - score.mean) / np.maximum(score.std, SMALLEST_STD))


def score_texts(
    texts: Sequence[str],
    scores: Sequence[TokenScores],
    reference: Sequence[TokenScores] | None,
    fraction: float,
) -> dict[str, FloatArray]:
    """All membership scores, each (texts,): low means member.

    Args:
        texts: scored texts.
        scores: under the release that is attacked.
        reference: under a model that saw neither members nor non-members; without it there is
            no `ratio`.
        fraction: fraction of the tokens, for Min-K% and Min-K%++.

    Raises:
        InputError: if a score is NaN or a text has no token.
    """
    check_tokens(scores, len(texts))

    def each(measure: Callable[[TokenScores], float], of: Sequence[TokenScores]) -> FloatArray:
        return np.array([measure(score) for score in of], dtype=np.float64)

    losses = each(loss, scores)
    out = {
        "loss": losses,
        "zlib": losses / np.array([zlib_bytes(text) for text in texts]),
        "min_k": each(lambda score: min_k(score, fraction), scores),
        "min_k_plus_plus": each(lambda score: min_k_plus_plus(score, fraction), scores),
    }
    if reference is not None:
        out["ratio"] = losses - each(loss, reference)
    for name, values in out.items():
        bad = np.flatnonzero(np.isnan(values))
        if len(bad):
            raise InputError(f"membership: the score {name!r} of text {bad[0]} is NaN")
    return out
