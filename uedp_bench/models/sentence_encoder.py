"""Frozen sentence encoders: a document is the mean of its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field

from uedp_bench.api import FeatureArray, MayBePath, Params, Requirement
from uedp_bench.api.networks import TextEncoder, Vocabulary
from uedp_bench.text.pretrained import PretrainedModel, cached_vectors, tokenizer_of
from uedp_bench.text.sentences import SentenceEmbedder, document_means, split_sentences

if TYPE_CHECKING:
    from torch import nn

_MEANS = "means 2"  # another number where `split_sentences` ends sentences elsewhere


class SentenceParams(Params):
    """Name of the encoder."""

    pretrained: Annotated[str, MayBePath()] = Field(
        default="sentence-transformers/all-MiniLM-L6-v2",
        description="hub id or local directory of a model of sentence-transformers",
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The encoder itself."""
        return (*super().requires(), PretrainedModel(self.pretrained, "pretrained"))


class SentenceEncoderParams(SentenceParams):
    """Name of the encoder, and the layer trained on top of it."""

    projection: int | None = Field(
        default=None,
        ge=1,
        description="size of the representation: a linear layer on top of the encoder, trained "
        "with the classifier; without it the representation is the encoder's own",
    )


S = TypeVar("S", bound=SentenceParams)


class FrozenSentences(TextEncoder[S]):
    """The mean of the vectors of a document's sentences, by a pretrained encoder.

    The encoder is fixed: its vectors are computed once and kept on disk. Models differ in what is
    trained on top.
    """

    @property
    def _field(self) -> str:
        return f"{self.name}.pretrained"

    @cached_property
    def mask(self) -> str:
        """The tokenizer's mask, where it has one."""
        return str(tokenizer_of(self.params.pretrained, self._field).mask_token or "[MASK]")

    def frozen(self) -> bool:
        """Always."""
        return True

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Vocabulary:
        """Not of this model: it reads texts itself.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self.name} is frozen: it has no vocabulary here")

    def load_vocabulary(self, folder: Path) -> Vocabulary:
        """As `vocabulary`.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"{self.name} is frozen: it has no vocabulary here")

    def brings_vocabulary(self) -> bool:
        """The encoder has its own tokenizer."""
        return True

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        """Means over sentences; see `TextEncoder`."""
        embedder = SentenceEmbedder(self.params.pretrained, device, self._field)

        def means(some: Sequence[str]) -> FeatureArray:
            return document_means(split_sentences(some), embedder, cache=cache)

        if not texts:
            return means(texts)
        # Splitting takes seconds a thousand documents: their means are kept as well.
        return cached_vectors((_MEANS, version("spacy"), *embedder.key), texts, means, cache=cache)

    def feature_size(self) -> int:
        """Size of a sentence's vector."""
        return self._size

    @cached_property
    def _size(self) -> int:
        return SentenceEmbedder(self.params.pretrained, "cpu", self._field).size


class SentenceEncoder(FrozenSentences[SentenceEncoderParams]):
    """The mean of the vectors of a document's sentences, and a linear layer on top if asked for."""

    name = "sentence-encoder"
    source = "Reimers and Gurevych 2019; Meehan et al. 2022 (DeepCandidate), equation 1"
    Params = SentenceEncoderParams

    def has_plain_layers(self) -> bool:
        """Without a projection: what a projection gives is normalised."""
        return self.params.projection is None

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """The projection, if any; see `TextEncoder`."""
        from uedp_bench.models.networks.transformer_encoders import Projection

        return Projection(self.feature_size(), self.params.projection, seed)
