"""A mechanism on words as an adversary runs it, and how a text becomes the words it replaces."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.mechanisms.words.noise import WordNoise
from uedp_bench.text.word_vectors import Embedding

_TOKENS = re.compile(r"\S+")
_PIECES = re.compile(r"\w+|[^\w\s]")
_BATCH = 8192
"""Words whose noisy vectors are held at once."""

Choose = Callable[[IntArray, FloatArray, FloatArray], IntArray]
"""(n,) words, (n, d) their vectors plus noise and (n,) coins -> (n,) substitutes."""


def word_places(text: str, embedding: Embedding) -> list[tuple[int, int]]:
    """(start, end) of what stands between white space where the vocabulary has it, else its parts.

    Parts are runs of letters, digits and underscores, and every other character by itself.
    """
    places: list[tuple[int, int]] = []
    for token in _TOKENS.finditer(text):
        whole = embedding.find(token[0]) >= 0
        parts = [token] if whole else _PIECES.finditer(text, *token.span())
        places += [part.span() for part in parts]
    return places


def split_words(text: str, embedding: Embedding) -> list[str]:
    """The words at these places."""
    return [text[start:end] for start, end in word_places(text, embedding)]


@dataclass(frozen=True, eq=False)
class EmbeddingChannel:
    """See `uedp_bench.api.capabilities.WordChannel`.

    Attributes:
        embedding: the public vocabulary.
        noise: on its vectors.
        choose: the last step of the mechanism.
    """

    embedding: Embedding
    noise: WordNoise
    choose: Choose

    @property
    def words(self) -> tuple[str, ...]:
        """The public vocabulary."""
        return self.embedding.words

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(words, d)."""
        return self.embedding.vectors

    def split(self, text: str) -> list[str]:
        """The words of a text, those outside the vocabulary among them."""
        return split_words(text, self.embedding)

    def find(self, word: str) -> int:
        """Index of a word, -1 for one outside the vocabulary."""
        return self.embedding.find(word)

    def sample(self, words: IntArray, rng: np.random.Generator) -> IntArray:
        """(n,) fresh substitutes of the words (n,)."""
        out = np.empty(len(words), dtype=np.int64)
        for start in range(0, len(words), _BATCH):
            part = words[start : start + _BATCH]
            noisy = self.noise.sample(len(part), rng)
            noisy += self.vectors[part]
            out[start : start + _BATCH] = self.choose(part, noisy, rng.random(len(part)))
        return out
