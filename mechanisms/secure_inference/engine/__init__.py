"""Two parties that compute a network's answer and show each other nothing else.

Numbers of the fixed point, and how often its truncations fail, stand here: they need no network.
"""

from __future__ import annotations

RING_BITS = 64
FRACTION = 16
"""Bits behind the point."""

SIGMOID_END = 8
"""Bound to which the inputs of a sigmoid are clipped, in absolute value."""


def largest_truncated(value_range: float) -> float:
    """Bound on truncated values, from the range of the values of layers.

    Inside a sigmoid, squares of what it clips are truncated as well.
    """
    return max(value_range, float(SIGMOID_END**2))
