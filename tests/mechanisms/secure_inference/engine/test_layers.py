"""Arithmetic modulo 2^64 against Python's integers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from two_parties import HIGHEST, LOWEST, anything

from uedp_bench.mechanisms.secure_inference.engine import layers
from uedp_bench.mechanisms.secure_inference.engine.layers import convolve, decode, encode, product

EXTREMES = [0, 1, -1, 2**21, -(2**21), 2**43 - 1, 2**62, -(2**62), HIGHEST, LOWEST]
elements = st.one_of(st.sampled_from(EXTREMES), st.integers(LOWEST, HIGHEST))


def wrapped(number: int) -> int:
    return (number - LOWEST) % 2**64 + LOWEST


def exact(left: list[list[int]], right: list[list[int]]) -> list[list[int]]:
    columns = list(zip(*right, strict=True))
    return [
        [wrapped(sum(a * b for a, b in zip(row, column, strict=True))) for column in columns]
        for row in left
    ]


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_products_are_those_of_integers(data, rows, inner, columns):
    left = data.draw(st.lists(st.lists(elements, min_size=inner, max_size=inner),
                              min_size=rows, max_size=rows))  # fmt: skip
    right = data.draw(st.lists(st.lists(elements, min_size=columns, max_size=columns),
                               min_size=inner, max_size=inner))  # fmt: skip
    assert product(torch.tensor(left), torch.tensor(right)).tolist() == exact(left, right)


@pytest.mark.parametrize("worst", [LOWEST, HIGHEST, -(2**21) * (1 + 2**22)])
def test_the_longest_sums_of_the_largest_limbs_are_exact(worst):
    inner = 2 * layers._LONGEST + 3
    left = torch.full((2, inner), worst)
    right = torch.full((inner, 1), worst)
    assert product(left, right).tolist() == exact(left.tolist(), right.tolist())


def test_both_ways_to_convolve_are_the_definition(monkeypatch):
    inputs, weights = anything(3, 2, 9, seed=1), anything(4, 2, 3, seed=2)
    outputs = convolve(inputs, weights)
    x, w = inputs.tolist(), weights.tolist()
    assert outputs.tolist() == [
        [[wrapped(sum(w[o][c][t] * row[c][at + t] for c in range(2) for t in range(3)))
          for at in range(7)] for o in range(4)]
        for row in x
    ]  # fmt: skip
    monkeypatch.setattr(layers, "_FEWEST_TAPS", 0)
    assert torch.equal(convolve(inputs, weights), outputs)


def test_real_values_are_rounded_to_a_unit():
    values = torch.tensor([0.0, 1.0, -1.0, 1 / 3, 8191.999, -(2.0**20) - 0.7])
    assert (decode(encode(values)) - values.double()).abs().max() <= 2.0**-17
