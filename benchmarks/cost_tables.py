"""Tables in Markdown and their numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rows(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its first column to the left."""
    marks = [":--", *["--:"] * (len(head) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, marks, *lines))


def sig(value: float, digits: int = 2) -> str:
    """A number of so many digits, without an exponent."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    places = max(digits - 1 - int(np.floor(np.log10(abs(rounded)))), 0)
    return f"{rounded:,.{places}f}"


def between(low: float, high: float, digits: int = 2) -> str:
    """Two numbers of so many digits."""
    return f"{sig(low, digits)} to {sig(high, digits)}"
