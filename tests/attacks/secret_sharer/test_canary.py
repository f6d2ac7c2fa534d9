"""The worst decile of canaries: what chance gives, and what stored results may say of it."""

from __future__ import annotations

import pytest

from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.attacks.secret_sharer.canary import contradictions
from uedp_bench.contracts.results import Estimate
from uedp_bench.statistics.exposure import NULL_MEAN


@pytest.mark.parametrize(("count", "most"), [(10, 4.3), (19, 5.12), (25, 4.79), (1000, 4.77)])
def test_worst_deciles_of_chance_are_near_their_value_of_no_leak(count: int, most: float) -> None:
    tail = count // 10
    harmonic = sum(1.0 / at for at in range(tail + 1, count + 1))
    (no_leak,) = (m.no_leak for m in SecretSharer.metrics if m.name == "exposure_worst_decile")
    assert NULL_MEAN * (1.0 + harmonic) == pytest.approx(no_leak, rel=0.12)
    assert NULL_MEAN * (1.0 + harmonic) <= most


def test_worst_deciles_of_few_canaries_are_contradictions() -> None:
    canaries = [{"kind": "word", "rank": 1, "exposure": 8.0}] * 9
    metrics = {"exposure_worst_decile": Estimate(value=8.0)}
    places = [place for place, _ in contradictions(metrics, {"canaries": canaries})]
    assert places == ["leakage.exposure_worst_decile"]
