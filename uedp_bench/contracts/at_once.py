"""Sizes of one call: what fits the cache of a CPU, and more elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_TIMES_ON_A_GPU = 2**3
"""A GPU has no cache to stay in, and idles between calls. GPT-2 small takes 10 GB at that."""


def at_once(numbers: int, device: torch.device | str) -> int:
    """Numbers that one call computes on, where a call on a CPU computes on `numbers`.

    The kind of the device alone decides, so that all processes of a run agree.
    """
    return numbers if str(device).startswith("cpu") else _TIMES_ON_A_GPU * numbers
