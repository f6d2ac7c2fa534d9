"""A process that runs one thing after the other gives back what the runs before have freed."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from uedp_bench.grid.scheduler import give_back_memory
from uedp_bench.training.device import keep_freed_memory

STATM = Path("/proc/self/statm")


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * 4096


@pytest.mark.skipif(
    not STATM.is_file() or platform.libc_ver()[0] != "glibc", reason="needs Linux with glibc"
)
def test_freed_memory_is_given_back_though_something_lies_above_it() -> None:
    keep_freed_memory()
    blocks = [torch.ones(2**18) for _ in range(100)]  # 100 MB
    above = torch.ones(2**18)
    del blocks
    kept = _resident()
    give_back_memory()
    assert kept - _resident() > 50 * 2**20
    assert float(above.sum()) == 2**18
