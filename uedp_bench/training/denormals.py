"""Numbers that are too small to be normal, as zeros: processors multiply them many times as slowly.

Gradients that vanish over time and layers become such numbers (below 1.2e-38 in float32). Zeros in
their place change no sum that a float32 shows, and make no update longer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_LEAST = sys.float_info.min


def are_zeros() -> bool:
    """True if this thread takes such numbers for zeros now."""
    return _LEAST / 4.0 == 0.0


@contextmanager
def as_zeros() -> Iterator[None]:
    """Within it this thread takes such numbers for zeros, where the processor can.

    Elsewhere they count as ever. Threads that run already are not reached, so that products that
    torch shares out among several may stay slow; one that begins within keeps it.
    """
    before = are_zeros()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
