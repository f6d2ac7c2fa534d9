"""Float32 as it is: the switches of torch that would compute it with fewer digits.

Clipping counts on the rounding of float32 (`docs/proofs.md`, section 14). TF32 keeps 10 bits of 23,
and torch lets cuDNN use it for convolutions and recurrent layers unless it is told not to.
"""

from __future__ import annotations

from typing import Any

import torch

from uedp_bench.errors import PrivacyError

_SWITCHES: dict[str, str] = {
    "": "none",
    ".cuda.matmul": "ieee",
    ".cudnn": "none",
    ".cudnn.conv": "none",
    ".cudnn.rnn": "none",
    ".mkldnn": "none",
    ".mkldnn.matmul": "ieee",
    ".mkldnn.conv": "none",
    ".mkldnn.rnn": "none",
}
"""Switches below `torch.backends`, each before those that follow it, and their values where
float32 is kept. Torch before 2.9 has none of them, and two of an older kind that move them too."""


def pin_float32() -> None:
    """Turn off what computes products of float32 numbers with fewer digits."""
    for name, value in _SWITCHES.items():
        backend = _backend(name)
        if getattr(backend, "fp32_precision", value) != value:
            backend.fp32_precision = value
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def lowered_precision() -> str | None:
    """The first switch that lowers the precision of float32; None if all digits are kept."""
    for name, value in _SWITCHES.items():
        if (precision := getattr(_backend(name), "fp32_precision", value)) != value:
            return f"torch.backends{name}.fp32_precision is {precision!r}"
    # Torch refuses to read these where they contradict the switches above.
    if (matmul := torch.get_float32_matmul_precision()) != "highest":
        return f"torch.set_float32_matmul_precision({matmul!r})"
    if torch.backends.cudnn.allow_tf32:
        return "torch.backends.cudnn.allow_tf32 = True"
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return "torch.autocast"
    return None


def _backend(name: str) -> Any:
    backend: Any = torch.backends
    for part in filter(None, name.split(".")):
        backend = getattr(backend, part)
    return backend


def check_precision() -> None:
    """Refuse to bound what units add with fewer digits than the bound's proof counts on.

    Raises:
        PrivacyError: naming the switch.
    """
    if (switch := lowered_precision()) is not None:
        raise PrivacyError(
            f"float32 is computed with fewer digits ({switch}), and the bound on what a unit adds "
            "is proven for all of them; leave torch's precision as it is"
        )
