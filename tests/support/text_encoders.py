"""Text encoders that train in a moment: one of trained word vectors, one frozen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from uedp_bench.components import registry
from uedp_bench.components.component import Params
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.model import TextEncoder, TokenEncoder, WordRows
from uedp_bench.corpus import FeatureArray, FloatArray
from uedp_bench.models.networks.classifier import Given
from uedp_bench.models.networks.transformer_encoders import GivenWords, Projection
from uedp_bench.models.word_rows import Padding, VectorRows
from uedp_bench.models.word_vocabularies import WordVocabulary


class _Mean(nn.Module):
    def __init__(self, words: int, width: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.width = width
        self.vectors = nn.Parameter(torch.randn(words, width, generator=generator))

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        inside = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        values = nn.functional.embedding(tokens, self.vectors) * inside[:, :, None]
        return values.sum(1) / lengths[:, None]


class MeanParams(Params):
    width: int = Field(default=16, ge=1, description="size of word vectors")


@registry.models.register
class MeanOfWords(TextEncoder[MeanParams]):
    """The mean of trained word vectors."""

    name = "mean-of-words"
    Params = MeanParams

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Vocabulary:
        return WordVocabulary.build(texts, 2000, origin=origin, private=private)

    def load_vocabulary(self, folder: Path) -> Vocabulary:
        return WordVocabulary.load(folder)

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        assert vocabulary is not None
        return _Mean(vocabulary.size, self.params.width, seed)


@registry.models.register
class HashedWords(TextEncoder[MeanParams], TokenEncoder[MeanParams]):
    """Frozen: a fixed random vector for every word; of a text, their mean."""

    name = "hashed-words"
    Params = MeanParams

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Any:
        raise TypeError("frozen")

    def load_vocabulary(self, folder: Path) -> Any:
        raise TypeError("frozen")

    def frozen(self) -> bool:
        return True

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        size = self.params.width
        vectors = {word: self._vector(word) for text in texts for word in text.split()}
        rows = [
            np.mean([vectors[w] for w in text.split()] or [np.zeros(size)], axis=0)
            for text in texts
        ]
        return np.array(rows, dtype=np.float32).reshape(len(texts), size)

    def feature_size(self) -> int:
        return self.params.width

    def read_words(
        self,
        words: Sequence[Sequence[str]],
        vocabulary: Vocabulary | None,
        max_tokens: int,
        device: str,
    ) -> WordRows:
        kept = [word for row in words for word in row[:max_tokens]]
        lengths = np.array([len(row[:max_tokens]) for row in words])
        vectors = np.array([self._vector(word) for word in kept], dtype=np.float32)
        cut = sum(len(row) > max_tokens for row in words)
        row_size = int(lengths.max()) * self.params.width
        return VectorRows(vectors, np.arange(len(kept)), Padding(lengths), cut, row_size)

    def build_token_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        return GivenWords(Projection(self.params.width, None, seed))

    def _vector(self, word: str) -> FloatArray:
        seed = int(hashlib.sha256(word.encode()).hexdigest()[:8], 16)
        return np.random.default_rng(seed).normal(size=self.params.width)

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        return Given(self.params.width)
