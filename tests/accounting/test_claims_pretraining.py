"""The numbers of docs/claims.md on private pre-training are what the code gives."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from uedp_bench.accounting.accountants.dp_accounting import rdp_epsilon, tf_privacy_epsilon
from uedp_bench.accounting.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
from uedp_bench.accounting.ledger import proven

EXAMPLES, DELTA = 83_000_000, 1e-8
PAGE = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
SECTION = " ".join(PAGE.split("## Private pre-training")[1].split())
ROWS = [
    [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith(("| 131,072", "| 262,144"))
]


def least(noise: str) -> float:
    """The next smaller number of as many digits."""
    step = 10.0 ** (math.floor(math.log10(float(noise))) - 2)
    return float(noise) - step


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(row[:4]))
def test_noise_that_the_printed_epsilons_need(row: list[str]) -> None:
    batch, updates, passes, epsilon, noise, noise_then, coins, once, once_proven = row
    rate, count, target = int(batch) / EXAMPLES, int(updates), float(epsilon)
    assert f"{count * rate:.1f}" == passes

    def sampled(z: float) -> PoissonSampled:
        return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=z))

    def today(z: float) -> float:
        return rdp_epsilon([(sampled(z), count)], "add-or-remove", DELTA)

    # The first z that meets the target lies within half a last digit of the printed one.
    for accountant, printed in ((today, noise), (then(sampled, count), noise_then)):
        half = (float(printed) - least(printed)) / 2
        assert accountant(float(printed) + half) <= target < accountant(float(printed) - half)
    z = float(noise)
    assert f"{proven_epsilon(Repeated(count=count, event=sampled(z))):.4g}" == coins
    unsampled, times = Gaussian(noise_multiplier=z), math.ceil(count * rate)
    assert f"{rdp_epsilon([(unsampled, times)], 'add-or-remove', DELTA):.4g}" == once
    assert f"{proven_epsilon(Repeated(count=times, event=unsampled)):.4g}" == once_proven


def then(sampled, count):  # type: ignore[no-untyped-def]
    return lambda z: tf_privacy_epsilon(sampled(z), count, DELTA)


def proven_epsilon(event: Repeated) -> float:
    return proven([PrivacyEvent(unit="record", event=event)], delta=DELTA)[0].epsilon


def test_arithmetic_of_batches() -> None:
    assert len(ROWS) == 6
    assert 256 * 32 * 32 == 262_144
    assert 256 * 32 * 16 == 131_072
    assert round(1_000_000 * 131_072 / EXAMPLES) == 1_579
    assert 62_500 * 131_072 == 31_250 * 262_144 == 1_000_000 * 8_192
    assert f"{712e6 / EXAMPLES:.1f}" == "8.6"
    assert round(EXAMPLES / 38_597, -1) == 2_150
    numbers = "262,144", "131,072", "1,579 passes", "98.7", "8.6 words", "2,150 examples"
    assert all(number in SECTION for number in numbers)
