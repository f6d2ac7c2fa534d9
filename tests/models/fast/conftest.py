"""The kernels, switched off."""

from __future__ import annotations

from typing import Any

import pytest

from uedp_bench.models import fast
from uedp_bench.models.fast import gpt2_blocks, output_nats, products, recurrence

KERNELS: tuple[Any, ...] = (
    output_nats._TokenNats,
    products._Lookup,
    gpt2_blocks._Transformer,
    output_nats._OutputNats,
    products._Linear,
    recurrence._Recurrence,
)


@pytest.fixture
def switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches the kernels off; a test that reaches one all the same fails."""

    def reached(*arguments: Any) -> None:
        pytest.fail("a kernel was reached with the room switched off")

    monkeypatch.setenv(fast.SWITCH, "0")
    for kernel in KERNELS:
        monkeypatch.setattr(kernel, "apply", reached)
    for name in ("_onednn", "_strided"):
        monkeypatch.setattr(products, name, reached)
