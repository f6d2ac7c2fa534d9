"""Membership scores of a text against the model before private training; high means member.

`ratio_base`: mean log-likelihood ratio (Carlini et al. 2021, with the weights before training as
reference). `ez`: "EZ-MIA", arXiv 2601.12104, where the release errs, with both sums smoothed.
`wbc`: windows of tokens, arXiv 2601.02751.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.attacks.membership.records import Score

if TYPE_CHECKING:
    from uedp_bench.api.capabilities import TokenScores
    from uedp_bench.attacks.membership.records import Records
    from uedp_bench.corpus import FloatArray

WIDTHS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
"""Tokens of the windows of `wbc`."""

SMOOTHING = 1e-3
"""Nats added to both sums of `ez`: a text without falls is the strongest evidence, not none."""


def base_scores(
    records: Records, scores: Sequence[TokenScores], base: Sequence[TokenScores]
) -> dict[str, Score]:
    """Scores by name.

    Args:
        records: records that were scored.
        scores: scores of each record under the release that is attacked.
        base: scores of each record under the model before private training.

    Raises:
        InputError: if the two do not have the same tokens.
    """
    for at, (one, other) in enumerate(zip(scores, base, strict=True)):
        if len(one.logp) != len(other.logp):
            raise InputError(
                f"membership: text {at} has {len(one.logp)} tokens under the release and "
                f"{len(other.logp)} under the base model: they do not tokenize alike"
            )
    gains = [one.logp - other.logp for one, other in zip(scores, base, strict=True)]
    sizes = np.array([len(gain) for gain in gains], dtype=np.float64)
    errors = [gain[~one.correct] for gain, one in zip(gains, scores, strict=True)]
    rises = np.array([np.maximum(error, 0.0).sum() for error in errors])
    falls = np.array([np.maximum(-error, 0.0).sum() for error in errors])
    return {
        "ratio_base": records.mean(np.array([gain.mean() for gain in gains]), sizes),
        "ez": Score(ez(rises, falls), ez(records.by_user(rises), records.by_user(falls))),
        "wbc": records.mean(np.array([wbc(gain) for gain in gains]), sizes),
    }


def ez(rises: FloatArray, falls: FloatArray) -> FloatArray:
    """(units,) log of rises over falls.

    Args:
        rises: (units,) sum of what tokens that the release gets wrong gained in log-probability.
        falls: (units,) sum of what such tokens lost.
    """
    return np.asarray(np.log((rises + SMOOTHING) / (falls + SMOOTHING)))


def wbc(gains: FloatArray, widths: Sequence[int] = WIDTHS) -> float:
    """Share of windows whose gain is above 0, as the mean over widths.

    Args:
        gains: (tokens,) log-probability under the release less that under the base model.
        widths: widths of windows, in tokens; those of more than there are, count as so many.
    """
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    fits = [min(width, len(gains)) for width in widths]
    return float(np.mean([np.mean(sums[width:] - sums[:-width] > 0.0) for width in fits]))
