"""Event of a histogram of words with Laplace noise and a threshold, and its promise.

Every word that somebody has gets noise of its own, and words whose noisy count exceeds a threshold
are released with it. A unit has `words` occurrences of words, at most, so that counts that others
share move by so much in l1. What only the unit has is released with a probability that the
threshold makes small (proof: docs/proofs.md, section 20).
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from uedp_bench.accounting.event_contract import Event, PrivacyUnit

MOST_WORDS = 10**12
"""Most occurrences of words that a unit may have."""

_SAFETY = 1.0 + 1e-9
"""The threshold lies this much higher than it must, so that rounding does not lower it."""


class NoisyHistogram(Event):
    """Laplace noise on every count above 0, and words whose noisy count exceeds the threshold.

    A unit has at most `words` occurrences of words. The noise has the scale `scale`; noisy counts
    are released with their words.
    """

    kind: Literal["noisy-histogram"] = "noisy-histogram"
    scale: float = Field(gt=0.0, allow_inf_nan=False)
    words: int = Field(ge=1, le=MOST_WORDS)
    threshold: float = Field(ge=1.0, allow_inf_nan=False)

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about counts, noise and threshold."""
        return (
            f"words are counted, at most {self.words:,} of each {unit}; each count gets Laplace "
            f"noise of scale {self.scale:g}, and those above {self.threshold:g} are released"
        )


def seen_alone(scale: float, words: int, threshold: float) -> float:
    """The probability that some word that one unit alone has is released, at most.

    A word that it has c times passes with at most exp((c - threshold) / scale) / 2. The sum over
    words with `words` occurrences in all is largest where all are different, or all are the same.

    Args:
        scale: scale of the Laplace noise.
        words: most occurrences of words that the unit has.
        threshold: threshold that a noisy count must exceed.
    """
    log = _worst_words(scale, words) - (threshold - 1.0) / scale - math.log(2.0)
    if math.isnan(log):  # both quotients by a tiny scale are infinite: their difference is not
        log = (words - threshold) / scale
    return math.exp(min(log, 0.0))


def histogram_threshold(scale: float, words: int, delta: float) -> float:
    """The smallest threshold at which `seen_alone` is `delta` at most, and not below 1.

    Args:
        scale: scale of the Laplace noise.
        words: most occurrences of words that a unit has.
        delta: bound on `seen_alone`, in (0, 1).
    """
    needed = 1.0 + scale * (_worst_words(scale, words) - math.log(2.0 * delta))
    return max(needed, 1.0) * _SAFETY


def _worst_words(scale: float, words: int) -> float:
    """The logarithm of max(L, e^((L - 1) / b)): L different words, or one that occurs L times."""
    return max(math.log(words), (words - 1) / scale)
