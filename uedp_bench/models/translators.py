"""Translation models: Marian (OPUS-MT) from a folder, and a small one trained from scratch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, model_validator

from uedp_bench.api import InputError, MayBePath, Params, Requirement
from uedp_bench.api.networks import PairVocabulary, TranslationModel
from uedp_bench.components.component import SENTENCEPIECE
from uedp_bench.models.tokenizers import TokenizerVocabulary

if TYPE_CHECKING:
    from torch import nn


class MarianPieces(TokenizerVocabulary):
    """A `MarianTokenizer` with an id for each tag; see `PairVocabulary`.

    Args:
        tokenizer: tokenizer of `transformers`; tags that it does not know are added after its own
            ids.
        tags: words that are one id each, and in no translation.
        start: id that the decoder begins with (Marian's padding).
        origin: origin in words.
    """

    def __init__(self, tokenizer: Any, tags: Sequence[str], start: int, *, origin: str) -> None:
        tokenizer.add_tokens([*tags], special_tokens=True)
        super().__init__(tokenizer, origin=origin)
        self.start = start
        ids = tokenizer.convert_tokens_to_ids([*tags])
        self.never: tuple[int, ...] = (*{start, tokenizer.pad_token_id}, *ids)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """See `PairVocabulary`."""
        if not texts:
            return []
        ids_of_texts = self._tokenizer(
            text_target=list(texts), add_special_tokens=False, verbose=False
        )["input_ids"]
        return [list(ids) for ids in ids_of_texts]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids of a translation, without start, end and tags."""
        kept = [int(i) for i in tokens if i not in (self.start, self.end)]
        return str(self._tokenizer.decode(kept, skip_special_tokens=True)).strip()

    def save(self, folder: Path) -> None:
        """Write the tokenizer, and `vocabulary.json`."""
        super().save(folder)
        file = folder / "vocabulary.json"
        content = json.loads(file.read_text(encoding="utf-8")) | {"start": self.start}
        file.write_text(json.dumps(content), encoding="utf-8")

    @staticmethod
    def read(folder: Path, tags: Sequence[str]) -> MarianPieces:
        """Read what `save` wrote, with the same tags."""
        from transformers import MarianTokenizer

        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
        return MarianPieces(tokenizer, tags, content["start"], origin=content["origin"])


_HELD = ("config.json", "vocab.json", "source.spm", "target.spm")


class MarianParams(Params):
    """Folder of the weights."""

    pretrained: Annotated[Path, MayBePath(holds=_HELD)] = Field(
        description="local folder of a Marian model in the format of transformers: config.json, "
        "weights, vocab.json, source.spm and target.spm (such as Helsinki-NLP/opus-mt-de-en)"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The library of the pieces."""
        return (*super().requires(), SENTENCEPIECE)


class Marian(TranslationModel[MarianParams]):
    """A pretrained transformer of Marian NMT, such as those of OPUS-MT (Tiedemann et al. 2020).

    Tags of fragments are added to its vocabulary before anything is trained; their vectors are
    drawn by the seed. There is no dropout: a row's loss must not depend on the rows beside it.
    """

    name = "marian"
    source = "Junczys-Dowmunt et al. 2018 (Marian); Tiedemann and Thottingal 2020 (OPUS-MT)"
    Params = MarianParams
    vectorised = False

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> PairVocabulary:
        """The pretrained tokenizer; the texts are not used.

        Raises:
            InputError: if the folder cannot be read.
            MissingExtraError: if sentencepiece is not installed.
        """
        SENTENCEPIECE.check()
        from transformers import MarianTokenizer

        folder = self.params.pretrained
        with _readable(folder):
            tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
            start = int(self._configuration().decoder_start_token_id)
        return MarianPieces(tokenizer, self.TAGS, start, origin=f"tokenizer of {folder.name}")

    def load_vocabulary(self, folder: Path) -> PairVocabulary:
        """See `TextModel`."""
        return MarianPieces.read(folder, self.TAGS)

    def brings_vocabulary(self) -> bool:
        """Marian comes with its tokenizer."""
        return True

    def max_length(self) -> int | None:
        """Positions that the network has."""
        with _readable(self.params.pretrained):
            return int(self._configuration().max_position_embeddings)

    def build_translator(self, vocabulary: PairVocabulary, seed: int) -> nn.Module:
        """See `TranslationModel`.

        Raises:
            InputError: if the folder cannot be read.
        """
        import torch
        from transformers import MarianMTModel

        from uedp_bench.models.networks.translators import MarianNetwork
        from uedp_bench.text.pretrained import no_progress_bars

        with _readable(self.params.pretrained), no_progress_bars():
            network = MarianMTModel.from_pretrained(
                self.params.pretrained, dtype=torch.float32, local_files_only=True
            )
        if network.config.vocab_size < vocabulary.size:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network.resize_token_embeddings(vocabulary.size)
        return MarianNetwork(network)

    def _configuration(self) -> Any:
        from transformers import MarianConfig

        return MarianConfig.from_pretrained(self.params.pretrained, local_files_only=True)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn the library's error about a folder into a message about the parameter."""
    if not folder.is_dir():
        raise InputError(f"marian.pretrained: {folder} is no folder")
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"marian.pretrained: {folder} holds no Marian model that can be read: {message}"
        ) from None


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
        from uedp_bench.models.networks.translators import TransformerTranslator, TranslatorShape

        p = self.params
        shape = TranslatorShape(vocabulary.size, p.width, p.inner, p.layers, p.heads)
        return TransformerTranslator(shape, seed)
