"""Metric differential privacy on words: noise on the word vector, then the nearest word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uedp_bench.mechanisms.words.substitution import KEPT, WordMechanism, WordParams

if TYPE_CHECKING:
    from uedp_bench.api import FloatArray, IntArray
    from uedp_bench.mechanisms.words.substitution import Search


class MetricDPParams(WordParams):
    """Parameters of word-level metric DP."""


class MetricDP(WordMechanism[MetricDPParams]):
    """Every word of a private row becomes the word nearest to its vector plus noise.

    Nearness is Euclidean for either noise, so the choice is a function of the noisy vector alone.
    """

    name = "metric-dp"
    version = 2
    unit = "word"
    source = "Feyisetan et al. 2020, Algorithm 1; Xu et al. 2020, Algorithm 1 (mahalanobis)"
    Params = MetricDPParams

    def choose(
        self, search: Search, word: IntArray, noisy: FloatArray, coin: FloatArray
    ) -> IntArray:
        """The nearest word; the input word is one of the candidates."""
        return search(noisy)[0][:, 0]

    def unproven(self) -> str:
        """Words that pass unchanged have no noise at all."""
        return KEPT if self.params.unknown == "keep" else ""
