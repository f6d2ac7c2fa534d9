"""Random numbers that are expanded from a seed (`randomness.keystream`).

Every stream has a key of its own, SHA-256 of the seed and the stream's name (`Stream.child`).
Without the seed its numbers pass for random if AES-256 is a pseudo-random permutation and SHA-256
behind a secret of fixed length a pseudo-random function.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from uedp_bench.randomness.keystream import Keystream
from uedp_bench.randomness.noise_checks import check_bits
from uedp_bench.randomness.streams import Name, Stream
from uedp_bench.secure.correlations import Spec

_CHECKED = 4096
"""Bytes of each draw whose bits are counted."""


class Expansion:
    """The numbers of one seed and one name, in order.

    Args:
        seed: secret.
        name: of the stream; streams of other names are independent.
    """

    def __init__(self, seed: Stream, *name: Name) -> None:
        self._stream = Keystream(seed.child(*name).key)

    def draw(self, specs: Sequence[Spec]) -> list[Tensor]:
        """The next uniform tensors of these shapes and types.

        Raises:
            PrivacyError: if their bits are not random.
        """
        aligned = [-(-spec.size // 8) * 8 for spec in specs]
        content = self._stream.bytes(sum(aligned))
        check_bits(content[:_CHECKED], "masks of a protocol")
        found = torch.from_numpy(content)
        parts, start = [], 0
        for spec, length in zip(specs, aligned, strict=True):
            parts.append(found[start : start + spec.size].view(spec.dtype).reshape(spec.shape))
            start += length
        return parts
