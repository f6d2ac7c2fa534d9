"""A vocabulary of word pieces that two languages share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uedp_bench.models.vocabularies.tokenizer import TokenizerVocabulary

_START, _END = "<s>", "</s>"


class JointPieces(TokenizerVocabulary):
    """Byte-level byte-pair encoding of both languages (Sennrich et al. 2016, section 3.2).

    See `PairVocabulary`. A word has the same pieces wherever it stands in a text.

    Args:
        tokenizer: that `trained` made.
        tags: words that are one id each, and in no translation.
        origin: where it comes from, in words.
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
            texts: of both languages.
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
        """What `save` wrote, with the same tags."""
        from transformers import AutoTokenizer

        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return JointPieces(tokenizer, tags, origin=content["origin"], private=content["private"])
