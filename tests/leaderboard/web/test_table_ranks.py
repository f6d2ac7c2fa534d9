"""Ranks of the table against their definition, on rows that are made up."""

from __future__ import annotations

import numpy as np
import pytest


def intervals():
    """Rows of two sets: intervals that overlap, touch or are points, and rows without one."""
    rng = np.random.default_rng(3)
    rows = []
    for at in range(120):
        low = float(rng.choice([rng.uniform(0, 50), rng.integers(50)]))
        high = low + float(rng.choice([0.0, 1.0, rng.exponential(3.0)]))
        ends = (None, None) if at % 11 == 0 else (low, high)
        rows.append((f"row{at}", at % 2, ends))
    return rows


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_ranks_are_those_of_the_definition(site, visit, better):
    rows = intervals()
    key = {"lower": "utility.perplexity", "higher": "utility.accuracy"}[better]
    ranks = visit(site / "table.html").evaluate(
        "([rows, key]) => [...uedp.ranks(rows, key)]",
        [[{"id": name, "set": board, "values": {key: {"value": 0, "low": low, "high": high}}}
          for name, board, (low, high) in rows], key],
    )  # fmt: skip
    expected = {}
    for name, board, (low, high) in rows:
        if low is None:
            continue
        ends = [e for other, of, e in rows if other != name and of == board and e[0] is not None]
        under, over = sum(e[1] < low for e in ends), sum(e[0] > high for e in ends)
        above, below = (under, over) if better == "lower" else (over, under)
        expected[name] = [above + 1, len(ends) + 1 - below]
    assert dict(ranks) == expected
    assert any(best < worst for best, worst in expected.values())
    assert any(best == worst for best, worst in expected.values())
