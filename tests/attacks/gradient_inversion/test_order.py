"""The order of a short text is the one whose own update looks like the update that was seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from uedp_bench.attacks.gradient_inversion.short_rows import (
    ShortRows,
    likeliest_order,
    rouge_l,
)


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


@pytest.mark.parametrize("rows", [1, 30])
def test_orders_that_know_nothing_are_as_close_as_their_floor(rows):
    rng = np.random.default_rng(1)
    short = ShortRows(None, None, 9, 9, 9, "cpu", np.random.default_rng(2))
    for _ in range(300):
        order = rng.permutation(8)[:6]
        short._score(tuple(order.tolist()), list(rng.integers(8, size=(rows, 6))))
    metrics = short.metrics(rng)
    like, floor = metrics["rows_rouge_l"], metrics["rows_rouge_l_random"].value
    assert like.low < floor < like.high
