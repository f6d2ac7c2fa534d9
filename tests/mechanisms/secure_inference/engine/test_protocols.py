"""Each protocol on shares against the same function of plain integers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from two_parties import HIGHEST, LOWEST, anything, both, computed

from uedp_bench.mechanisms.secure_inference.engine import FRACTION
from uedp_bench.mechanisms.secure_inference.engine.layers import sigmoid
from uedp_bench.mechanisms.secure_inference.engine.protocol import Party

EXTREMES = [0, 1, -1, 2, -2, 2**31, -(2**31), 2**62, -(2**62), 2**62 - 1, HIGHEST, LOWEST]
NARROW = [0, 1, -1, 2**30, -(2**30), 2**31 - 1, -(2**31)]
SEEDS = st.integers(0, 2**32)


def a_few(limit: int = HIGHEST, some: list[int] = EXTREMES) -> st.SearchStrategy[torch.Tensor]:
    kept = [x for x in some if -limit <= x <= limit]
    numbers = st.one_of(st.sampled_from(kept), st.integers(-limit, limit))
    return st.lists(numbers, min_size=1, max_size=19).map(torch.tensor)


@settings(max_examples=30, deadline=None)
@given(a_few(), SEEDS)
def test_signs_are_those_of_integers(x, seed):
    assert computed(Party.negative, x, seed=seed).tolist() == (x < 0).long().tolist()


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1003])
def test_signs_of_any_number_of_integers(width, count):
    x = anything(count) >> (64 - width)
    x[: len(NARROW)] = torch.tensor(NARROW)[:count]
    assert torch.equal(computed(Party.negative, x, width=width), (x < 0).long())


def test_a_number_is_not_below_itself():
    x = torch.tensor(EXTREMES)
    for seed in range(20):
        assert not computed(lambda party, x: party.negative(x - x), x, seed=seed).any()


def test_all_sums_of_a_carry_are_right():
    """Every pair of a share's top bytes, all carries that they generate and pass on."""
    top = torch.arange(256) << 56
    ours, theirs = (x.flatten() for x in torch.meshgrid(top, top, indexing="ij"))

    def compare(party, zero):
        return (yield from party.negative(ours if party.leads else theirs))

    carries = computed(compare, torch.zeros(1, dtype=torch.int64))
    assert torch.equal(carries, (ours + theirs < 0).long())


@settings(max_examples=20, deadline=None)
@given(st.data(), SEEDS)
def test_products_wrap(data, seed):
    x = data.draw(a_few())
    y = anything(len(x), seed=seed % 1000)
    assert torch.equal(computed(Party.mul, x, y, seed=seed), x * y)


@settings(max_examples=20, deadline=None)
@given(a_few(2**62 - 1), SEEDS)
def test_truncation_with_help_is_off_by_a_unit_at_most(x, seed):
    for places in (1, FRACTION, 22):

        def truncate(party, x, places=places):
            return (yield from party.truncate(x, places))

        shifted = computed(truncate, x, seed=seed)
        assert set((shifted - (x >> places)).tolist()) <= {0, 1}


def test_the_opened_value_is_the_coin_of_a_truncation():
    """Rounding up is decided by the low bits that both parties see, and by nothing else."""
    x, opened = anything(500) >> 2, []
    shifted = computed(Party.truncate, x, opened=opened)
    coin = opened[-1] & (2**FRACTION - 1)
    assert torch.equal(shifted - (x >> FRACTION), (coin < x & (2**FRACTION - 1)).long())


def test_truncation_with_help_rounds_by_what_is_left_over():
    """The mean is right: a fraction is rounded up as often as it is large."""
    x = torch.full((40_000,), (5 << FRACTION) + 2 ** (FRACTION - 2))
    shifted = computed(Party.truncate, x)
    assert (shifted == 6).double().mean().item() == pytest.approx(0.25, abs=0.015)


def test_each_party_alone_truncates_to_a_unit():
    x = anything(20_000) >> 22
    x[:5] = torch.tensor([0, 1, -1, 2**41, -(2**41)])
    shifted = computed(Party.truncate, x, truncation="local")
    assert set((shifted - (x >> FRACTION)).tolist()) <= {0, 1}


@pytest.mark.parametrize("x", [2**62, -(2**62), 2**60])
def test_each_party_alone_fails_as_often_as_stated(x):
    """At 2^30 with 32 bits behind the point: a quarter, where the bound says a half."""
    shifted = computed(Party.truncate, torch.full((20_000,), x), truncation="local")
    failed = ((shifted - (x >> FRACTION)).abs() > 1).double().mean().item()
    real = abs(x) / 2**32
    assert failed == pytest.approx(abs(x) / 2**64, abs=0.02)
    assert failed <= 2.0 ** (2 * FRACTION + 1 - 64) * real


@pytest.mark.parametrize("entries", range(1, 8))
def test_maxima_of_any_number_of_entries(entries):
    x = anything(entries, 3, 5) >> 2
    x[0, 0] = x[-1, 0]
    assert torch.equal(computed(Party.maximum, x), x.amax(0))


def test_near_ties():
    x = torch.tensor([[5, 5, 2**61, -1, 0], [6, 4, 2**61 - 1, 0, 0]])
    assert torch.equal(computed(Party.maximum, x), x.amax(0))
    assert torch.equal(computed(Party.relu, x[1] - x[0]), (x[1] - x[0]).relu())


@pytest.mark.parametrize("classes", range(1, 7))
def test_the_first_of_equal_maxima(classes):
    x = torch.cartesian_prod(*[torch.tensor([-1, 0, 1])] * min(classes, 5)).reshape(
        -1, min(classes, 5)
    )
    if classes == 6:
        x = torch.cat([x, x[:, :1]], 1)
    assert torch.equal(computed(Party.arg_max, x), x.argmax(1))


@pytest.mark.parametrize("truncation", ["local", "dealer"])
def test_sigmoid_is_close(truncation):
    real = torch.linspace(-30, 30, 601)
    sigmoids = computed(sigmoid, (real * 2**FRACTION).long(), truncation=truncation)
    off = sigmoids / 2**FRACTION - real.sigmoid()
    assert off.abs().max() <= 1e-3


def test_bits_choose_each_of_several_numbers():
    x = anything(2, 11)

    def choose(party, x):
        bits = yield from party.negative(x[0])
        return (yield from party.choose(bits, x))

    assert torch.equal(computed(choose, x), x * (x[0] < 0))


@pytest.mark.parametrize(("width", "rounds"), [(32, 6), (64, 7)])
def test_a_comparison_takes_seven_rounds(width, rounds):
    *_, meter = both(Party.negative, torch.zeros(24, dtype=torch.int64), width=width)
    assert meter.rounds == rounds
    assert meter.server == meter.client == 24 * (width - 1) // 2
