"""A small transformer with an encoder and a decoder, trained from scratch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from uedp_bench.api import Params
from uedp_bench.api.networks import PairVocabulary, TranslationModel
from uedp_bench.models.tokenizers import TokenizerVocabulary

if TYPE_CHECKING:
    from torch import nn

_START, _END = "<s>", "</s>"


class JointPieces(TokenizerVocabulary):
    """Byte-level byte-pair encoding of both languages (Sennrich et al. 2016, section 3.2).

    See `PairVocabulary`. A word has the same pieces wherever it stands in a text.

    Args:
        tokenizer: tokenizer that `trained` made.
        tags: words that are one id each, and in no translation.
        origin: origin in words.
        private: True if it was trained on private text.
    """

    def __init__(
        self, tokenizer: Any, tags: Sequence[str], *, origin: str, private: bool = False
    ) -> None:
        super().__init__(tokenizer, origin=origin, private=private)
        self.start = self.begin
        self.never: tuple[int, ...] = (self.begin, *tokenizer.convert_tokens_to_ids([*tags]))

    @staticmethod
    def trained(
        texts: Sequence[str], size: int, tags: Sequence[str], *, origin: str, private: bool
    ) -> JointPieces:
        """The vocabulary of some texts.

        Args:
            texts: texts of both languages.
            size: largest number of ids: 256 bytes, start, end and tags are among them.
            tags: words that are one id each, whatever the texts are.
            origin: see the class.
            private: see the class.
        """
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        tokenizer.decoder = decoders.ByteLevel()
        # A tag takes the white space around it: the word beside it has its usual pieces.
        own = [AddedToken(tag, lstrip=True, rstrip=True, normalized=False) for tag in tags]
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[_START, _END, *own],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        wrapped = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=_START, eos_token=_END
        )
        return JointPieces(wrapped, tags, origin=origin, private=private)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """See `PairVocabulary`: as those of texts."""
        return self.encode(texts)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids, without start and end, and without the space that every word begins with."""
        return super().decode(tokens).strip()

    @staticmethod
    def read(folder: Path, tags: Sequence[str]) -> JointPieces:
        """Read what `save` wrote, with the same tags."""
        from transformers import AutoTokenizer

        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return JointPieces(tokenizer, tags, origin=content["origin"], private=content["private"])


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
        from uedp_bench.models.networks.translators import (
            TransformerTranslator,
            TranslatorShape,
        )

        p = self.params
        shape = TranslatorShape(vocabulary.size, p.width, p.inner, p.layers, p.heads)
        return TransformerTranslator(shape, seed)
