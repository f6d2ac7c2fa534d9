"""Limits of any classifier's accuracy through DPNR's noise, beside the published accuracies.

The first table sets the limit (`uedp_bench/bounds/accuracy_limits.py`) beside Table 2 of Lyu, He
and Li 2020: k = 768 coordinates in [0, 1], Laplace noise of scale 1/epsilon on each. The second
gives the limit for two equally frequent classes at a proven total epsilon, by number of
coordinates. Accuracies are in percent.

    python benchmarks/dpnr_limit.py
"""

from __future__ import annotations

from uedp_bench.bounds.accuracy_limits import accuracy_limit, at_most, two_class_limit

SHARES = {
    # Trustpilot US and blogs: the paper prints the largest share alone (Table 4, majority).
    "tp-us": at_most(0.7940),
    # AG: classes of the authors' own file, all splits.
    "ag": tuple(count / 14571 for count in (8446, 5412, 607, 106)),
    "blog": at_most(0.3416),
}
PRINTED = {0.05: (85.65, 80.87, 96.69), 0.1: (85.52, 80.78, 96.39)}
"""Table 2: accuracy of the three sets by epsilon, word dropout 0."""

TEST_ROWS = (2767, 1457, 887)
TOTALS = (4.0, 8.0, 16.0, 38.4)
DIMENSIONS = (2, 16, 128, 384, 768)


def main() -> None:
    """Print both tables, and by how many standard errors an accuracy exceeds its limit."""
    print(f"| ε | {' | '.join(f'{name} printed | limit' for name in SHARES)} |")
    print("|---|" + "---|---|" * len(SHARES))
    excesses = []
    for epsilon, accuracies in PRINTED.items():
        limits = [100 * accuracy_limit(768, 1.0 / epsilon, shares) for shares in SHARES.values()]
        pairs = list(zip(accuracies, limits, strict=True))
        print(f"| {epsilon} | {' | '.join(f'{a} | {limit:.2f}' for a, limit in pairs)} |")
        for name, (accuracy, limit), rows in zip(SHARES, pairs, TEST_ROWS, strict=True):
            error = (accuracy * (100 - accuracy) / rows) ** 0.5
            if accuracy > limit:
                excesses.append(f"{name} at {epsilon}: {(accuracy - limit) / error:.1f}")
    print(f"\nstandard errors above the limit: {', '.join(excesses)}\n")
    print(f"| total ε | {' | '.join(f'k = {k}' for k in DIMENSIONS)} |")
    print("|---|" + "---|" * len(DIMENSIONS))
    for total in TOTALS:
        cells = [f"{100 * two_class_limit(k, k / total, 0.5):.1f}" for k in DIMENSIONS]
        print(f"| {total:g} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
