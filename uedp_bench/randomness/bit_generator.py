"""A generator of bits for `numpy.random.Generator` whose words come from any iterator.

NumPy's own are simulations' generators: fast, well distributed, and not made to withstand an
adversary who has seen what they gave. This one lends NumPy's samplers a stream that is.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Iterator
from operator import length_hint
from typing import Any

import numpy as np

_BLOCK = 2**15
"""Bytes that are hashed at once."""


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
    """What `numpy.random.Generator` needs of a bit generator, from words of 64 bits.

    Every number costs a call of Python, 0.2 microseconds: ten times as much as NumPy's own.

    Args:
        words: endless, each below 2^64.

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


class HashGenerator(WordGenerator):
    """Words of SHAKE-256 of a key and a counter: without the key they look like chance.

    Args:
        key: secret, 32 bytes of the operating system.
    """

    def __init__(self, key: bytes) -> None:
        self._words = _HashedWords(key)
        super().__init__(iter(self._words))

    @property
    def state(self) -> dict[str, int]:
        """How many words were drawn; the key is no part of it."""
        return {"drawn": self._words.drawn}

    @state.setter
    def state(self, state: dict[str, int]) -> None:
        self._words.go_to(state["drawn"])


class _HashedWords:
    """Blocks of hashed words, one after the other; drawing one costs no more than in a list."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.go_to(0)

    def go_to(self, drawn: int) -> None:
        """Makes the word after so many the next."""
        block, skipped = divmod(drawn, _BLOCK // 8)
        self._block, self._left = block - 1, iter(list[int]())
        if skipped:
            self._next_block()
            for _ in range(skipped):
                next(self._left)

    @property
    def drawn(self) -> int:
        """Words so far."""
        return (self._block + 1) * (_BLOCK // 8) - length_hint(self._left)

    def _next_block(self) -> None:
        self._block += 1
        content = hashlib.shake_256(self._key + self._block.to_bytes(8, "little")).digest(_BLOCK)
        self._left = iter(np.frombuffer(content, dtype=np.uint64).tolist())

    def __iter__(self) -> Iterator[int]:
        while True:
            left = self._left
            for word in left:
                yield word
                if left is not self._left:  # somebody went elsewhere
                    break
            else:
                self._next_block()
