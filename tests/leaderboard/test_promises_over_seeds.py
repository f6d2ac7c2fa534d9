"""The worst promise of several seeds is the promise of their row."""

from __future__ import annotations

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.promises_over_seeds import worst_guarantees


def test_over_seeds_the_largest_failure_of_a_simulation_counts():
    simulated = [
        Guarantee(kind="proven", notion="simulation", unit="computation", epsilon=0.0,
                  adjacency="replace-one", delta=delta, accountant="simulation")
        for delta in (1e-9, 1e-6, 1e-8)
    ]  # fmt: skip
    (kept,) = worst_guarantees([[one] for one in simulated])
    assert (kept.epsilon, kept.delta) == (0.0, 1e-6)
