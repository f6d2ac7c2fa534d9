"""Random suffixes are distinct and uniform, however many there could be."""

from __future__ import annotations

import math

import numpy as np

from uedp_bench.attacks.secret_sharer.canary import (
    _drawn_by_word,
    random_suffix_words,
    random_suffixes,
)


def test_references_are_distinct_uniform_and_never_the_canary() -> None:
    words = tuple("abcd")
    suffixes = random_suffixes(words, "b c", 15, np.random.default_rng(0))
    assert len(set(suffixes)) == 15
    assert set(suffixes) == {f"{x} {y}" for x in words for y in words} - {"b c"}


def test_suffixes_too_many_to_be_numbered_are_drawn_by_word() -> None:
    own = np.full(5, 9_999)
    assert 10_000**5 > 2**63
    suffixes = random_suffix_words(10_000, own, 3000, np.random.default_rng(0))
    assert suffixes.shape == (3000, 5)
    assert abs(suffixes.mean() - 4999.5) < 5 * 2887 / math.sqrt(15_000)
    few = _drawn_by_word(3, np.array([1, 2]), 8, np.random.default_rng(0))
    assert len({tuple(row) for row in few.tolist()} - {(1, 2)}) == 8
