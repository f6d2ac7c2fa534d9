"""Which tokens are hidden: by the seed of a row alone, anew at every visit, in fixed shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uedp_bench.tasks.masked_language.masks import hidden_counts, hide, uniforms
from uedp_bench.tasks.tokens.rows import IGNORED


@dataclass
class Known:
    """A vocabulary of 50 ids, whose first five are special."""

    size: int = 50
    mask: int = 4
    special: tuple[int, ...] = (0, 1, 2, 3, 4)


def rows_of(lengths, width=None):
    rng = np.random.default_rng(3)
    width = width or max(lengths)
    tokens = np.full((len(lengths), width), 3)
    for row, length in enumerate(lengths):
        tokens[row, :length] = [2, *rng.integers(5, 50, length - 2), 3]
    return tokens, np.array(lengths)


def test_masks_differ_between_visits_and_not_between_batches():
    tokens, lengths = rows_of([30, 12, 22, 30])
    seeds = np.array([7, 7, 2**62 + 5, 8])
    whole = hide(tokens, lengths, seeds, 0.15, Known())
    for order in ([2], [3, 0], [1, 2, 0, 3]):
        cut = lengths[order].max()
        some = hide(tokens[order, :cut], lengths[order], seeds[order], 0.15, Known())
        for at, row in enumerate(order):
            n = hidden_counts(lengths[row : row + 1] - 2, 0.15)[0]
            np.testing.assert_array_equal(some.tokens[at], whole.tokens[row, :cut])
            np.testing.assert_array_equal(some.places[at, :n], whole.places[row, :n])
            np.testing.assert_array_equal(some.targets[at, :n], whole.targets[row, :n])
            assert (some.targets[at, n:] == IGNORED).all()
    again = hide(tokens, lengths, seeds + 1, 0.15, Known())
    for row in range(4):
        assert {*again.places[row].tolist()} != {*whole.places[row].tolist()}


def test_shares_of_hidden_tokens_are_those_of_the_paper():
    tokens, lengths = rows_of([42] * 5_000)
    seeds = np.random.default_rng(0).integers(2**63 - 1, size=5_000)
    hidden_rows = hide(tokens, lengths, seeds, 0.15, Known())
    assert hidden_rows.places.shape == (5_000, 6)
    assert all(len({*row}) == 6 for row in hidden_rows.places.tolist())
    shown = np.take_along_axis(hidden_rows.tokens, hidden_rows.places, axis=1)
    np.testing.assert_array_equal(
        hidden_rows.targets, np.take_along_axis(tokens, hidden_rows.places, axis=1)
    )
    masked, kept = (shown == 4).mean(), (shown == hidden_rows.targets).mean()
    assert abs(masked - 0.8) < 4 * (0.8 * 0.2 / shown.size) ** 0.5
    share = 0.1 + 0.1 / 45  # a drawn token is the same one now and then
    assert abs(kept - share) < 4 * (share * (1 - share) / shown.size) ** 0.5
    drawn = shown[(shown != 4) & (shown != hidden_rows.targets)]
    counts = np.bincount(drawn, minlength=50)
    assert not counts[:5].any()
    assert np.ptp(counts[5:]) < 8 * counts[5:].mean() ** 0.5
    where = np.bincount(hidden_rows.places.ravel(), minlength=42)
    assert where[0] == where[41] == 0
    expected = hidden_rows.places.size / 40
    assert np.abs(where[1:41] - expected).max() < 4.5 * expected**0.5
    untouched = np.ones_like(tokens, dtype=bool)
    np.put_along_axis(untouched, hidden_rows.places, False, axis=1)
    np.testing.assert_array_equal(hidden_rows.tokens[untouched], tokens[untouched])


def test_a_short_row_hides_one_token_and_an_empty_one_none():
    assert hidden_counts(np.array([0, 1, 2, 10, 40]), 0.15).tolist() == [0, 1, 1, 2, 6]
    tokens, lengths = rows_of([2, 3])
    masked = hide(tokens, lengths, np.arange(2), 0.15, Known())
    assert masked.targets.tolist() == [[IGNORED], [tokens[1, 1]]]
    only = hide(tokens[:1, :2], lengths[:1], np.zeros(1, dtype=np.int64), 0.15, Known())
    assert only.targets.tolist() == [[IGNORED]]


def test_numbers_are_uniform_and_their_own_for_each_purpose():
    numbers = np.stack([uniforms(np.arange(400), what, 200) for what in (0, 1)])
    assert (numbers >= 0).all() and (numbers < 1).all()
    counts = np.histogram(numbers, 20, (0, 1))[0]
    assert np.abs(counts - counts.mean()).max() < 4.5 * counts.mean() ** 0.5
    for one, other in ((numbers[0], numbers[1]), (numbers[0, 1:], numbers[0, :-1]),
                       (numbers[0, :, 1:], numbers[0, :, :-1])):  # fmt: skip
        correlation = np.corrcoef(one.ravel(), other.ravel())[0, 1]
        assert abs(correlation) < 4.5 / one.size**0.5
