"""A public vocabulary and its word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Embedding:
    """A public vocabulary and a vector for each of its words.

    Attributes:
        words: words in the order of the file.
        vectors: (words, d) vectors, float32.
    """

    words: tuple[str, ...]
    vectors: NDArray[np.float32]

    @property
    def dimension(self) -> int:
        """Number of coordinates of a vector (d)."""
        return int(self.vectors.shape[1])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: at for at, word in enumerate(self.words)}

    def find(self, word: str) -> int:
        """Index of the word as it is written, else of its lower case; -1 for neither."""
        index = self._index.get(word)
        return self._index.get(word.lower(), -1) if index is None else index
