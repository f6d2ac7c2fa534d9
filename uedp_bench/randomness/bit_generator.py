"""Random numbers of NumPy's samplers whose bits withstand an adversary who has seen others.

NumPy's own bit generators are simulations': fast, well distributed, and not made for that. This
module lends NumPy a stream that is, and draws long arrays without NumPy's samplers, which
would call Python for every word.

The bits are bytes that are expanded from a secret key by AES-256 in counter mode. Without the key
they pass for random if AES-256 is a pseudo-random permutation. A key counts from 0, so no two of
its blocks are the same, and nobody gives one key to two uses (`Stream.child`).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from operator import length_hint
from typing import Any, cast

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


Words = NDArray[np.uint64]

WORDS = 2
"""Words of a number."""

_COARSE = 2.0**53
"""From here on float64 holds no fraction of a whole number."""


def normal_numbers(words: Words) -> NDArray[np.float64]:
    """(n,) independent N(0, 1) of independent words (2n,): each of its own two."""
    from scipy.special import ndtri

    first, second = words[0::WORDS].view(np.int64), words[1::WORDS]
    # Of a negative word its complement: both signs have the same 2^63 numbers, 0 among them.
    beyond = (first ^ (first >> 63)).astype(np.float64)
    few = np.flatnonzero(beyond < _COARSE)
    beyond[few] += np.minimum((second[few] + 0.5) * 2.0**-64, 1.0 - 2.0**-53)
    beyond *= 2.0**-64
    quantiles: NDArray[np.float64] = ndtri(beyond, out=beyond)
    # A quantile of 1/2 or less is negative or 0.
    return np.copysign(quantiles, first, out=quantiles)


_LISTED = 2**10
"""Words that are drawn at once where they are taken one by one."""

_AT_ONCE = 2**13
"""Numbers that are computed at once: their tables stay in the cache."""

Size = int | tuple[int, ...]


class _Interface(ctypes.Structure):
    """`bitgen_t` of `numpy/random/bitgen.h`: a state and four functions of it."""

    _fields_ = [
        ("state", ctypes.c_void_p),
        ("next_uint64", ctypes.c_void_p),
        ("next_uint32", ctypes.c_void_p),
        ("next_double", ctypes.c_void_p),
        ("next_raw", ctypes.c_void_p),
    ]


class WordGenerator:
    """Bit generator for `numpy.random.Generator`, from words of 64 bits.

    Every number costs a call of Python: ten times as much as NumPy's own.

    Args:
        words: endless words, each below 2^64.

    Attributes:
        capsule, lock: NumPy's interface (`numpy.random.BitGenerator`).
    """

    _NAME = b"BitGenerator"

    def __init__(self, words: Iterator[int]) -> None:
        draw = words.__next__
        word = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(lambda state: draw())
        half = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p)(lambda state: draw() >> 32)
        uniform = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(
            lambda state: (draw() >> 11) * 2.0**-53
        )
        self._functions = (word, half, uniform)  # kept alive as long as C may call them
        first, second, third = (ctypes.cast(each, ctypes.c_void_p) for each in self._functions)
        self._interface = _Interface(None, first, second, third, first)
        new: Any = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule: Any = new(ctypes.addressof(self._interface), self._NAME, None)
        self.lock = threading.Lock()


class KeyedBits(WordGenerator):
    """Words of a keystream: without the key they look like chance.

    Args:
        key: secret key, 32 bytes of the operating system.
    """

    def __init__(self, key: bytes) -> None:
        self._words = _KeyedWords(key)
        super().__init__(iter(self._words))

    def many(self, count: int) -> Words:
        """(count,) the next words: those that would be drawn one by one."""
        return self._words.many(count)

    @property
    def state(self) -> dict[str, int]:
        """Number of drawn words; the key is no part of it."""
        return {"drawn": self._words.drawn}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        self._words.go_to(state["drawn"])


class KeyedGenerator(np.random.Generator):
    """NumPy's generator of a key, whose long arrays of normal and uniform numbers are fast.

    An array has the same numbers if it is drawn in parts. Other laws, and single numbers, are
    NumPy's own.

    Args:
        key: see `KeyedBits`.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._bits = key, KeyedBits(key)
        super().__init__(self._bits)  # type: ignore[arg-type]

    def after(self, count: int) -> KeyedGenerator:
        """Copy at the place of this one after `count` more normal numbers."""
        other = KeyedGenerator(self._key)
        other._bits.state = {"drawn": self._bits.state["drawn"] + WORDS * count}
        return other

    def standard_normal(  # type: ignore[override]
        self, size: Size | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """See NumPy: of an array in float64, each number is a quantile (`normal_numbers`)."""
        if size is None or args or kwargs:
            return super().standard_normal(size, *args, **kwargs)
        numbers = np.empty(size)
        for part in _parts(numbers):
            part[:] = normal_numbers(self._bits.many(WORDS * len(part)))
        return numbers

    def random(  # type: ignore[override]
        self, size: Size | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """See NumPy, to the bit: multiples of 2^-53 below 1."""
        if size is None or args or kwargs:
            return super().random(size, *args, **kwargs)
        numbers = np.empty(size)
        for part in _parts(numbers):
            np.multiply(self._bits.many(len(part)) >> np.uint64(11), 2.0**-53, out=part)
        return numbers


def _parts(numbers: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    flat = numbers.reshape(-1)
    for start in range(0, len(flat), _AT_ONCE):
        yield flat[start : start + _AT_ONCE]


class _KeyedWords:
    """Words of a keystream, one by one or many at once."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.go_to(0)

    def go_to(self, drawn: int) -> None:
        """Go to the word after `drawn` words."""
        self._listed, self._left = drawn, iter(list[int]())

    @property
    def drawn(self) -> int:
        """Number of words so far."""
        return self._listed - length_hint(self._left)

    def many(self, count: int) -> Words:
        """(count,) the next words."""
        first = self.drawn
        self.go_to(first + count)
        return self._from(first, count)

    def _from(self, first: int, count: int) -> Words:
        block, skipped = divmod(8 * first, BLOCK)
        content = Keystream(self._key, block).bytes(skipped + 8 * count)
        return cast("Words", content[skipped:].view("<u8"))

    def __iter__(self) -> Iterator[int]:
        while True:
            left = self._left
            for word in left:
                yield word
                if left is not self._left:  # somebody went elsewhere
                    break
            else:
                words = self._from(self._listed, _LISTED)
                self._listed, self._left = self._listed + _LISTED, iter(words.tolist())
