"""Random numbers that are expanded from a seed: AES-256 in counter mode.

Every stream has a key of its own, SHA-256 of the seed and the stream's name (`Stream.child`), and
counts from 0: no two numbers share a block. Without the seed they pass for random if AES-256 is a
pseudo-random permutation and SHA-256 behind a secret of fixed length a pseudo-random function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from uedp_bench.randomness.streams import Name, Stream
from uedp_bench.secure.correlations import Spec

_ZEROS = memoryview(bytes(1 << 18))
_SLACK = 16


class Expansion:
    """The numbers of one seed and one name, in order.

    Args:
        seed: secret.
        name: of the stream; streams of other names are independent.
    """

    def __init__(self, seed: Stream, *name: Name) -> None:
        key = seed.child(*name).key
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def draw(self, specs: Sequence[Spec]) -> list[Tensor]:
        """The next uniform tensors of these shapes and types."""
        aligned = [-(-spec.size // 8) * 8 for spec in specs]
        size = sum(aligned)
        found = torch.empty(size + _SLACK, dtype=torch.uint8)
        target = memoryview(cast("bytearray", found.numpy()))
        for start in range(0, size, len(_ZEROS)):
            length = min(len(_ZEROS), size - start)
            self._encryptor.update_into(_ZEROS[:length], target[start : start + length + _SLACK])
        parts, start = [], 0
        for spec, length in zip(specs, aligned, strict=True):
            parts.append(found[start : start + spec.size].view(spec.dtype).reshape(spec.shape))
            start += length
        return parts
