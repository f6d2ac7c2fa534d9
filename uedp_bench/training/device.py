"""Which device to train on."""

from __future__ import annotations

import torch

from uedp_bench.errors import InputError


def choose_device(wanted: str, threads: int = 0) -> str:
    """The torch device for "auto", "cpu", "cuda", "cuda:1", ...

    Raises:
        InputError: if a GPU is demanded and there is none.
    """
    if threads:
        torch.set_num_threads(threads)
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"--device {wanted}: torch sees no GPU here; use --device auto or cpu")
    try:
        return str(torch.device(wanted))
    except RuntimeError:
        raise InputError(f"--device {wanted!r} is not auto, cpu, cuda or cuda:N") from None
