"""Gap between theorem B and known data sets: the table of docs/proofs.md, section 5.

    python benchmarks/theorem_b_gap.py

At the noise that theorem B needs for epsilon 8 at delta 1e-5, the largest epsilon of any of a
family of neighbouring data sets: other users' updates go from `after - rho` to `after`, for many
values of `after`, and the protected user's from 0 to 1.
"""

from __future__ import annotations

import numpy as np

from uedp_bench.accounting.events import Protected, TwoLevelUserEntityGaussian
from uedp_bench.accounting.noise_search import group_noise
from uedp_bench.bounds.attained import epsilon_attained, two_level_laws

DELTA, TARGET, ROUNDS = 1e-5, 8.0, 60
ROWS = ((1, 0.1, 1 / 6), (3, 0.1, 1 / 6), (10, 0.1, 1 / 6), (3, 0.1, 0.5), (3, 0.1, 1.0))
"""Other users k, rate q, and how far their updates move, rho."""


def largest(spread: int, rate: float, moves: float, noise: float) -> tuple[float, float]:
    """The largest epsilon of the family, and where others' updates are then."""
    candidates = []
    for after in np.linspace(moves - 1.0, 1.0, 9):
        present, absent = two_level_laws(spread, rate, moves, float(after))
        for upper, lower in ((present, absent), (absent, present)):
            candidates.append((epsilon_attained(upper, lower, noise, ROUNDS, DELTA), float(after)))
    return max(candidates)


def main() -> None:
    """Print the table."""
    print("| other users k | rate q | rho | noise | proven | attained | where others send |")
    print("|---|---|---|---|---|---|---|")
    for spread, rate, moves in ROWS:
        event = TwoLevelUserEntityGaussian(
            rate=rate, noise_multiplier=0.0, users=spread + 1, sentence_bound=moves
        )
        noise = group_noise(event, ROUNDS, Protected(spread=spread), (TARGET, DELTA))
        epsilon, after = largest(spread, rate, moves, noise)
        print(f"| {spread} | {rate} | {moves:.3g} | {noise:.4f} | {TARGET:g} | {epsilon:.2f} | "
              f"{after - moves:.3g} to {after:.3g} |")  # fmt: skip


if __name__ == "__main__":
    main()
