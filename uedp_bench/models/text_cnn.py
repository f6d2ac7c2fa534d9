"""Small convolutional networks on vectors of a frozen sentence encoder, or of words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import FeatureArray, Requirement, equals
from uedp_bench.api.networks import Vocabulary
from uedp_bench.components.component import of_embedding
from uedp_bench.models.sentence_encoder import FrozenSentences, SentenceParams

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.classifier import CNNLayout
    from uedp_bench.text.word_vectors import Embedding

_LEAST = 1e-12
"""The smallest variance that divides: a vector of equal numbers becomes 0."""

Size = Annotated[int, Field(ge=1, le=4096)]


class TextCNNParams(SentenceParams):
    """Encoder, and the network on top of it; the defaults are the paper's network."""

    kernels: tuple[tuple[Size, ...], ...] = Field(
        default=((4, 2, 3), (8, 3, 4), (16, 4, 5)),
        min_length=1,
        description="kernel sizes of the convolutions of each branch",
    )
    channels: tuple[Size, ...] = Field(
        default=(2, 4, 6), min_length=1, description="outputs of the convolutions of a branch"
    )
    pools: tuple[Size, ...] = Field(
        default=(3, 4, 5),
        min_length=1,
        description="size and stride of the max-pooling after each convolution",
    )
    width: int = Field(
        default=32, ge=1, description="outputs of the linear layer: size of the representation"
    )
    standardise: bool = Field(
        default=True,
        description="each vector is first brought to mean 0 and variance 1, for encoders whose "
        "vectors have length 1",
    )
    dropout: float = Field(
        default=0.25, ge=0, lt=1, description="dropout of its inputs, in training"
    )

    embedding: Path | None = Field(
        default=None,
        exclude_if=equals(None),
        description="file of public word vectors (GloVe or fastText text format, .gz or plain): "
        "convolutions of `widths` then slide over the words of a text (Kim 2014), and the fields "
        "above, but dropout, stay at their defaults",
    )
    positions: Size = Field(
        default=64,
        exclude_if=equals(64),
        description="with embedding: words of a text that are read, its first ones",
    )
    widths: tuple[Size, ...] = Field(
        default=(3, 4, 5),
        min_length=1,
        exclude_if=equals((3, 4, 5)),
        description="with embedding: words that the convolution of each branch spans",
    )
    filters: Size = Field(
        default=100,
        exclude_if=equals(100),
        description="with embedding: outputs of each convolution, of which the largest over all "
        "positions is kept",
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The sentence encoder, or what reads word vectors."""
        return super().requires() if self.embedding is None else of_embedding(str(self.embedding))

    @model_validator(mode="after")
    def _one_network(self) -> TextCNNParams:
        of_words = ("positions", "widths", "filters")
        of_coordinates = ("pretrained", "kernels", "channels", "pools", "width", "standardise")
        over_words = self.embedding is not None
        for name in of_coordinates if over_words else of_words:
            value, default = getattr(self, name), type(self).model_fields[name].default
            if value != default:
                other = "without" if over_words else "with"
                raise ValueError(f"{name} is {value!r}: it is for text-cnn {other} embedding")
        if over_words and max(self.widths) > self.positions:
            raise ValueError(
                f"widths has {max(self.widths)}, and a text has {self.positions} positions"
            )
        return self

    @model_validator(mode="after")
    def _as_many(self) -> TextCNNParams:
        for sizes in (*self.kernels, self.pools):
            if len(sizes) != len(self.channels):
                raise ValueError(
                    f"channels has {len(self.channels)} numbers and {list(sizes)} has "
                    f"{len(sizes)}: give one for each convolution of a branch"
                )
        return self

    def layout(self) -> CNNLayout:
        """The convolutions."""
        from uedp_bench.models.networks.classifier import CNNLayout

        if self.embedding is not None:
            return CNNLayout(tuple((width,) for width in self.widths), (self.filters,), (None,))
        return CNNLayout(self.kernels, self.channels, self.pools)


class TextCNN(FrozenSentences[TextCNNParams]):
    """Convolutions over the coordinates of a sentence vector or the words of a text, in branches.

    With vectors of 768 numbers, two classes and no hidden layer of the task, 7,078 numbers are
    trained. Coordinates of such vectors have no order: `sentence-encoder` under the same task is a
    linear classifier to compare with.

    With a file of word vectors (`embedding`) a text is the vectors of its first `positions` words,
    which are not trained, and 0 where there is no word, or one that the file does not have. Each
    branch is one convolution over the words, and of each of its outputs the largest over all
    positions is kept: the "CNN-static" of Kim 2014, in front of the task's head.
    """

    name = "text-cnn"
    source = "Adams, Melanson and De Cock 2021, section 2 and figure 2; Kim 2014"
    Params = TextCNNParams

    @property
    def mask(self) -> str:
        """The mask of the encoder; over words, one that no file of vectors has."""
        return super().mask if self.params.embedding is None else "<dropped>"

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        """The vectors of `sentence-encoder`, standardised one by one unless told otherwise.

        Over words, (texts, d * positions): each coordinate of all words, one after the other.
        """
        if self.params.embedding is not None:
            return self._of_words(texts)
        vectors = super().features(texts, device, cache=cache)
        if not self.params.standardise:
            return vectors
        centred = vectors - vectors.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=1, keepdims=True) + _LEAST)
        return np.asarray(centred / scale, dtype=np.float32)

    def feature_size(self) -> int:
        """Size of a sentence's vector, or of the vectors of all words."""
        if self.params.embedding is not None:
            return self._embedding.dimension * self.params.positions
        return super().feature_size()

    def row_numbers(self, tokens: int, width: int) -> int:
        """Size of the largest tensor of a row: inputs or outputs of the first convolutions."""
        layout = self.params.layout()
        outputs = len(layout.kernels) * layout.channels[0] * self._shape()[1]
        return max(width, self.feature_size(), outputs)

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """The network on top of the vectors; see `TextEncoder`."""
        from uedp_bench.models.networks.classifier import TextCNN as Network

        p = self.params
        width = p.width if p.embedding is None else None
        return Network(self._shape(), p.layout(), width, p.dropout, seed)

    def _shape(self) -> tuple[int, int]:
        """Channels and positions of what the convolutions read."""
        if self.params.embedding is not None:
            return self._embedding.dimension, self.params.positions
        return 1, self.feature_size()

    @cached_property
    def _embedding(self) -> Embedding:
        from uedp_bench.text.word_vectors import read_embedding

        return read_embedding(str(self.params.embedding), f"{self.name}.embedding")

    def _of_words(self, texts: Sequence[str]) -> FeatureArray:
        public, positions = self._embedding, self.params.positions
        out = np.zeros((len(texts), public.dimension, positions), dtype=np.float32)
        for row, text in enumerate(texts):
            places = np.array([public.find(word) for word in text.split()[:positions]], dtype=int)
            has_vector = np.flatnonzero(places >= 0)
            out[row][:, has_vector] = public.vectors[places[has_vector]].T
        return out.reshape(len(texts), -1)
