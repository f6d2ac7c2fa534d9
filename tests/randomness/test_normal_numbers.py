"""Numbers of the operating system's keys: their law, their ends, and that no seed makes them."""

from __future__ import annotations

import os

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

from uedp_bench.accounting.sampler_end_delta import GAUSSIAN_END
from uedp_bench.randomness import KeyedGenerator, Keystream, Stream, normal_numbers
from uedp_bench.training.noise import GaussianNoise

KEY = bytes(range(32))
ONES = 2**64 - 1
N = 200_000


def numbers(*words: int) -> np.ndarray:
    return normal_numbers(np.array(words, dtype=np.uint64))


def exact(first: int, second: int) -> float:
    """The quantile of a number's own 127 bits, in arithmetic of 60 digits."""
    with mpmath.workdps(60):
        half = first if first < 2**63 else ONES - first
        beyond = (half + (second + mpmath.mpf(0.5)) / 2**64) / mpmath.mpf(2) ** 64
        normal = float(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * beyond))
    return normal if first < 2**63 else -normal


def test_the_keystream_is_that_of_the_standard() -> None:
    """NIST SP 800-38A, F.5.5: AES-256 in counter mode, its first output block."""
    key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
    counter = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
    stream = Keystream(bytes.fromhex(key), counter).bytes(16)
    assert stream.tobytes().hex() == "0bdf7df1591716335e9a8b15c860c502"
    long = Keystream(KEY).bytes(2**19)
    assert np.array_equal(Keystream(KEY, 2**14).bytes(100), long[2**18 : 2**18 + 100])


@pytest.mark.parametrize("second", [0, 2**40 + 12345, ONES])
@pytest.mark.parametrize("first", [0, 1, 7, 2**30, 2**52 + 1, 2**61, 2**62 + 2**40])
def test_a_number_is_the_quantile_of_its_words(first: int, second: int) -> None:
    up, down = numbers(first, second, ONES - first, second)
    # Near the middle the quantile is a difference: what it loses is 2^-53 of one.
    assert up == pytest.approx(exact(first, second), rel=1e-14, abs=1e-15)
    assert down == -up


def test_numbers_end_no_nearer_than_the_accountant_takes_them_to() -> None:
    ends = numbers(0, 0, ONES, 0)
    assert ends.tolist() == sorted(ends, reverse=True)
    assert (np.abs(ends) > GAUSSIAN_END).all()
    assert ends[0] == -ends[1] == pytest.approx(13.1, abs=0.01)
    # The first word alone would end at 9.16, and there the second tells numbers apart.
    steps = numbers(*(word for k in range(64) for word in (0, 1 << k)))
    assert (np.diff(steps) < 0).all()
    assert numbers(2**63 - 1, ONES, 2**63, ONES).tolist() == [0.0, 0.0]


def test_the_law_is_normal_far_out_as_well() -> None:
    words = np.random.default_rng(0).integers(ONES, size=2 * N, dtype=np.uint64, endpoint=True)
    drawn = normal_numbers(words)
    assert stats.kstest(drawn, "norm").pvalue > 1e-4
    # Standard errors of the first four moments are 1, sqrt(2), sqrt(15), sqrt(96) over sqrt(N).
    errors = np.sqrt(np.array([1.0, 2.0, 15.0, 96.0]) / N)
    moments = np.array([np.mean(drawn**power) for power in (1, 2, 3, 4)])
    assert (np.abs(moments - [0, 1, 0, 3]) < 5 * errors).all()
    # Given that a number lies beyond its 2^-bits, what lies beyond it is uniform below that.
    for bits in (12, 30, 63):
        keep = np.uint64(2 ** (63 - bits) - 1)
        far = words.copy()
        far[0::2] &= keep
        far[0:N:2] ^= np.uint64(ONES)  # the first half is negative
        normals = normal_numbers(far)
        assert (normals[: N // 2] < 0).all()
        share = stats.norm.sf(np.abs(normals)) * 2.0 ** (bits + 1)
        assert stats.kstest(share, "uniform").pvalue > 1e-4


def test_numbers_are_independent_of_those_beside_them_and_of_other_streams() -> None:
    root = Stream(KEY, "os")
    one, other = (root.rng("noise", name).standard_normal(N) for name in (1, 2))
    for x, y in ((one[:-1], one[1:]), (one[0::2], one[1::2]), (one, other)):
        for power in (1, 2):  # neither they nor their sizes go together
            assert abs(np.corrcoef(x**power, y**power)[0, 1]) < 5 / np.sqrt(len(x))
        cells, *_ = np.histogram2d(stats.norm.cdf(x), stats.norm.cdf(y), bins=16)
        assert stats.chisquare(cells.ravel()).pvalue > 1e-4
    assert abs(np.corrcoef(np.sign(one), np.abs(one))[0, 1]) < 5 / np.sqrt(N)


def test_an_array_is_the_same_in_parts_and_after_it_was_gone_back_to() -> None:
    whole = KeyedGenerator(KEY).standard_normal((5, 4_001)).reshape(-1)
    rng = KeyedGenerator(KEY)
    parts = [rng.standard_normal(size) for size in (1, 0, 8_192, 3)]
    state = rng.bit_generator.state
    parts.append(rng.standard_normal(len(whole) - 8_196))
    assert np.array_equal(np.concatenate(parts), whole)
    assert len(np.unique(whole)) == len(whole)
    fresh = KeyedGenerator(KEY)
    fresh.bit_generator.state = state
    assert np.array_equal(fresh.standard_normal(100), whole[8_196:8_296])


def test_arrays_and_single_numbers_take_turns_in_one_stream() -> None:
    together = KeyedGenerator(KEY)
    singles = [together.random() for _ in range(3)]
    array = together.random(2_000)
    singles.append(together.random())
    alone = KeyedGenerator(KEY)
    each = [alone.random() for _ in range(2_004)]  # by NumPy's own sampler
    assert [*singles[:3], *array, singles[3]] == each
    assert together.bit_generator.state == {"drawn": 2_004}


def test_noise_of_the_operating_system_follows_from_its_bytes_and_from_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def noise() -> torch.Tensor:
        rng = Stream.root(1, "scope", "os").rng("noise")
        return GaussianNoise().add(torch.zeros(20_000), 2.0, rng)

    one, other = noise(), noise()
    assert float(one.std()) == pytest.approx(2.0, rel=0.03)
    assert not (one == other).any()
    assert abs(float(torch.corrcoef(torch.stack([one, other]))[0, 1])) < 0.04
    requests = []

    def pseudo_random(count: int) -> bytes:
        requests.append(count)
        return bytes(count)

    monkeypatch.setattr(os, "urandom", pseudo_random)
    assert torch.equal(noise(), noise())
    assert requests == [32, 32]
