"""Bytes that are expanded from a secret key: AES-256 in counter mode.

Without the key they pass for random if AES-256 is a pseudo-random permutation. A key counts from
0, so no two of its blocks are the same, and nobody gives one key to two uses (`Stream.child`).
"""

from __future__ import annotations

from typing import cast

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

BLOCK = 16
"""Bytes of a block of AES."""

_ZEROS = memoryview(bytes(1 << 18))


class Keystream:
    """The bytes of one key, in order.

    Args:
        key: 32 bytes.
        block: number of the block of 16 bytes to begin with.
    """

    def __init__(self, key: bytes, block: int = 0) -> None:
        counter = block.to_bytes(BLOCK, "big")
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()

    def bytes(self, size: int) -> NDArray[np.uint8]:
        """(size,) the next bytes."""
        content = np.empty(size + BLOCK, dtype=np.uint8)  # the cipher asks for a block to spare
        target = memoryview(cast("bytearray", content))
        for start in range(0, size, len(_ZEROS)):
            length = min(len(_ZEROS), size - start)
            self._encryptor.update_into(_ZEROS[:length], target[start : start + length + BLOCK])
        return content[:size]
