"""The order of a short text is the one whose own update looks like the update that was seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from uedp_bench.attacks.gradient_inversion.short_rows import likeliest_order, rouge_l


class Overlap:
    """Likeness to a hidden order: neighbours that it has, and a little for the right length."""

    def __init__(self, true):
        self.true, self.evaluations = true, 0

    def __call__(self, orders):
        self.evaluations += len(orders)
        return np.array([self.cosine(order) for order in orders])

    def cosine(self, order):
        pairs = set(pairwise(order))
        wanted = set(pairwise(self.true))
        right = sum(a == b for a, b in zip(order, self.true, strict=False))
        return len(pairs & wanted) + 0.1 * right - 0.01 * abs(len(order) - len(self.true))


@pytest.mark.parametrize("true", [(3, 1, 2), (5, 4, 6, 2, 1), (4, 1, 4, 2, 3), (7,)])
def test_orders_are_found_with_words_that_come_twice(true):
    rng = np.random.default_rng(0)
    order = likeliest_order(sorted(set(true)), Overlap(true), 2000, rng)
    assert order == true


def test_the_search_ends_near_its_budget():
    likeness = Overlap(tuple(range(12)))
    order = likeliest_order(list(range(12)), likeness, 300, np.random.default_rng(1))
    assert set(order) == set(range(12))
    assert likeness.evaluations < 2000


def test_rouge_l_is_the_f1_of_the_longest_common_subsequence():
    assert rouge_l([1, 2, 3], [1, 2, 3]) == 1.0
    assert rouge_l([1, 3, 2], [1, 2, 3]) == pytest.approx(2 / 3)
    assert rouge_l([1, 2], [1, 9, 2, 8]) == pytest.approx(2 * 2 / 6)
    assert rouge_l([], [1]) == 0.0
