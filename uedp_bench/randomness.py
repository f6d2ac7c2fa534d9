"""Law of random numbers: shared ones may be equal in two runs, and secret ones never are.

**Shared** streams (`shared_stream`) are keyed by the seed and their names alone. They decide what
must be equal so that rows of one seed compare: who is held out, what is planted, initial weights,
the order of public rows, the rows that a cap keeps, bootstraps of statistics, and the order of rows
and dropout of a training that protects nobody (`noiseless`, `pooled`, `cyclic`). Nothing is hidden
by them.

**Secret** streams (`Stream`) are all that protects, and every random choice of training that
protects private rows or of publishing them: noise, sampling coins, masks, the order of rows,
dropout. They are keyed by the seed and by what is run: the task, the source, the model, all
mechanisms with their versions and parameters, the corpus as it is trained on (`scope_of`), the
stage, and the number of the call.
Hence two runs share such a number only where they train the same on the same rows, which is to
release the same twice; otherwise the difference of two releases would be free of noise. How fast,
on which device and into which folder never enters.

With the noise source `seed` the key of all secret streams is a hash of the seed: whoever has the
seed can draw the noise again and take it off. With `os` it is 32 bytes of the operating system, and
the streams are those of AES-256 under keys hashed from it, so that what came out of a stream tells
nothing of the rest. The key is forgotten when the run ends, and nothing can be drawn again.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.errors import PrivacyError

BLOCK = 16
"""Bytes of a block of AES."""

_ZEROS = memoryview(bytes(1 << 18))


class Keystream:
    """The bytes of one key, in order, expanded by AES-256 in counter mode.

    NumPy's own bit generators are simulations': fast, well distributed, and not made for that.
    Without the key the bytes pass for random if AES-256 is a pseudo-random permutation. A key
    counts from 0, so no two of its blocks are the same, and nobody gives one key to two uses
    (`Stream.child`).

    Args:
        key: 32 bytes.
        block: number of the block of 16 bytes to begin with.
    """

    def __init__(self, key: bytes, block: int = 0) -> None:
        # Components import this module for its types: the library loads with the first key.
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

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
    # A negative word counts as its complement: both signs have the same 2^63 numbers, 0 among them.
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


Name = str | int
"""A part of the name of a random stream."""


def shared_stream(seed: int, *names: Name) -> np.random.SeedSequence:
    """Seed sequence of one shared use of a seed; uses of other names are independent."""
    digest = hashlib.sha256("/".join(str(name) for name in names).encode()).digest()
    words = np.frombuffer(digest[:16], dtype=np.uint32).tolist()
    return np.random.SeedSequence([seed, *words])


def scope_of(identity: Mapping[str, Any], corpus: str, injected: tuple[int, ...] = ()) -> str:
    """Digest of a run's network and data: part of the key of its secret streams.

    Attacks and a selection are left out. What attacks plant is in the corpus, and a run that other
    attacks meet, or that is named the best of several, is to release the same model as before. A
    run without attacks draws other numbers, for its identity lacks the training of the models that
    attacks compare with: whoever publishes its model and theirs publishes two releases.

    Args:
        identity: `spec.identity_parts` of the run.
        corpus: fingerprint of the corpus as it is trained on, canaries in and held-out users out.
        injected: users whose updates an audit replaces.
    """
    left_out = ("seed", "attacks", "selection", "corpus")
    parts = {name: value for name, value in identity.items() if name not in left_out}
    content = json.dumps([parts, corpus, list(injected)], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Stream:
    """A place in the tree of secret streams: places below others are independent of all else.

    Attributes:
        key: 32 bytes; whoever has them can draw again.
        source: "seed" if the key is a hash of a seed, "os" if it is the operating system's.
    """

    key: bytes
    source: NoiseSource = "seed"

    @staticmethod
    def root(seed: int, scope: str, source: NoiseSource) -> Stream:
        """Root of a run's secret streams."""
        if source == "os":
            return Stream(os.urandom(32), source)
        return Stream(b"", source).child("secret", seed, scope)

    def child(self, *names: Name) -> Stream:
        """Place below this one with these names."""
        # JSON keeps ("a", "b") apart from ("ab",), and 1 from "1".
        content = self.key + json.dumps(names).encode()
        return Stream(hashlib.sha256(content).digest(), self.source)

    def rng(self, *names: Name) -> np.random.Generator:
        """Generator of the place below this one with these names: the same at every call."""
        key = self.child(*names).key
        if self.source == "os":
            return KeyedGenerator(key)
        words = np.frombuffer(key, dtype=np.uint32).tolist()
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def streams_of_parts(
    rng: np.random.Generator, size: int, most: int
) -> Sequence[np.random.Generator]:
    """Generators for the parts of an array that are drawn side by side.

    They are independent of each other: children of NumPy's seed sequence, or the places in the
    keystream where the parts begin. The one generator where there is one part. Draw nothing else
    from `rng` after that.

    Args:
        rng: generator of `Stream.rng` for these numbers alone.
        size: normal numbers of the array.
        most: most numbers of a part.
    """
    parts = -(-size // most)
    if parts <= 1:
        return (rng,)

    if isinstance(rng, KeyedGenerator):
        return [rng.after(part * most) for part in range(parts)]
    return rng.spawn(parts)


# ------------------------------------------------------------------- checks of noise that was added
# An event is made of the scale that a sampler drew with. These checks look at the numbers
# themselves, so that noise which a broken generator, a lost addition or another scale took away
# stops the run. Every check is a tail bound of a gamma distribution: noise that is as stated fails
# one with probability 3e-18 at most, whatever the private data are.

_NATS = 41.0
"""Noise as stated lies outside either tail with probability e^-41 at most (Chernoff)."""

Numbers = NDArray[np.floating[Any]]


def check_gamma(total: float, shape: float, name: str) -> None:
    """Refuse a number that cannot come from the gamma distribution of this shape and scale 1.

    Args:
        total: the number.
        shape: shape of the distribution, above 0; at 0, where nothing was drawn, nothing is
            checked.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if it lies in either tail of probability e^-41.
    """
    if shape == 0:
        return
    ratio = total / shape
    # P(mean <= r) for r < 1, and P(mean >= r) for r > 1, are at most (r e^(1-r))^shape.
    if not (ratio > 0.0 and shape * (ratio - 1.0 - math.log(ratio)) <= _NATS):
        raise PrivacyError(
            f"{name} is not what its event says: the numbers that were added have {ratio:.3g} "
            "times the mean that they should have, which chance does not explain"
        )


def check_laplace(before: Numbers, after: Numbers, scale: float | Numbers, name: str) -> None:
    """Refuse a difference that is no Laplace noise of a scale: |x| / scale is exponential.

    Args:
        before: numbers without noise.
        after: numbers with noise, of any shape that `before` and `scale` fit to.
        scale: scale of the noise; where it is 0, nothing is checked.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if chance does not explain the mean of the difference.
    """
    added = _standard(before, after, scale)
    check_gamma(float(np.abs(added).sum()), added.size, name)


def check_normal(before: Numbers, after: Numbers, deviation: float, name: str) -> None:
    """Refuse a difference that is no normal noise of a deviation: x^2 / 2 is gamma of shape 1/2.

    Args:
        before: numbers without noise.
        after: numbers with noise.
        deviation: standard deviation of the noise; where it is 0, nothing is checked.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if chance does not explain the mean square of the difference.
    """
    added = _standard(before, after, deviation)
    check_gamma(float(np.dot(added, added)) / 2.0, added.size / 2.0, name)


def check_gumbel(noise: Numbers, name: str) -> None:
    """Refuse numbers that are no standard Gumbel noise: e^-x is exponential.

    So is -log(1 - u) for the uniform u = exp(-e^-x), in which the other tail counts.

    Args:
        noise: any number of numbers.
        name: name of the noise, for the message.

    Raises:
        PrivacyError: if chance does not explain one of both means.
    """
    left = np.exp(-np.asarray(noise, dtype=np.float64))
    right = -np.log(-np.expm1(-left))
    for tail in (left, right):
        check_gamma(float(tail.sum()), tail.size, name)


def _standard(before: Numbers, after: Numbers, scale: float | Numbers) -> Numbers:
    """(n,) differences over their scale, where rounding does not swallow them.

    Which these are depends on the numbers without noise, and not on the noise.
    """
    values = np.broadcast_to(np.asarray(before, dtype=np.float64), after.shape)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), after.shape)
    numbers = np.finfo(after.dtype)
    fine = scales > 8.0 * numbers.eps * np.maximum(np.abs(values), numbers.tiny)
    standard: Numbers = (after[fine].astype(np.float64) - values[fine]) / scales[fine]
    return standard


def check_bits(content: NDArray[np.uint8], name: str) -> None:
    """Refuse bytes that are no uniform random bytes: half of their bits are set (Hoeffding).

    Args:
        content: any number of bytes.
        name: name of the random numbers, for the message.

    Raises:
        PrivacyError: if chance does not explain how many bits are set.
    """
    bits = 8 * content.size
    share = float(np.bitwise_count(content).sum()) / bits if bits else 0.5
    if 2.0 * bits * (share - 0.5) ** 2 > _NATS:
        raise PrivacyError(
            f"{name} are not random: {share:.1%} of {bits:,} bits are set, which chance does not "
            "explain"
        )
