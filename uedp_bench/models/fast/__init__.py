"""Kernels of a CPU with their gradients written out, behind one switch.

What they compute, torch's own operations compute as well, slower and to rounding: they serve where
the environment has `UEDP_BENCH_FAST=0`, and wherever a kernel does not apply. Clipping without
gradients of each unit (`training.ghost`) is no such kernel: it stays.
"""

from __future__ import annotations

import os

SWITCH = "UEDP_BENCH_FAST"
"""Environment variable that switches the kernels off where it is "0"."""


def is_on() -> bool:
    """True unless the kernels are switched off."""
    return os.environ.get(SWITCH) != "0"
