"""Masked language models of these tests are small."""

from __future__ import annotations

import pytest
import torch
from masked_rows import SMALL

from uedp_bench.models import bert


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of `configuration: tiny` in 2 layers of 32."""
    monkeypatch.setitem(bert.SIZES, "tiny", SMALL)
    torch.set_num_threads(1)
