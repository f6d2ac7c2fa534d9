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

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uedp_bench.accounting.guarantee import NoiseSource

Name = str | int
"""A part of the name of a random stream."""


def shared_stream(seed: int, *names: Name) -> np.random.SeedSequence:
    """Seed sequence of one shared use of a seed; uses of other names are independent."""
    digest = hashlib.sha256("/".join(str(name) for name in names).encode()).digest()
    words = np.frombuffer(digest[:16], dtype=np.uint32).tolist()
    return np.random.SeedSequence([seed, *words])


def scope_of(identity: Mapping[str, Any], corpus: str, injected: tuple[int, ...] = ()) -> str:
    """Digest of a run's network and data: part of the key of its secret streams.

    Attacks and a selection are left out. What attacks plant is in the corpus, and a run that is
    attacked once more, or is named the best of several, is to release the same model as before.

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
            from uedp_bench.randomness.bit_generator import KeyedGenerator

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
    from uedp_bench.randomness.bit_generator import KeyedGenerator

    if isinstance(rng, KeyedGenerator):
        return [rng.after(part * most) for part in range(parts)]
    return rng.spawn(parts)
