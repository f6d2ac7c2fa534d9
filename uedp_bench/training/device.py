"""Device to train on: its kernels, its digits, and as many units side by side as fit in it.

Clipping counts on the rounding of float32 (`docs/proofs.md`, section 14). TF32 keeps 10 bits of 23,
and torch lets cuDNN use it for convolutions and recurrent layers unless it is told not to.

Gradients that vanish over time and layers become numbers too small to be normal (below 1.2e-38 in
float32), and processors multiply these many times as slowly. Zeros in their place change no sum
that a float32 shows, and make no update longer.

How many units compute side by side changes speed and memory, never results.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from uedp_bench.contracts.learner import RowLengths, numbers_per_call
from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.models import fast
from uedp_bench.training.sampling import Cohort

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


def altered_arithmetic() -> dict[str, str]:
    """Kernels and precision of float32, where they are not the usual ones."""
    precision = lowered_precision()
    out = {} if kernels() == "fast" else {"kernels": kernels()}
    return out if precision is None else {**out, "precision": precision}


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


_LEAST = sys.float_info.min


def denormals_are_zeros() -> bool:
    """True if this thread takes such numbers for zeros now."""
    return _LEAST / 4.0 == 0.0


@contextmanager
def denormals_as_zeros() -> Iterator[None]:
    """Within it this thread takes such numbers for zeros, where the processor can.

    Elsewhere they count as ever. Threads that run already are not reached, so that products that
    torch shares out among several may stay slow; one that begins within keeps it.
    """
    before = denormals_are_zeros()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


CACHED_NUMBERS = 2**23
"""Numbers of the largest tensor of a chunk: 32 MB in float32, what a cache holds."""

_BLOCK = 2**16
"""Weights whose squares, noise or steps are computed at once on a CPU: their tables take the
memory of a block, and stay in the cache."""


def weights_at_once(device: torch.device) -> int:
    """Weights of a vector that one call computes on; elsewhere than on a CPU, calls cost more."""
    return _BLOCK if device.type == "cpu" else 2**8 * _BLOCK


def chunk_size(parameters: int, most: int, *, single_rows: bool = False) -> int:
    """Units at once: no more than `most`, nor than fit 2^25 weights (128 MB) side by side.

    Units of a single row compute so little each that more of them pay, as long as their gradients
    stay in the cache. They are never padded, so neither that nor dropout depends on how many.
    """
    if single_rows and most > 1:
        most = max(most, CACHED_NUMBERS // max(parameters, 1))
    return max(1, min(most, 2**25 // max(parameters, 1)))


def chunks(
    units: IntArray, sizes: IntArray, most: int, device: torch.device | str = "cpu"
) -> Iterator[IntArray]:
    """Units of similar size, side by side as long as their largest tensor stays in the cache.

    Args:
        units: (units,) in ascending order of `sizes`.
        sizes: (units,) numbers in the largest tensor that a unit needs alone.
        most: units in a chunk.
        device: device that computes them; a GPU takes more at once.
    """
    start, numbers = 0, numbers_per_call(CACHED_NUMBERS, device)
    for end in range(1, len(units) + 1):
        full = end < len(units) and (end + 1 - start) * sizes[end] > numbers
        if end == len(units) or end - start == most or full:
            yield units[start:end]
            start = end


def by_rows(
    units: IntArray, sizes: IntArray, device: torch.device | str = "cpu"
) -> Iterator[IntArray]:
    """Units side by side as long as the largest tensor of their rows stays in the cache.

    Args:
        units: (units,).
        sizes: (units,) numbers in the largest tensor that a unit needs alone.
        device: device that computes them; a GPU takes more at once.
    """
    ends, numbers = np.cumsum(sizes), numbers_per_call(CACHED_NUMBERS, device)
    start = 0
    while start < len(units):
        before = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, before + numbers, side="right")), start + 1)
        yield units[start:end]
        start = end


_POOL = 32
"""Batches whose rows are sorted by length together: what is left of a shuffle is between pools."""


def batches_of_like_length(
    order: IntArray, lengths: RowLengths, size: int, rng: np.random.Generator
) -> IntArray:
    """Shuffled rows, so that each batch of `size` has rows of similar length.

    Pools of 32 batches are sorted by length and cut into batches, and these are shuffled. The last
    batch stays the last: it may be smaller.

    Args:
        order: (rows,) numbers, shuffled.
        lengths: lengths by number of the row.
        size: rows of a batch.
        rng: draws the order of the batches.
    """
    batches: list[IntArray] = []
    for start in range(0, len(order), _POOL * size):
        pool = order[start : start + _POOL * size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += [pool[at : at + size] for at in range(0, len(pool), size)]
    last = batches.pop() if batches else order[:0]
    return np.concatenate([*(batches[at] for at in rng.permutation(len(batches))), last])


def row_numbers(cohort: Cohort, lengths: RowLengths, row_size: int) -> IntArray:
    """(units,) numbers in the largest tensor of each unit's longest row that counts.

    Args:
        cohort: units and their rows.
        lengths: lengths of all rows, by row number.
        row_size: numbers of the longest row.
    """
    longest = np.where(cohort.weights > 0, lengths[cohort.rows], 1).max(axis=1, initial=1)
    numbers: IntArray = -(-longest * row_size // max(int(lengths.max(initial=1)), 1))
    return numbers
