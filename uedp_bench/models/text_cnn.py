"""A small convolutional network on the vectors of a frozen sentence encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.model import FeatureArray, Vocabulary
from uedp_bench.models.sentence_encoder import FrozenSentences, SentenceParams

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.text_cnn import CNNLayout

_LEAST = 1e-12
"""The smallest variance that divides: a vector of equal numbers becomes 0."""

Size = Annotated[int, Field(ge=1, le=4096)]


class TextCNNParams(SentenceParams):
    """The encoder, and the network on top of it; the defaults are the paper's network."""

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
        from uedp_bench.models.networks.text_cnn import CNNLayout

        return CNNLayout(self.kernels, self.channels, self.pools)


class TextCNN(FrozenSentences[TextCNNParams]):
    """Convolutions over the coordinates of a sentence vector, in three branches.

    With vectors of 768 numbers, two classes and no hidden layer of the task, 7,078 numbers are
    trained. Coordinates of such vectors have no order: `sentence-encoder` under the same task is a
    linear classifier to compare with.
    """

    name = "text-cnn"
    source = "Adams, Melanson and De Cock 2021, section 2 and figure 2; Kim 2014"
    Params = TextCNNParams

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        """The vectors of `sentence-encoder`, standardised one by one unless told otherwise."""
        vectors = super().features(texts, device, cache=cache)
        if not self.params.standardise:
            return vectors
        centred = vectors - vectors.mean(axis=1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=1, keepdims=True) + _LEAST)
        return np.asarray(centred / scale, dtype=np.float32)

    def row_numbers(self, tokens: int, width: int) -> int:
        """Outputs of the first convolutions are the largest."""
        p = self.params
        return max(width, len(p.kernels) * p.channels[0] * self.feature_size())

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """The network on top of the vectors; see `TextEncoder`."""
        from uedp_bench.models.networks.text_cnn import TextCNN as Network

        p = self.params
        return Network(self.feature_size(), p.layout(), p.width, p.dropout, seed)
