"""Checks of noise pass the noise that is stated, and stop what chance does not explain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from uedp_bench.errors import PrivacyError
from uedp_bench.randomness import (
    check_bits,
    check_gamma,
    check_gumbel,
    check_laplace,
    check_normal,
)

DRAWS: dict[str, tuple[Callable[[np.random.Generator, int], Any], Callable[[Any], None]]] = {
    "laplace": (
        lambda rng, n: rng.laplace(size=n),
        lambda x: check_laplace(np.zeros_like(x), x, 1.0, ""),
    ),
    "normal": (
        lambda rng, n: rng.normal(size=n),
        lambda x: check_normal(np.zeros_like(x), x, 1.0, ""),
    ),
    "gumbel": (lambda rng, n: rng.gumbel(size=n), lambda x: check_gumbel(x, "")),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("count", [1, 2, 30, 1000, 200_000])
def test_stated_noise_passes_whatever_its_size(kind: str, count: int) -> None:
    draw, check = DRAWS[kind]
    for seed in range(max(2, 3000 // count)):
        check(draw(np.random.default_rng(seed), count))


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize(("factor", "count"), [(0.0, 400), (0.5, 20_000), (0.9, 10**6)])
def test_less_noise_than_stated_is_refused(kind: str, factor: float, count: int) -> None:
    draw, check = DRAWS[kind]
    with pytest.raises(PrivacyError):
        check(factor * draw(np.random.default_rng(1), count))


@pytest.mark.parametrize("kind", ["laplace", "normal"])
@pytest.mark.parametrize("number", [0.0, np.nan, np.inf])
def test_one_number_without_noise_is_refused(kind: str, number: float) -> None:
    with pytest.raises(PrivacyError):
        DRAWS[kind][1](np.array([number]))


def test_noise_below_rounding_is_not_measured() -> None:
    values = np.full(1000, 1e9)
    check_laplace(values, values, 1e-12, "")
    with pytest.raises(PrivacyError):
        check_laplace(values, values, 1e-3, "")


def test_no_noise_and_no_numbers_pass() -> None:
    check_normal(np.ones(3), np.ones(3), 0.0, "")
    check_laplace(np.ones((2, 2)), np.ones((2, 2)), np.zeros((2, 2)), "")
    check_gamma(0.0, 0, "")
    check_bits(np.zeros(0, dtype=np.uint8), "")


def test_the_rate_of_false_alarms_is_that_of_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a tail of e^-3 chance alone is refused in no more than both tails of the runs."""
    monkeypatch.setattr("uedp_bench.randomness._NATS", 3.0)
    refused = 0
    for seed in range(2000):
        try:
            check_laplace(np.zeros(5), np.random.default_rng(seed).laplace(size=5), 1.0, "")
        except PrivacyError:
            refused += 1
    assert 0 < refused <= 2000 * 2 * np.exp(-3.0)


@pytest.mark.parametrize("content", [np.zeros(64), np.full(64, 255), np.full(4096, 1)])
def test_bytes_of_few_or_many_set_bits_are_refused(content: Any) -> None:
    with pytest.raises(PrivacyError):
        check_bits(content.astype(np.uint8), "")
    for size in (1, 8, 64, 4096):
        check_bits(np.frombuffer(np.random.default_rng(size).bytes(size), dtype=np.uint8), "")
