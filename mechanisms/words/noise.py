"""Noise on word vectors, and the channel of a mechanism on words as an adversary runs it.

The density of the noise is proportional to e^(-epsilon d(z, 0)), with its metric d.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import FloatArray, InputError, IntArray
from uedp_bench.randomness import check_gamma
from uedp_bench.text.word_vectors import Embedding

Noise = Literal["laplace", "mahalanobis"]


class WordNoise:
    """Radius Gamma(d, 1 / epsilon) times a uniform direction u, or times A u for `mahalanobis`.

    A is the root of lambda Sigma + (1 - lambda) I, Sigma the sample covariance of the vectors
    divided by its mean variance (Xu et al. 2020, Algorithm 1). A u is not scaled back to length 1:
    that would make the noise spherical and the mechanism another.

    Args:
        vectors: (words, d) of the public embedding.
        epsilon: per unit of distance.
        regularisation: lambda; None for `laplace`.
        field: prefix of the parameters, for messages.

    Attributes:
        spent: the epsilon, per unit of distance, of what was drawn so far; 0 for nothing.

    Raises:
        InputError: if the matrix is singular, for then some words have no finite distance.
    """

    def __init__(
        self, vectors: NDArray[Any], epsilon: float, regularisation: float | None, field: str
    ) -> None:
        self.epsilon, self.dimension = epsilon, int(vectors.shape[1])
        self.spent = 0.0
        self._root: FloatArray | None = None
        self._inverse: FloatArray | None = None
        if regularisation is None:
            return
        values, axes = np.linalg.eigh(_regularised(vectors, regularisation, field))
        if values[0] <= 1e-10 * values[-1]:
            raise InputError(
                f"{field}.regularisation is {regularisation:g}: the covariance of the embedding is "
                "singular, so that words have no finite distance; use less than 1"
            )
        self._root = (axes * np.sqrt(values)) @ axes.T
        self._inverse = (axes / np.sqrt(values)) @ axes.T

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """(count, d) independent draws.

        Raises:
            PrivacyError: if they do not have the radius that epsilon says.
        """
        direction = rng.standard_normal((count, self.dimension))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        scale = 1.0 / self.epsilon
        radius = rng.gamma(self.dimension, scale, size=(count, 1))
        self.spent = max(self.spent, 1.0 / scale)
        turned = direction if self._root is None else direction @ self._root
        noise: FloatArray = radius * turned
        drawn = np.linalg.norm(self.coordinates(noise), axis=1)
        check_gamma(float(drawn.sum()) / scale, count * self.dimension, "noise on word vectors")
        return noise

    def coordinates(self, vectors: NDArray[Any]) -> FloatArray:
        """(n, d) coordinates in which the metric is the Euclidean distance."""
        plain = np.asarray(vectors, dtype=np.float64)
        return plain if self._inverse is None else plain @ self._inverse


def _regularised(vectors: NDArray[Any], weight: float, field: str) -> FloatArray:
    identity = np.eye(int(vectors.shape[1]))
    if weight == 0.0:
        return identity
    if len(vectors) < 2:
        raise InputError(f"{field}.noise is 'mahalanobis': the embedding needs at least 2 words")
    covariance = np.atleast_2d(np.cov(np.asarray(vectors, dtype=np.float64), rowvar=False))
    mean_variance = float(np.trace(covariance)) / len(covariance)
    if mean_variance == 0.0:
        raise InputError(f"{field}.noise is 'mahalanobis': all vectors of the embedding are equal")
    return weight * covariance / mean_variance + (1.0 - weight) * identity


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
