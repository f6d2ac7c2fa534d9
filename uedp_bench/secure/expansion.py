"""Random numbers that are expanded from a seed: AES-256 in counter mode.

Every use has a key of its own, SHA-256 of the seed and the use's name (`Stream.child`), and
counts from 0: no two uses share a block. Without the seed the numbers pass for random if AES-256 is
a pseudo-random permutation and SHA-256 of a secret prefix of fixed length a pseudo-random function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from uedp_bench.randomness.streams import Name, Stream
from uedp_bench.secure.correlations import Spec

PSEUDO_RANDOM = "AES-256 in counter mode, keys by SHA-256"

_ZEROS = memoryview(bytes(1 << 18))
_SLACK = 16


def expand(seed: Stream, name: tuple[Name, ...], specs: Sequence[Spec]) -> list[Tensor]:
    """Uniform tensors of these shapes and types: a function of the seed and the name alone."""
    aligned = [-(-spec.size // 8) * 8 for spec in specs]
    size = sum(aligned)
    found = torch.empty(size + _SLACK, dtype=torch.uint8)
    target = memoryview(cast("bytearray", found.numpy()))
    encryptor = Cipher(algorithms.AES(seed.child(*name).key), modes.CTR(bytes(16))).encryptor()
    for start in range(0, size, len(_ZEROS)):
        length = min(len(_ZEROS), size - start)
        encryptor.update_into(_ZEROS[:length], target[start : start + length + _SLACK])
    parts, start = [], 0
    for spec, length in zip(specs, aligned, strict=True):
        parts.append(found[start : start + spec.size].view(spec.dtype).reshape(spec.shape))
        start += length
    return parts
