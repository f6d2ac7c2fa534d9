"""Limits of any classifier's accuracy through DPNR's noise, beside the published accuracies.

The first table sets the limit (`accounting/accuracy_limits.py`) beside Table 2 of Lyu, He and Li
2020: k = 768 coordinates in [0, 1], Laplace noise of scale 1/epsilon on each. The second gives the
limit for two equally frequent classes at a proven total epsilon, by number of coordinates.

    python benchmarks/dpnr_limit.py [--dimension 768] [--json]
"""

from __future__ import annotations

import argparse
import json

from uedp_bench.bounds.accuracy_limits import accuracy_limit, at_most, two_class_limit

EPSILONS = (0.05, 0.1, 0.5, 1.0, 5.0)

SHARES = {
    # Trustpilot US and blogs: the paper prints the largest share alone (Table 4, majority).
    "tp-us": at_most(0.7940),
    # AG: classes of the authors' own file, all splits.
    "ag": tuple(count / 14571 for count in (8446, 5412, 607, 106)),
    "blog": at_most(0.3416),
}

PRINTED = {
    "tp-us": (85.65, 85.52, 85.52, 85.36, 85.87),
    "ag": (80.87, 80.78, 79.71, 79.36, 79.59),
    "blog": (96.69, 96.39, 96.84, 96.39, 96.66),
}
"""Table 2: accuracy in percent by epsilon, word dropout 0."""

TEST_ROWS = {"tp-us": 2767, "ag": 1457, "blog": 887}

TOTALS = (1.0, 2.0, 4.0, 8.0, 16.0, 38.4, 100.0)
DIMENSIONS = (2, 16, 128, 384, 768)


def printed_and_possible(dimension: int) -> list[dict[str, object]]:
    """A row for each set and epsilon; accuracies in percent."""
    return [
        {
            "set": name,
            "epsilon": epsilon,
            "printed": printed,
            "limit": 100 * accuracy_limit(dimension, 1.0 / epsilon, SHARES[name]),
            "majority": 100 * max(SHARES[name]),
            "test_rows": TEST_ROWS[name],
        }
        for name, accuracies in PRINTED.items()
        for epsilon, printed in zip(EPSILONS, accuracies, strict=True)
    ]


def limits_at_totals() -> list[dict[str, object]]:
    """A row for each proven total; accuracies in percent by number of coordinates."""
    return [
        {"total": total} | {f"k={k}": 100 * two_class_limit(k, k / total, 0.5) for k in DIMENSIONS}
        for total in TOTALS
    ]


def show(rows: list[dict[str, object]]) -> None:
    """Print a table."""
    print(" ".join(f"{name:>9}" for name in rows[0]))
    for row in rows:
        print(
            " ".join(
                f"{cell:>9.2f}" if isinstance(cell, float) else f"{cell:>9}"
                for cell in row.values()
            )
        )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dimension", type=int, default=768)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    first, second = printed_and_possible(arguments.dimension), limits_at_totals()
    if arguments.json:
        print(json.dumps({"table_2": first, "totals": second}))
        return
    show(first)
    print()
    show(second)


if __name__ == "__main__":
    main()
