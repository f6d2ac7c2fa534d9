"""Bits as given: they drive the samplers of NumPy to their ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from uedp_bench.randomness import WordGenerator


class GivenBits(WordGenerator):
    """Gives these words in order, then random ones."""

    def __init__(self, words: Iterable[int]) -> None:
        super().__init__(_then_random(words))


def _then_random(words: Iterable[int]) -> Iterator[int]:
    yield from words
    yield from np.random.default_rng(0).integers(2**63, size=10_000).tolist()
    raise AssertionError("a sampler refuses everything")
