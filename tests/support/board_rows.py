"""What tests of stored results ask of a row of the leaderboard."""

from __future__ import annotations

from uedp_bench.leaderboard.rows import Row, Stat


def interval(stat: Stat) -> tuple[float, float]:
    """Both ends of the interval over seeds, which must be there."""
    assert stat.low is not None
    assert stat.high is not None
    return stat.low, stat.high


def perplexity(row: Row) -> tuple[float, float]:
    """Both ends of the interval of a row's perplexity."""
    return interval(row.utility["perplexity"])


def proven(row: Row) -> dict[str, float]:
    """Proven epsilons by unit."""
    return {g.unit: g.epsilon for g in row.guarantees if g.kind == "proven"}


def one(rows: list[Row], label: str) -> Row:
    """The row of a mechanism that has one alone."""
    (found,) = (row for row in rows if row.label == label)
    return found


def by_epsilon(rows: list[Row], label: str, unit: str) -> list[Row]:
    """The rows of a mechanism, from the smallest proven epsilon of a unit to the largest."""
    chosen = [row for row in rows if row.label == label]
    return sorted(chosen, key=lambda row: proven(row)[unit])
