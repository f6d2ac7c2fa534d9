"""A small transformer with an encoder and a decoder, trained from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from uedp_bench.component import Params
from uedp_bench.model import PairVocabulary, TranslationModel
from uedp_bench.models.vocabularies.joint_pieces import JointPieces

if TYPE_CHECKING:
    from torch import nn


class TransformerSmallParams(Params):
    """Sizes of the network and of its vocabulary."""

    vocabulary_size: int = Field(
        default=600,
        ge=300,
        description="most pieces of words of both languages; 256 bytes, start, end and the two "
        "tags of fragments are among them",
    )
    layers: int = Field(
        default=2, ge=1, description="layers of the encoder; the decoder has as many"
    )
    width: int = Field(default=128, ge=4, description="size of embeddings and layers")
    inner: int = Field(default=512, ge=1, description="size of the feed-forward layers")
    heads: int = Field(default=4, ge=1, description="heads of each attention")

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(
                f"width is {self.width}: it must be a multiple of twice the heads, "
                f"{2 * self.heads}, for each head rotates pairs of numbers"
            )
        return self


class TransformerSmall(TranslationModel[TransformerSmallParams]):
    """The transformer of Vaswani et al. with about a million parameters.

    Inputs of layers are normalised (pre-norm), and embeddings are shared by source, target and
    output. Positions are encoded by rotation (RoPE). There is no dropout.
    """

    name = "transformer-small"
    source = "Vaswani et al. 2017; Su et al. 2021 (RoPE); Sennrich et al. 2016 (joint pieces)"
    Params = TransformerSmallParams
    vectorised = False

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> PairVocabulary:
        """Pieces of words of both languages, with an entry for each tag."""
        size = self.params.vocabulary_size
        return JointPieces.trained(texts, size, self.TAGS, origin=origin, private=private)

    def load_vocabulary(self, folder: Path) -> PairVocabulary:
        """See `TextModel`."""
        return JointPieces.read(folder, self.TAGS)

    def build_translator(self, vocabulary: PairVocabulary, seed: int) -> nn.Module:
        """See `TranslationModel`."""
        from uedp_bench.models.networks.encoder_decoder import (
            TransformerTranslator,
            TranslatorShape,
        )

        p = self.params
        shape = TranslatorShape(vocabulary.size, p.width, p.inner, p.layers, p.heads)
        return TransformerTranslator(shape, seed)
