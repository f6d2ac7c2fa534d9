"""Tables in Markdown, and means over seeds, for the scripts that print pages of docs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from uedp_bench.statistics.intervals import seed_estimate


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a table in Markdown and an empty line; all columns but the first are numbers."""
    print(f"| {' | '.join(head)} |")
    print(f"|{' :-- |'}{' --: |' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def mean_of(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % interval (Student's t); NaN where there are too few."""
    if not values:
        return math.nan, math.nan
    found = seed_estimate(values)
    return found.value, math.nan if found.high is None else found.high - found.value


def shown(values: Sequence[float], digits: int = 2) -> str:
    """The mean and half of its interval, if it has one, with so many digits after the point."""
    mean, half = mean_of(values)
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if math.isnan(half) else f" ±{half:.{digits}f}")
