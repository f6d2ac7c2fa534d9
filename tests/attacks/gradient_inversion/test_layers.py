"""Rows of a table of token vectors tell which tokens a text has, exactly, and noise hides them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import nn

from uedp_bench.attacks.gradient_inversion.layers import (
    Layers,
    Place,
    against_the_crowd,
    beyond_noise,
    moved,
    spanned,
)

VOCABULARY, SIZE, WORDS = 60, 8, np.array([3, 7, 11, 40])


def trained(make, steps=4):
    """Rows of a table of inputs before, and by how much some steps change them."""
    torch.manual_seed(0)
    table, head = nn.Embedding(VOCABULARY, SIZE), nn.Linear(SIZE, 3)
    before = table.weight.detach().clone()
    optimizer = make([*table.parameters(), *head.parameters()])
    for step in range(steps):
        optimizer.zero_grad()
        word = torch.tensor([WORDS[step % len(WORDS)]])
        nn.functional.cross_entropy(head(table(word)), torch.tensor([1])).backward()
        optimizer.step()
    return (table.weight.detach() - before).numpy(), before.numpy()


@pytest.mark.parametrize(
    "make",
    [
        lambda weights: torch.optim.SGD(weights, lr=0.1),
        lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
        lambda weights: torch.optim.Adam(weights, lr=0.01),
        lambda weights: torch.optim.SGD(weights, lr=0.1, weight_decay=0.01),
        lambda weights: torch.optim.AdamW(weights, lr=0.01, weight_decay=0.1),
    ],
    ids=["sgd", "momentum", "adam", "weight decay", "adamw"],
)
def test_rows_that_move_are_the_words_whatever_the_optimiser(make):
    rows, before = trained(make)
    assert np.flatnonzero(moved(rows, before)).tolist() == WORDS.tolist()


def test_rounding_to_few_bits_moves_no_row_that_did_not_move():
    rows, before = trained(lambda weights: torch.optim.Adam(weights, lr=0.05))

    def rounded(table):
        step = np.abs(table).max() / 127
        return np.round(table / step) * step

    before[WORDS[0], 0] = 5.0  # the largest number moves, and the steps with it
    start = rounded(before)
    change = rounded(start + rows) - start
    assert len(np.flatnonzero(np.abs(change).max(axis=1))) > len(WORDS)
    assert np.flatnonzero(moved(change, start)).tolist() == WORDS.tolist()


def test_where_every_row_moves_by_itself_nothing_is_exact():
    rows = np.random.default_rng(0).normal(size=(VOCABULARY, SIZE))
    assert moved(rows, rows + 1.0) is None
    assert moved(rows, None) is None


def tied_gradient(rng, words):
    """Rows of a gradient of a table that is the output's too: text that looks `words` up."""
    hidden = rng.normal(size=(len(words), SIZE)) * 0.3 + 1.0
    logits = hidden @ rng.normal(size=(SIZE, VOCABULARY)) * 0.3
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    chances[np.arange(len(words)), words] -= 1.0
    read = np.zeros((VOCABULARY, SIZE))
    read[words] = rng.normal(size=(len(words), SIZE)) * 0.1
    return chances.T @ hidden + read


def test_words_move_against_all_others_in_a_table_that_is_the_outputs_too():
    for seed in range(20):
        rows = -0.3 * tied_gradient(np.random.default_rng(seed), WORDS)
        assert np.flatnonzero(against_the_crowd(rows)).tolist() == WORDS.tolist()


def test_small_noise_hides_no_word_and_large_noise_all():
    rows = tied_gradient(np.random.default_rng(1), WORDS)
    for std, share in ((0.01, 1.0), (30.0, 0.0)):
        noisy = rows + std * np.random.default_rng(2).normal(size=rows.shape)
        visible = beyond_noise(noisy, 0.01) | against_the_crowd(noisy, 0.01)
        assert visible[WORDS].mean() == pytest.approx(share, abs=0.26)


@pytest.mark.parametrize("test", [beyond_noise, against_the_crowd])
def test_noise_alone_is_taken_for_words_as_often_as_is_said(test):
    rate, rows, seeds = 0.02, 500, 20
    wrong = sum(
        int(test(std * np.random.default_rng(seed).normal(size=(rows, 16)), rate).sum())
        for seed, std in enumerate(np.geomspace(1e-4, 1e4, seeds))
    )
    low, high = binom.interval(1 - 1e-6, rows * seeds, rate)
    assert wrong <= high
    if test is beyond_noise:  # the other one is careful: a row is a part of its own crowd
        assert wrong >= 0.8 * low


def test_labels_whose_bias_rises_are_there():
    bias = Place(2, (3,))
    layers = Layers(size=5, embedding=None, tied=False, output=None, bias=bias)
    chances, labels = np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]]), [2, 2]
    gradient = chances.mean(axis=0) - np.bincount(labels, minlength=3) / 2
    update = np.concatenate([np.zeros(2), -0.1 * gradient])
    assert (layers.labels_of(update) > 0).tolist() == [False, False, True]
    assert layers._replace(bias=None).labels_of(update) is None


@pytest.mark.parametrize(("words", "count"), [(1, 1), (20, 20), (29, 0), (60, 0)])
def test_words_of_a_frozen_table_span_what_the_next_layer_learnt(words: int, count: int) -> None:
    """As long as they are fewer than a vector has numbers, with some to spare."""
    rng = np.random.default_rng(0)
    table = rng.uniform(-0.1, 0.1, (5000, 32))
    text = np.zeros(len(table), dtype=bool)
    text[rng.permutation(len(table))[:words]] = True
    before = [rng.normal(0.0, 0.3, (40, 50)).astype(np.float32) for _ in range(2)]
    learnt = []
    for weight in before:
        step = np.zeros((40, 50))
        step[:, :32] = 1e-3 * rng.normal(size=(40, words)) @ table[text]
        after = (weight + step).astype(np.float32)  # messages are differences of float32
        learnt.append((after - weight).astype(np.float64))
    named = spanned(table, learnt, before)
    assert named.sum() == count
    assert not (named & ~text).any()
    noisy = [one + rng.normal(0.0, 1e-4, one.shape) for one in learnt]
    assert not spanned(table, noisy, before).any()
