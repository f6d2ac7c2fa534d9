"""Device to train on, and kernels to compute with."""

from __future__ import annotations

import ctypes

import torch

from uedp_bench.errors import InputError
from uedp_bench.models import fast
from uedp_bench.training.precision import pin_float32


def choose_device(wanted: str, threads: int = 0) -> str:
    """The torch device for "auto", "cpu", "cuda", "cuda:1", ...; it computes in float32.

    Raises:
        InputError: if a GPU is demanded and there is none.
    """
    if threads:
        torch.set_num_threads(threads)
    keep_freed_memory()
    pin_float32()
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"--device {wanted}: torch sees no GPU here; use --device auto or cpu")
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise InputError(f"--device {wanted!r} is not auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        raise InputError(f"--device {wanted}: torch sees {count} GPU, numbered from cuda:0")
    return str(device)


def waits(device: torch.device) -> bool:
    """True where reading a number means to wait for all that a device still has to compute."""
    return device.type != "cpu"


def keep_freed_memory() -> None:
    """Let glibc keep freed memory: large tensors are then reused, not mapped anew every step.

    Page faults of fresh mappings cost from nothing to half of a training step, by size
    (`docs/performance.md`). Elsewhere than on glibc this does nothing.
    """
    mmap_max, trim_threshold, top_pad = -4, -1, -2
    try:
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(mmap_max, 0)
        libc.mallopt(trim_threshold, 2**30)
        libc.mallopt(top_pad, 2**26)
    except (OSError, AttributeError):
        return


def kernels() -> str:
    """Kernels that networks compute with: "fast", or "torch" where those are switched off.

    They agree to rounding, and not to the bit.
    """
    return "fast" if fast.is_on() else "torch"
